"""`AsyncPyocoHttpClient`: what a gateway can be asked, as methods to await.

What they do stands in `calls` and the scripts. httpx is loaded when the first client is made, not when this module is:
a program that only shows its help need not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyoco_server.http_client import calls
from pyoco_server.http_client.async_execution_methods import AsyncExecutionMethods
from pyoco_server.http_client.async_job_methods import AsyncJobMethods
from pyoco_server.http_client.async_node_methods import AsyncNodeMethods
from pyoco_server.http_client.call_parts import Words
from pyoco_server.http_client.connection import DEFAULT_TIMEOUT_SEC, Timing, connection
from pyoco_server.http_client.retry import DEFAULT_RETRIES, DEFAULT_WITHIN_SEC, Patience
from pyoco_server.http_client.shapes import (
    DeadLetterPage,
    Health,
    LogEntry,
    Replayed,
    RunAccepted,
    RunExplanation,
    RunLogs,
    RunPage,
    RunSnapshot,
    RunSummary,
    RunTasks,
    RunWatchEvent,
    WheelArtifact,
    WheelDeleted,
    WheelHistoryEvent,
    WheelReceived,
    WorkerPatched,
    WorkerRecord,
)
from pyoco_server.http_client.wheel_files import (
    Progress,
    WheelData,
    WheelTarget,
    as_part,
    opened,
    receiving,
    sha256_hex,
)

if TYPE_CHECKING:
    import httpx


class AsyncPyocoHttpClient(AsyncExecutionMethods, AsyncNodeMethods, AsyncJobMethods):
    """A client of one gateway; close it, or use it in an `async with`. May be shared by tasks.

    The address is `base_url`, else PYOCO_SERVER, else http://127.0.0.1:8000; the API key is `api_key`, else
    PYOCO_API_KEY; `token` is a bearer token. `timeout` (seconds) holds for one try. A try that failed is repeated, at
    most `retries` times and within `retry_within_sec`. What changes something carries an idempotency key, of its own or
    the caller's `idempotency_key`, so that it is done once, however often it is sent. Errors are those of
    `pyoco_server.http_client.errors`; an argument that no gateway could accept is a ValueError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_SEC,
        retries: int = DEFAULT_RETRIES,
        retry_within_sec: float = DEFAULT_WITHIN_SEC,
        api_key_header: str = "X-API-Key",
        language: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing | None = None,
    ) -> None:
        from pyoco_server.http_client import async_wire, log_reading, scripts, watching, wheel_scripts

        self._connection = connection(
            base_url,
            api_key=api_key,
            token=token,
            timeout=timeout,
            patience=Patience(retries=retries, within_sec=retry_within_sec),
            api_key_header=api_key_header,
            language=language,
            timing=timing or Timing(),
        )
        self._scripts, self._watching, self._wheels = scripts, watching, wheel_scripts
        self._log_reading = log_reading
        self._wire = async_wire.AsyncWire(self._connection, transport)

    @property
    def base_url(self) -> str:
        """The gateway's address, without credentials."""
        return self._connection.base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    async def __aenter__(self) -> AsyncPyocoHttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the client cannot be used any more."""
        await self._wire.close()

    async def health(self) -> Health:
        """Whether the gateway is alive, and whether it reaches its broker."""
        return await self._send(calls.health())

    async def submit_run(
        self,
        flow_name: str,
        params: Mapping[str, Any] | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timeout_sec: float | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> RunAccepted:
        """Have a flow run that the workers of `tag` know. Once it is answered no kill of any process can lose it.

        A run that takes longer than `timeout_sec` is stopped and FAILED; time in the queue does not count.
        """
        return await self._send(calls.submit_run(flow_name, params, tag, tags, timeout_sec, idempotency_key))

    async def submit_run_yaml(
        self,
        workflow_yaml: str | bytes,
        tag: str | None = None,
        flow_name: str = "main",
        timeout_sec: float | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> RunAccepted:
        """Have the flow run that this flow.yaml describes; `workflow_yaml` is its text, not its path."""
        return await self._send(calls.submit_run_yaml(workflow_yaml, tag, flow_name, timeout_sec, idempotency_key))

    async def get_run(self, run_id: str, include: Words = None) -> RunSnapshot:
        """The run as it is now; `include="records"` adds what each task returned."""
        return await self._send(calls.get_run(run_id, include))

    async def get_tasks(self, run_id: str) -> RunTasks:
        """The tasks of a run with their records."""
        return await self._send(calls.get_tasks(run_id))

    async def explain_run(self, run_id: str) -> RunExplanation:
        """Why the run is not running, or why it ended so, and what to do about it."""
        return await self._send(calls.explain_run(run_id))

    async def list_runs(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Words = None,
        limit: int | None = None,
        include: Words = None,
    ) -> list[RunSummary]:
        """The runs that changed last, newest first; a run has all of the labels in `tags`."""
        return await self._send(
            calls.list_runs(status=status, flow=flow, tag=tag, tags=tags, limit=limit, include=include)
        )

    async def list_runs_vnext(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Words = None,
        limit: int | None = None,
        include: Words = None,
        updated_after: float | None = None,
        cursor: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> RunPage:
        """One page of runs; its `next_cursor`, given as `cursor`, brings the next."""
        return await self._send(
            calls.list_runs_page(
                cursor=cursor,
                status=status,
                flow=flow,
                tag=tag,
                tags=tags,
                limit=limit,
                include=include,
                updated_after=updated_after,
                workflow_yaml_sha256=workflow_yaml_sha256,
            )
        )

    def iter_runs(
        self,
        status: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
        tags: Words = None,
        limit: int | None = None,
        include: Words = None,
        updated_after: float | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> AsyncGenerator[RunSummary, None]:
        """All runs that match, page after page of `limit` runs each. One that changes meanwhile may come again."""
        return self._wire.tell(
            self._scripts.all_runs(
                self._connection,
                status=status,
                flow=flow,
                tag=tag,
                tags=tags,
                limit=limit,
                include=include,
                updated_after=updated_after,
                workflow_yaml_sha256=workflow_yaml_sha256,
            )
        )

    def watch(
        self,
        run_id: str,
        include: Words = None,
        since: float | None = None,
        timeout_sec: float | None = None,
    ) -> AsyncGenerator[RunWatchEvent, None]:
        """What is heard of a run, as it happens, until its terminal snapshot or until `timeout_sec` have passed.

        A lost connection is made again and goes on where it was lost.
        """
        return self._wire.tell(self._watching.watch(self._connection, run_id, include, since, timeout_sec))

    async def wait(self, run_id: str, timeout_sec: float | None = None) -> RunSnapshot:
        """The run once it is finished, however it ended; WaitTimeout when that takes longer than `timeout_sec`."""
        return await self._wire.run(self._watching.wait(self._connection, run_id, timeout_sec))

    async def cancel_run(
        self,
        run_id: str,
        wait: bool = False,
        timeout_sec: float | None = None,
        reason: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> RunSnapshot:
        """Stop a run; with `wait`, come back when it has stopped. A finished run is shown as it is."""
        call = calls.cancel_run(run_id, reason, idempotency_key)
        return await self._wire.run(
            self._watching.cancel(self._connection, call, run_id, waits=wait, timeout_sec=timeout_sec)
        )

    async def get_run_logs(
        self,
        run_id: str,
        since_token: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
        wait_sec: float | None = None,
    ) -> RunLogs:
        """What the run has written so far, from a token on, or its last `tail` lines.

        With `wait_sec` (30 at most, and less than the client's timeout) the gateway waits so long for the first line.
        """
        return await self._send(calls.get_run_logs(run_id, since_token, limit, tail, wait_sec))

    def follow_run_logs(
        self, run_id: str, since_token: str | None = None, tail: int | None = None
    ) -> AsyncGenerator[LogEntry, None]:
        """Every line that the run has written and writes, as it writes them, until it is over; with `tail` only the
        last ones of those that are there."""
        return self._wire.tell(self._log_reading.follow(self._connection, run_id, since_token, tail))

    async def list_workers(
        self,
        scope: str | None = None,
        state: str | None = None,
        include_hidden: bool | None = None,
        limit: int | None = None,
    ) -> list[WorkerRecord]:
        """The workers there are: those at work or ready, or with `scope="all"` the others too."""
        return await self._send(
            calls.list_workers(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
        )

    async def patch_worker(self, worker_id: str, hidden: bool, *, idempotency_key: str | None = None) -> WorkerPatched:
        """Hide a worker from lists, or show it again. It works on either way."""
        return await self._send(calls.patch_worker(worker_id, hidden, idempotency_key))

    async def list_dead_letters(
        self,
        reason: str | None = None,
        tag: str | None = None,
        flow: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeadLetterPage:
        """Jobs that went wrong, newest first, one page; its `next_cursor`, given as `cursor`, brings the next."""
        return await self._send(calls.list_dead_letters(reason=reason, tag=tag, flow=flow, limit=limit, cursor=cursor))

    async def replay_dead_letter(self, seq: int, *, idempotency_key: str | None = None) -> Replayed:
        """Run the job of a dead letter again, as a new run; Conflict where there is nothing to run."""
        return await self._send(calls.replay_dead_letter(seq, idempotency_key))

    async def list_wheels(self) -> list[WheelArtifact]:
        """The registered wheels, by name."""
        return await self._send(calls.list_wheels())

    async def list_wheel_history(
        self, limit: int | None = None, wheel_name: str | None = None, action: str | None = None
    ) -> list[WheelHistoryEvent]:
        """What was done to wheels, the newest first; `action` is `upload` or `delete`."""
        return await self._send(calls.list_wheel_history(limit=limit, wheel_name=wheel_name, action=action))

    async def upload_wheel(
        self,
        filename: str,
        data: WheelData,
        replace: bool = True,
        tags: Words = None,
        *,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> WheelArtifact:
        """Register a wheel: bytes, a path, or a file, which is read piece by piece.

        WheelVersionConflict unless it is newer than every registered version of its package, whatever `replace` says.
        """
        with opened(data) as file:
            call = calls.upload_wheel(filename, as_part(file, progress), replace, tags, idempotency_key)
            return await self._wire.run(self._wheels.upload(call, self._connection, filename, lambda: sha256_hex(file)))

    async def download_wheel(
        self, wheel_name: str, to: WheelTarget, *, progress: Progress | None = None
    ) -> WheelReceived:
        """Write a wheel to a path, into a folder, or into an open file: all that was uploaded, or it raises."""
        size = 0
        with receiving(to, wheel_name) as file:
            async for piece, total in self._wire.tell(self._wheels.download(wheel_name, self._connection)):
                await asyncio.to_thread(file.write, piece)
                size += len(piece)
                if progress is not None:
                    progress(size, total)
        return {"name": wheel_name, "size_bytes": size}

    async def delete_wheel(self, wheel_name: str, *, idempotency_key: str | None = None) -> WheelDeleted:
        """Remove a wheel; workers that installed it take it away at their next look."""
        return await self._wire.run(self._wheels.delete(wheel_name, self._connection, idempotency_key))

    async def get_metrics(self) -> str:
        """The gateway's figures in the text format of Prometheus."""
        return await self._send(calls.get_metrics())
