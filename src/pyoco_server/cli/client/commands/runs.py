"""The commands about runs: submit, show, list, watch, cancel and explain them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import continues, exit_code, follow_run
from pyoco_server.cli.client.params import merge, read_file
from pyoco_server.cli.client.run_view import RUN_FACTS, TASK_HEAD, explanation, last_lines, task_rows
from pyoco_server.cli.stdout import show, show_facts, show_lines, write, write_table
from pyoco_server.cli.tables import Json, Table, moment, text

RUNS = Table(
    ("RUN_ID", "run_id"),
    ("STATUS", "status"),
    ("FLOW", "flow_name"),
    ("TAG", "tag"),
    ("UPDATED", "updated_at", moment),
    ("WORKER", "worker_id"),
    ("ERROR", "error"),
)

WaitOption = Annotated[bool, Option("--wait", help="Wait for the end and print the run.")]
WatchOption = Annotated[bool, Option("--watch", help="Show it while it runs, as `watch` does.")]
SubmitOutput = Annotated[
    Literal["json", "table", "status"] | None,
    Option("--output", "-o", help="What to print: json, or status with --watch."),
]
FlowFilter = Annotated[str | None, Option("--flow", help="Only runs of this flow.")]
TagFilter = Annotated[str | None, Option("--tag", help="Only runs with this routing tag.")]


@remote_command
def submit(
    target: Target,
    ctx: typer.Context,
    flow_name: Annotated[str, Option("--flow-name", help="Which flow to run.")],
    tag: opt.TagOption = None,
    tags: opt.LabelsOption = None,
    params_file: opt.ParamsFileOption = None,
    params: opt.ParamsOption = None,
    param: opt.ParamOption = None,
    run_timeout_sec: opt.RunTimeoutOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout_sec: opt.TimeoutOption = None,
    form: SubmitOutput = None,
) -> int:
    """Run a flow that the workers serve. Params are merged in the order given; the last one wins."""
    opt.check_timeout(timeout_sec, waits=wait or watch)
    merged = merge(ctx.meta["order"], params_file=params_file, params=params, param=param)
    with connected(target) as client:
        accepted = client.submit_run(
            flow_name, merged, tag=tag, tags=opt.split_labels(tags), timeout_sec=run_timeout_sec
        )
        return _after_submit(client, accepted, wait, watch, timeout_sec, form)


@remote_command
def submit_yaml(
    target: Target,
    workflow_file: Annotated[Path, Option("--workflow-file", metavar="FILE", help="The flow.yaml to run.")],
    flow_name: Annotated[str, Option("--flow-name", help="The name of the flow.")] = "main",
    tag: opt.TagOption = None,
    run_timeout_sec: opt.RunTimeoutOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout_sec: opt.TimeoutOption = None,
    form: SubmitOutput = None,
) -> int:
    """Run a flow.yaml; its params are the flow's defaults."""
    opt.check_timeout(timeout_sec, waits=wait or watch)
    first = output.localized("(`pyoco-client init` writes a first one)", "（`pyoco-client init` で作成できます）")
    what = f"--workflow-file {workflow_file} {first}"
    workflow = read_file(str(workflow_file), what, {str(workflow_file): "flow.yaml"})
    with connected(target) as client:
        accepted = client.submit_run_yaml(workflow, tag=tag, flow_name=flow_name, timeout_sec=run_timeout_sec)
        return _after_submit(client, accepted, wait, watch, timeout_sec, form)


def _after_submit(
    client: Any, accepted: Json, wait: bool, watch: bool, timeout_sec: float | None, form: str | None
) -> int:
    run_id = accepted["run_id"]
    if not wait and not watch:
        _show_run(form or "json", accepted)
        return output.OK
    print_submitted(run_id)
    if watch:
        run = follow_run(client, run_id, "json" if form == "json" else "status", timeout_sec)
    else:
        with continues("run", run_id):
            run = client.wait(run_id, timeout_sec=timeout_sec)
        _show_run(form or "json", client.get_run(run_id, include="records") if form == "table" else run)
    return exit_code(run.get("status"))


def print_submitted(item_id: str) -> None:
    output.print_stderr(output.localized(f"submitted: {item_id}", f"投入しました: {item_id}"))


@remote_command
def get(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    include: opt.IncludeOption = None,
    form: opt.RunOutput = "json",
) -> None:
    """Show a run."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        _show_run(form, client.get_run(wanted, include=include or ("records" if form == "table" else None)))


@remote_command
def tasks(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    form: opt.RunOutput = "json",
) -> None:
    """Show the tasks of a run and their records."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        answer = client.get_tasks(wanted)
    if form == "table":
        write_table(TASK_HEAD, task_rows(answer))
    else:
        show_lines(form, answer, (f"{name} {status}" for _, name, status, *_ in task_rows(answer)))


@remote_command
def list_runs(
    target: Target,
    status: opt.StatusOption = None,
    flow: FlowFilter = None,
    tag: TagFilter = None,
    tags: opt.LabelsOption = None,
    limit: opt.LimitOption = None,
    include: opt.IncludeOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List runs, last changed first."""
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": opt.split_labels(tags)}
    with connected(target) as client:
        runs = client.list_runs(**filters, limit=limit, include=include or None)
    show(form, runs, RUNS)


@remote_command
def list_vnext(
    target: Target,
    status: opt.StatusOption = None,
    flow: FlowFilter = None,
    tag: TagFilter = None,
    tags: opt.LabelsOption = None,
    limit: opt.LimitOption = None,
    include: opt.IncludeOption = None,
    updated_after: Annotated[
        float | None, Option(metavar="UNIX_SEC", min=0, max=opt.MAX_SEC, help="Only runs that changed after this time.")
    ] = None,
    cursor: opt.CursorOption = None,
    workflow_yaml_sha256: Annotated[
        str | None, Option("--workflow-yaml-sha256", "--sha256", help="Only of this flow.yaml.")
    ] = None,
    form: opt.ListOutput = "json",
) -> None:
    """List runs page by page: items, and the cursor of the next page."""
    filters: dict[str, Any] = {"status": status, "flow": flow, "tag": tag, "tags": opt.split_labels(tags)}
    filters |= {"limit": limit, "include": include or None, "updated_after": updated_after, "cursor": cursor}
    with connected(target) as client:
        page = client.list_runs_vnext(**filters, workflow_yaml_sha256=workflow_yaml_sha256)
    show(form, page, RUNS)


@remote_command
def watch(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    until_terminal: Annotated[bool, Option("--until-terminal", help="Exit with 1 unless it ends COMPLETED.")] = False,
    timeout_sec: opt.TimeoutOption = None,
    form: Annotated[Literal["status", "json"], Option("--output", "-o", help="Lines of text or JSON.")] = "status",
) -> int:
    """Show a run while it runs, until it ends."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        run = follow_run(client, wanted, form, timeout_sec)
    return exit_code(run.get("status")) if until_terminal else output.OK


@remote_command
def cancel(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    wait: Annotated[bool, Option("--wait", help="Wait until the run has ended.")] = False,
    timeout_sec: opt.TimeoutOption = None,
    reason: Annotated[str | None, Option(help="Why; is stored with the run.")] = None,
    form: opt.RunOutput = "json",
) -> None:
    """Cancel a run. A finished run stays as it is, which is not an error."""
    opt.check_timeout(timeout_sec, waits=wait)
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        _show_run(form, client.cancel_run(wanted, wait=wait, timeout_sec=timeout_sec, reason=reason))


@remote_command
def explain(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    form: opt.TextOutput = "text",
) -> None:
    """Explain why a run is not running, or why it ended as it did."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        answer = client.explain_run(wanted)
    show_lines(form, answer, explanation(answer))


def _show_run(form: str, run: Json) -> None:
    if form == "status":
        write(f"{text(run.get('run_id'))} {text(run.get('status'))}")
        return
    show_facts(form, run, RUN_FACTS)
    if form == "table":
        if run.get("tasks"):
            write_table(TASK_HEAD, task_rows(run))
        for line in last_lines(run):
            write(line)
