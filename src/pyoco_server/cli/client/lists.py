"""The commands that show many things: runs, workers, figures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.options import (
    IncludeOption,
    LabelsOption,
    LimitOption,
    ListOutput,
    Status,
    checked_id,
    labels,
)
from pyoco_server.cli.client.render import RUN_HEAD, WORKER_HEAD, run_row, worker_row
from pyoco_server.cli.plain import lines
from pyoco_server.errors import InvalidUsage

StatusOption = Annotated[Status | None, typer.Option(case_sensitive=False, help="Only runs of this status.")]
FlowOption = Annotated[str | None, typer.Option("--flow", help="Only runs of this flow.")]
TagFilter = Annotated[str | None, typer.Option("--tag", help="Only runs with this routing tag.")]
State = Literal["RUNNING", "IDLE", "STOPPED_GRACEFUL", "DISCONNECTED"]


@reaches_server
def list_runs(
    where: Where,
    status: StatusOption = None,
    flow: FlowOption = None,
    tag: TagFilter = None,
    tags: LabelsOption = None,
    limit: LimitOption = None,
    include: IncludeOption = None,
    form: ListOutput = "json",
) -> None:
    """List runs, those that changed last first."""
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": labels(tags)}
    with connected(where) as client:
        runs = client.list_runs(**filters, limit=limit, include=include or None)
    if form == "json":
        screen.write_json(runs)
    else:
        screen.write_table(RUN_HEAD, [run_row(run) for run in runs])


@reaches_server
def list_vnext(
    where: Where,
    status: StatusOption = None,
    flow: FlowOption = None,
    tag: TagFilter = None,
    tags: LabelsOption = None,
    limit: LimitOption = None,
    include: IncludeOption = None,
    updated_after: Annotated[
        float | None, typer.Option(metavar="UNIX_SEC", help="Only runs that changed after this time.")
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended: its next_cursor.")] = None,
    workflow_yaml_sha256: Annotated[
        str | None, typer.Option("--workflow-yaml-sha256", "--sha256", help="Only runs of this very flow.yaml.")
    ] = None,
    form: ListOutput = "json",
) -> None:
    """List runs page by page: items, and the cursor of the next page."""
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": labels(tags)}
    with connected(where) as client:
        page = client.list_runs_vnext(
            **filters,
            limit=limit,
            include=include or None,
            updated_after=updated_after,
            cursor=cursor,
            workflow_yaml_sha256=workflow_yaml_sha256,
        )
    if form == "json":
        screen.write_json(page)
    else:
        screen.write_page(page, RUN_HEAD, run_row)


@reaches_server
def workers(
    where: Where,
    scope: Annotated[
        Literal["active", "all"] | None, typer.Option(help="active (the default) leaves out the gone.")
    ] = None,
    state: Annotated[State | None, typer.Option(case_sensitive=False, help="Only workers in this state.")] = None,
    include_hidden: Annotated[bool, typer.Option("--include-hidden", help="Hidden ones too.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, max=500, help="How many at most.")] = None,
    hide: Annotated[str | None, typer.Option(metavar="WORKER_ID", help="Leave this worker out of lists.")] = None,
    unhide: Annotated[str | None, typer.Option(metavar="WORKER_ID", help="Show it in lists again.")] = None,
    form: ListOutput = "json",
) -> None:
    """List the workers, or hide one that is gone for good from the lists."""
    if hide and unhide:
        raise InvalidUsage("--hide and --unhide exclude each other", example=f"pyoco-client workers --hide {hide}")
    named = hide or unhide
    if named:
        checked_id("a worker id", named, "worker-1")
    with connected(where) as client:
        if named:
            screen.write_json(client.patch_worker(named, hidden=hide is not None))
            return
        found = client.list_workers(scope=scope, state=state, include_hidden=include_hidden or None, limit=limit)
    if form == "json":
        screen.write_json(found)
    else:
        screen.write_table(WORKER_HEAD, [worker_row(worker) for worker in found])


@reaches_server
def metrics(where: Where) -> None:
    """Print the server's figures in the form that Prometheus reads."""
    with connected(where) as client:
        screen.write(lines(client.get_metrics()).rstrip("\n"))
