"""The commands about runs: submit, show, watch, explain and open them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.completions import flow_names
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import continues, exit_code, follow_run
from pyoco_server.cli.client.ids import for_each, full_id, remember_last
from pyoco_server.cli.client.params import merge, read_file
from pyoco_server.cli.client.run_view import RUN_FACTS, TASK_HEAD, explanation, last_lines, task_rows
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import Form, show_facts, show_lines, write, write_json, write_selected, write_table
from pyoco_server.cli.tables import Json, text
from pyoco_server.errors import InvalidUsage

WaitOption = Annotated[bool, Option("--wait", help="Wait for the end and print the run.")]
WatchOption = Annotated[bool, Option("--watch", help="Show it while it runs, as `watch` does.")]
SubmitOutput = Annotated[
    Literal["json", "table", "status"] | Selection | None,
    Option("--output", "-o", help="What to print: json, or status with --watch."),
]


@remote_command
def submit(
    target: Target,
    ctx: typer.Context,
    words: opt.WordsArgument = None,
    flow_name: Annotated[
        str | None, Option("--flow-name", help="The flow, as an option.", autocompletion=flow_names)
    ] = None,
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
    """Run a flow that the workers serve. Params are merged in the order given, words last; the last one wins."""
    opt.check_timeout(timeout_sec, waits=wait or watch)
    flow, pairs = opt.flow_and_words(words, flow_name, "--flow-name")
    if flow is None:
        raise InvalidUsage("no flow is given", example="pyoco-client submit hello name=Ann --watch")
    merged = merge(ctx.meta["order"], pairs, params_file=params_file, params=params, param=param)
    with connected(target) as client:
        accepted = client.submit_run(flow, merged, tag=tag, tags=opt.split_labels(tags), timeout_sec=run_timeout_sec)
        return _after_submit(target, client, accepted, wait, watch, timeout_sec, form)


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
    what = f"--workflow-file {workflow_file} (`pyoco-client init` writes a first one)"
    workflow = read_file(str(workflow_file), what, {str(workflow_file): "flow.yaml"})
    with connected(target) as client:
        accepted = client.submit_run_yaml(workflow, tag=tag, flow_name=flow_name, timeout_sec=run_timeout_sec)
        return _after_submit(target, client, accepted, wait, watch, timeout_sec, form)


def _after_submit(
    target: Target,
    client: Any,
    accepted: Json,
    wait: bool,
    watch: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    run_id = accepted["run_id"]
    remember_last(target, client, run_id)
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
    run_ids: opt.RunIdArguments = None,
    run_id_option: opt.RunIdOption = None,
    include: opt.IncludeOption = None,
    at: opt.AtOption = None,
    form: opt.RunOutput = "json",
) -> int:
    """Show runs, as they are or as they were."""
    wanted, as_of = opt.required_run_ids(run_ids, run_id_option), opt.as_of(at)
    added = include or ("records" if form == "table" else None)
    runs: list[Json] = []
    with connected(target) as client:
        code = for_each(target, client, wanted, lambda run_id: runs.append(client.get_run(run_id, added, as_of)))
    show_runs(form, runs, one=len(wanted) == 1)
    return code


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
        answer = client.get_tasks(full_id(target, client, wanted))
    if form == "table":
        write_table(TASK_HEAD, task_rows(answer))
    else:
        show_lines(form, answer, (f"{name} {status}" for _, name, status, *_ in task_rows(answer)))


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
        run = follow_run(client, full_id(target, client, wanted), form, timeout_sec)
    return exit_code(run.get("status")) if until_terminal else output.OK


@remote_command
def explain(
    target: Target,
    run_ids: opt.RunIdArguments = None,
    run_id_option: opt.RunIdOption = None,
    form: opt.TextOutput = "text",
) -> int:
    """Explain why runs are not running, or why they ended as they did."""
    wanted = opt.required_run_ids(run_ids, run_id_option)
    answers: list[Json] = []
    with connected(target) as client:
        code = for_each(target, client, wanted, lambda run_id: answers.append(client.explain_run(run_id)))
    if form == "json" and len(wanted) > 1:
        write_json(answers)
        return code
    for answer in answers:
        show_lines(form, answer, explanation(answer))
    return code


@remote_command
def open_run(target: Target, run_id: opt.RunIdArgument = None, run_id_option: opt.RunIdOption = None) -> None:
    """Print the address of a run for a browser."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        write(f"{client.base_url}/runs/{full_id(target, client, wanted)}?include=records")


def show_runs(form: Form, runs: Sequence[Json], *, one: bool) -> None:
    """Print one run, or several: as JSON an array."""
    if one or form in ("table", "status"):
        for run in runs:
            _show_run(form, run)
    elif isinstance(form, Selection):
        write_selected(form, runs)
    else:
        write_json(runs)


def _show_run(form: Form, run: Json) -> None:
    if form == "status":
        write(f"{text(run.get('run_id'))} {text(run.get('status'))}")
        return
    show_facts(form, run, RUN_FACTS)
    if form == "table":
        if run.get("tasks"):
            write_table(TASK_HEAD, task_rows(run))
        for line in last_lines(run):
            write(line)
