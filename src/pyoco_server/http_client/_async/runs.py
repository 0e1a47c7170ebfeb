"""Methods for runs: submit, read, list, watch, wait, cancel, logs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

from pyoco_server.http_client._async.base import AsyncMethods
from pyoco_server.http_client.models.runs import (
    TERMINAL,
    LogEntry,
    Rerun,
    RunAccepted,
    RunExplanation,
    RunLogs,
    RunPage,
    RunSnapshot,
    RunSummary,
    RunTasks,
    RunWatchEvent,
)
from pyoco_server.http_client.requests import (
    AsOf,
    Request,
    Strings,
    Time,
    change,
    get,
    ranges,
    read_array,
    read_page,
    run_path,
    to_strings,
    to_time,
)

# The gateway answers with the first line, so that a longer wait would save nothing.
MAX_LOG_WAIT_SEC = 20.0
SHORT_LOG_WAIT_SEC = 0.5
MAX_LOG_LINES = 10_000


class AsyncRunMethods(AsyncMethods):
    async def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timeout_sec: float | None = None,
        *,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> RunAccepted:
        """Run a flow that the workers of `tag` have. Once it is accepted, no crash of any process can lose it.

        A run that takes longer than `timeout_sec` is stopped and FAILED; time in the queue does not count. `strict`:
        InvalidRequest for an unknown flow, parameter or tag, as far as the running workers announce all of their flows;
        otherwise the answer has `warnings`.
        """
        body = {
            "flow_name": flow_name,
            "params": dict(params or {}),
            "tag": tag,
            "tags": None if tags is None else to_strings(tags),
            "timeout_sec": timeout_sec,
            "strict": strict or None,
        }
        return await self._transport.send(change("POST", "/runs", idempotency_key, body, creates=True))

    async def submit_run_yaml(
        self,
        workflow_yaml: str | bytes,
        tag: str | None = None,
        flow_name: str = "main",
        timeout_sec: float | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> RunAccepted:
        """Run the flow of a flow.yaml; `workflow_yaml` is its text, not its path. `params` override its defaults."""
        text = workflow_yaml.encode() if isinstance(workflow_yaml, str) else workflow_yaml
        fields = {"flow_name": flow_name}
        if tag is not None:
            fields["tag"] = tag
        if timeout_sec is not None:
            fields["timeout_sec"] = repr(timeout_sec)
        if params:
            fields["params"] = json.dumps(dict(params), ensure_ascii=False, allow_nan=False)
        if strict:
            fields["strict"] = "true"
        files = {"workflow": ("flow.yaml", text, "application/yaml")}
        return await self._transport.send(
            change("POST", "/runs/yaml", idempotency_key, fields=fields, files=files, creates=True)
        )

    async def get_run(self, run_id: str, include: Strings = None, at: AsOf | None = None) -> RunSnapshot:
        """The current state of a run, or its state at a time or a version; `include="records"` adds what each task
        returned."""
        return await self._transport.send(get(run_path(run_id), include=include, at=to_time(at)))

    async def get_tasks(self, run_id: str) -> RunTasks:
        """The tasks of a run with their records."""
        return await self._transport.send(get(f"{run_path(run_id)}/tasks"))

    async def explain_run(self, run_id: str) -> RunExplanation:
        """Why the run is not running, or why it ended this way, and what to do about it."""
        return await self._transport.send(get(f"{run_path(run_id)}/explain"))

    async def list_runs(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Strings = None,
        limit: int | None = None,
        include: Strings = None,
        *,
        submitted_after: Time | None = None,
        submitted_before: Time | None = None,
        id_prefix: str | None = None,
    ) -> list[RunSummary]:
        """The most recently changed runs, newest first; a run matches if it has all labels in `tags`.

        Submitted at `submitted_after` or later, and earlier than `submitted_before`.
        """
        return await self._transport.send(
            get(
                "/runs",
                read=read_array,
                status=status,
                flow=flow,
                tag=tag,
                tags=tags,
                limit=limit,
                include=include,
                **ranges(submitted_after, submitted_before, id_prefix),
            )
        )

    async def list_runs_vnext(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Strings = None,
        limit: int | None = None,
        include: Strings = None,
        updated_after: float | None = None,
        cursor: str | None = None,
        workflow_yaml_sha256: str | None = None,
        *,
        submitted_after: Time | None = None,
        submitted_before: Time | None = None,
        id_prefix: str | None = None,
        error: str | None = None,
    ) -> RunPage:
        """One page of runs; pass its `next_cursor` as `cursor` to get the next page.

        `error`: their error contains this text, in any case. Such a page may be short or empty without being the last.
        """
        return await self._transport.send(
            get(
                "/runs",
                read=read_page(),
                cursor=cursor or "",  # without a cursor the gateway would answer with a bare list
                status=status,
                flow=flow,
                tag=tag,
                tags=tags,
                limit=limit,
                include=include,
                updated_after=updated_after,
                workflow_yaml_sha256=workflow_yaml_sha256,
                error=error,
                **ranges(submitted_after, submitted_before, id_prefix),
            )
        )

    def iter_runs(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Strings = None,
        limit: int | None = None,
        include: Strings = None,
        updated_after: float | None = None,
        workflow_yaml_sha256: str | None = None,
        *,
        submitted_after: Time | None = None,
        submitted_before: Time | None = None,
        id_prefix: str | None = None,
        error: str | None = None,
    ) -> AsyncGenerator[RunSummary, None]:
        """All matching runs, in pages of `limit`. A run that changes meanwhile may appear again."""
        request: Request[Any] = get(
            "/runs",
            read=read_page(),
            status=status,
            flow=flow,
            tag=tag,
            tags=tags,
            limit=limit,
            include=include,
            updated_after=updated_after,
            workflow_yaml_sha256=workflow_yaml_sha256,
            error=error,
            **ranges(submitted_after, submitted_before, id_prefix),
            cursor="",
        )
        return self._transport.pages(request, "cursor", "next_cursor")

    def watch(
        self, run_id: str, include: Strings = None, since: float | None = None, timeout_sec: float | None = None
    ) -> AsyncGenerator[RunWatchEvent, None]:
        """Events of a run as they happen, until its terminal snapshot or until `timeout_sec` have passed.

        A lost connection is opened again and resumes where it was lost.
        """
        return self._streams.watch(run_id, include, since, timeout_sec)

    async def wait(self, run_id: str, timeout_sec: float | None = None) -> RunSnapshot:
        """The finished run, however it ended; `result` is what a completed one returned.

        WaitTimeout if that takes longer than `timeout_sec`.
        """
        return await self._streams.wait(run_id, timeout_sec)

    async def cancel_run(
        self,
        run_id: str,
        wait: bool = False,
        timeout_sec: float | None = None,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> RunSnapshot:
        """Cancel a run; with `wait`, return when it has stopped. A finished run is returned as it is."""
        body = None if reason is None else {"reason": reason}
        snapshot: RunSnapshot = await self._transport.send(
            change("POST", f"{run_path(run_id)}/cancel", idempotency_key, body)
        )
        if not wait or snapshot.get("status") in TERMINAL:
            return snapshot
        return await self._streams.wait(run_id, timeout_sec)

    async def rerun(
        self,
        run_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        idempotency_key: str | None = None,
    ) -> Rerun:
        """Run it again as a new run with the same flow, params, tag, labels and YAML; `params` override those of the
        original."""
        body = {"params": dict(params or {}), "strict": strict or None}
        return await self._transport.send(
            change("POST", f"{run_path(run_id)}/rerun", idempotency_key, body, creates=True)
        )

    async def get_run_logs(
        self,
        run_id: str,
        since_token: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
        wait_sec: float | None = None,
        *,
        from_line: int | None = None,
        search: str | None = None,
        case_sensitive: bool | None = None,
        task: str | None = None,
        level: str | None = None,
    ) -> RunLogs:
        """The log lines so far, from a token or a line number on, or the last `tail` lines.

        With `wait_sec` (30 at most, and less than the client's timeout) the gateway waits that long for the first line.
        `search` (a text; upper-case letters make case count), `task` and `level` select lines; such a page may be empty
        before the end.
        """
        return await self._transport.send(
            get(
                f"{run_path(run_id)}/logs",
                read=read_page(),
                since_token=since_token or None,
                limit=limit,
                tail=tail,
                wait_sec=wait_sec,
                from_line=from_line,
                q=search,
                case_sensitive=case_sensitive,
                task=task,
                level=level,
            )
        )

    async def search_run_logs(
        self,
        run_id: str,
        text: str,
        *,
        case_sensitive: bool | None = None,
        task: str | None = None,
        level: str | None = None,
    ) -> AsyncGenerator[LogEntry, None]:
        """The stored lines with a text, as the gateway finds them; upper-case letters make case count."""
        token, page = None, None
        while page is None or page["scanned_to"] < page["lines"]:
            page = await self.get_run_logs(
                run_id, token, MAX_LOG_LINES, search=text, case_sensitive=case_sensitive, task=task, level=level
            )
            for entry in page["items"]:
                yield entry
            token = page["next_token"]

    async def follow_run_logs(
        self, run_id: str, since_token: str | None = None, tail: int | None = None
    ) -> AsyncGenerator[LogEntry, None]:
        """All log lines of a run as they are written, until it is over; with `tail` only the last ones of the existing
        lines."""
        connection = self._transport.connection
        # Well within the timeout of one attempt.
        wait_sec = min(MAX_LOG_WAIT_SEC, connection.timeout_sec / 2)
        while True:
            asked_at = connection.timing.monotonic()
            page = await self.get_run_logs(run_id, since_token, tail=tail, wait_sec=wait_sec)
            for entry in page["items"]:
                yield entry
            if page.get("complete"):
                return
            since_token, tail = page["next_token"], None
            if not page["items"] and connection.timing.monotonic() - asked_at < SHORT_LOG_WAIT_SEC:
                await self._transport.sleep(SHORT_LOG_WAIT_SEC)  # a gateway that shuts down does not wait
