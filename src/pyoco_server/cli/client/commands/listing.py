"""`list` and its older form `list-vnext`: runs, last changed first."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from typer import Option

from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.stdout import show
from pyoco_server.cli.tables import Table, first_line, moment
from pyoco_server.http_client.models.runs import RunSummary

RUNS = Table(
    ("RUN_ID", "run_id"),
    ("STATUS", "status"),
    ("FLOW", "flow_name"),
    ("TAG", "tag"),
    ("UPDATED", "updated_at", moment),
    ("WORKER", "worker_id"),
    ("ERROR", "error", first_line),
)

# As many as the gateway lists.
DEFAULT_LIMIT = 50

UpdatedAfterOption = Annotated[
    str | None, Option("--updated-after", metavar="TIME", help="Only runs that changed after this time.")
]
ErrorOption = Annotated[str | None, Option("--error", metavar="TEXT", help="Only runs whose error contains this text.")]
PrefixOption = Annotated[str | None, Option("--id-prefix", metavar="ID", help="Only runs whose id begins with this.")]
DigestOption = Annotated[str | None, Option("--workflow-yaml-sha256", "--sha256", help="Only of this flow.yaml.")]


@remote_command
def list_runs(
    target: Target,
    status: opt.StatusOption = None,
    flow: opt.FlowFilter = None,
    tag: opt.TagFilter = None,
    tags: opt.LabelsOption = None,
    since: opt.SinceOption = None,
    until: opt.UntilOption = None,
    updated_after: UpdatedAfterOption = None,
    id_prefix: PrefixOption = None,
    error: ErrorOption = None,
    workflow_yaml_sha256: DigestOption = None,
    limit: opt.LimitOption = None,
    cursor: opt.CursorOption = None,
    include: opt.IncludeOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List runs, last changed first; as JSON an array, with --cursor ("" to begin) an object with the next cursor."""
    changed_after = opt.given_time("--updated-after", updated_after)
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": opt.split_labels(tags)}
    filters |= {"limit": limit, "include": include or None, "id_prefix": id_prefix, **opt.submitted(since, until)}
    is_array = (cursor, updated_after, workflow_yaml_sha256) == (None, None, None)
    with connected(target) as client:
        if is_array and error is not None:
            # Pages of a search may be short: the first of several can be empty.
            found: Any = list(islice(client.iter_runs(**filters, error=error), limit or DEFAULT_LIMIT))
        elif is_array and form == "json":
            found = client.list_runs(**filters)
        else:
            others: dict[str, Any] = {"cursor": cursor, "error": error, "workflow_yaml_sha256": workflow_yaml_sha256}
            found = client.list_runs_vnext(**filters, updated_after=changed_after, **others)
    show(form, found, RUNS, known=RunSummary.__annotations__)


@remote_command
def list_vnext(
    target: Target,
    status: opt.StatusOption = None,
    flow: opt.FlowFilter = None,
    tag: opt.TagFilter = None,
    tags: opt.LabelsOption = None,
    limit: opt.LimitOption = None,
    include: opt.IncludeOption = None,
    updated_after: Annotated[
        float | None, Option(metavar="UNIX_SEC", min=0, max=opt.MAX_SEC, help="Only runs that changed after this time.")
    ] = None,
    cursor: opt.CursorOption = None,
    workflow_yaml_sha256: DigestOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List runs page by page: items, and the cursor of the next page. The same as `list --cursor ""`."""
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": opt.split_labels(tags)}
    filters |= {"limit": limit, "include": include or None, "cursor": cursor}
    with connected(target) as client:
        page = client.list_runs_vnext(**filters, updated_after=updated_after, workflow_yaml_sha256=workflow_yaml_sha256)
    show(form, page, RUNS, known=RunSummary.__annotations__)
