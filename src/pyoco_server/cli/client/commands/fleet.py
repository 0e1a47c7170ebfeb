"""The commands for operators: workers, metrics and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.submit import print_submitted
from pyoco_server.cli.client.completions import flow_names, routing_tags
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import exit_code, follow_run
from pyoco_server.cli.client.ids import remember_last
from pyoco_server.cli.stdout import show, write, write_json
from pyoco_server.cli.suggestions import command_line
from pyoco_server.cli.tables import Table, first_line, moment, text
from pyoco_server.cli.terminal_escape import escape_lines
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import WorkerState


def _installed_wheels(sync: Any) -> str:
    if not isinstance(sync, Mapping):
        return "-"
    result, installed, failed = sync.get("last_result"), sync.get("installed_count"), sync.get("failed_count")
    if result == "partial" and failed:
        return f"{text(installed)} ({text(failed)} failed)"
    return f"{text(installed)} ({text(result)})" if result not in ("ok", None) else text(installed)


def _code(code: Any) -> str:
    if not isinstance(code, Mapping) or not code.get("version"):
        return "-"
    note = " (broken)" if code.get("error") else " (files changed)" if code.get("changed") else ""
    return f"{text(code['version'])}{note}"


WORKERS = Table(
    ("WORKER_ID", "worker_id"),
    ("STATE", "state"),
    ("TAGS", "tags"),
    ("SLOTS", "slots"),
    ("LAST_SEEN", "last_seen_at", moment),
    ("RUN", "current_run_id"),
    ("HIDDEN", lambda worker: "yes" if worker.get("hidden") else None),
    ("FLOWS", "flows", lambda names: str(len(names)) if isinstance(names, list) and names else "-"),
    ("CODE", "code", _code),
    ("ISOLATION", "isolation"),
    ("WHEELS", "wheel_sync", _installed_wheels),
)
DEAD_LETTERS = Table(
    ("SEQ", "seq"),
    ("TIME", "timestamp", moment),
    ("REASON", "reason"),
    ("RUN_ID", "run_id"),
    ("FLOW", "flow_name"),
    ("TAG", "tag"),
    ("WORKER", "worker_id"),
    ("ERROR", "error", first_line),
)


@remote_command
def workers(
    target: Target,
    scope: Annotated[
        Literal["active", "all"] | None, Option(help="active (the default): without stopped ones.")
    ] = None,
    state: Annotated[WorkerState | None, Option(case_sensitive=False, help="Only workers in this state.")] = None,
    include_hidden: Annotated[bool, Option("--include-hidden", help="Also list hidden workers.")] = False,
    limit: Annotated[int | None, Option(min=1, max=500, help="How many at most.")] = None,
    hide: Annotated[str | None, Option(metavar="WORKER_ID", help="Hide this worker from lists.")] = None,
    unhide: Annotated[str | None, Option(metavar="WORKER_ID", help="Show it in lists again.")] = None,
    form: opt.ListOutput = "json",
) -> None:
    """List the workers, or hide one from the lists."""
    if hide and unhide:
        example = command_line(["workers", "--hide", hide])
        raise InvalidUsage("--hide and --unhide exclude each other", example=example)
    worker_id = hide or unhide
    if worker_id:
        opt.valid_id("a worker id", worker_id, "worker-1")
    with connected(target) as client:
        if worker_id:
            write_json(client.patch_worker(worker_id, hidden=hide is not None))
            return
        found = client.list_workers(scope=scope, state=state, include_hidden=include_hidden or None, limit=limit)
    show(form, found, WORKERS)


@remote_command
def metrics(target: Target) -> None:
    """Print the metrics of the server in the format of Prometheus."""
    with connected(target) as client:
        write(escape_lines(client.get_metrics()).rstrip("\n"))


@remote_command
def dlq(
    target: Target,
    reason: Annotated[str | None, Option(help="Only of this reason, such as execution_error or max_deliver.")] = None,
    tag: Annotated[
        str | None,
        Option("--tag", "--queue", help="Only jobs with this routing tag.", autocompletion=routing_tags),
    ] = None,
    flow: Annotated[str | None, Option("--flow", help="Only jobs of this flow.", autocompletion=flow_names)] = None,
    limit: opt.LimitOption = None,
    cursor: opt.CursorOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List the dead letters (failed jobs), newest first."""
    with connected(target) as client:
        page = client.list_dead_letters(reason=reason, tag=tag, flow=flow, limit=limit, cursor=cursor)
    show(form, page, DEAD_LETTERS)


@remote_command
def dlq_replay(
    target: Target,
    seq: Annotated[int, Option("--seq", min=1, help="The number of the dead letter, as `dlq` shows it.")],
    watch: Annotated[bool, Option("--watch", help="Show the new run while it runs, as `watch` does.")] = False,
    timeout_sec: opt.TimeoutOption = None,
) -> int:
    """Run the job of a dead letter again, as a new run with the same flow, params, tag, labels and YAML."""
    opt.check_timeout(timeout_sec, waits=watch, option="--watch")
    with connected(target) as client:
        replayed = client.replay_dead_letter(seq)
        remember_last(target, client, replayed["run_id"])
        if not watch:
            write_json(replayed)
            return output.OK
        print_submitted(replayed["run_id"])
        return exit_code(follow_run(client, replayed["run_id"], "status", timeout_sec).get("status"))
