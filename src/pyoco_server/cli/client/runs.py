"""The commands about runs: they gather what was typed, ask the server once, and show its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import params as given_params
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import exit_code, follow, run_goes_on
from pyoco_server.cli.client.options import (
    IncludeOption,
    LabelsOption,
    RunIdArgument,
    RunIdOption,
    RunOutput,
    RunTimeoutOption,
    TagOption,
    TextOutput,
    TimeoutOption,
    check_timeout,
    labels,
    the_run,
)
from pyoco_server.cli.client.render import (
    TASK_HEAD,
    Json,
    explained,
    last_words,
    run_facts,
    task_rows,
    text,
)
from pyoco_server.errors import InvalidUsage

WaitOption = Annotated[bool, typer.Option("--wait", help="Wait for the end and print the run as it ended.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Show it while it runs, as `watch` does.")]
MaybeOutput = Annotated[
    Literal["json", "table", "status"] | None,
    typer.Option("--output", "-o", help="What to print: json, or status with --watch.", show_default=False),
]


@reaches_server
def submit(
    where: Where,
    ctx: typer.Context,
    flow_name: Annotated[str, typer.Option("--flow-name", help="Which flow to run.", show_default=False)],
    tag: TagOption = None,
    tags: LabelsOption = None,
    params_file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Params from a JSON or YAML file; - is standard input.")
    ] = None,
    params: Annotated[list[str] | None, typer.Option(metavar="JSON", help="Params as a JSON object.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="One param; the value is JSON or plain text.")
    ] = None,
    run_timeout_sec: RunTimeoutOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout_sec: TimeoutOption = None,
    form: MaybeOutput = None,
) -> int:
    """Run a flow that the workers serve. Params are merged in the order given; the last one wins."""
    check_timeout(timeout_sec, waits=wait or watch)
    sources = {"params_file": params_file or [], "params": params or [], "param": param or []}
    gathered = given_params.merged(ctx.meta["order"], sources)
    with connected(where) as client:
        accepted = client.submit_run(flow_name, gathered, tag=tag, tags=labels(tags), timeout_sec=run_timeout_sec)
        return _after_submit(client, accepted, wait, watch, timeout_sec, form)


@reaches_server
def submit_yaml(
    where: Where,
    workflow_file: Annotated[
        Path, typer.Option("--workflow-file", metavar="FILE", help="The flow.yaml to run.", show_default=False)
    ],
    flow_name: Annotated[str, typer.Option("--flow-name", help="What the run is called.")] = "main",
    tag: TagOption = None,
    run_timeout_sec: RunTimeoutOption = None,
    wait: WaitOption = False,
    watch: WatchOption = False,
    timeout_sec: TimeoutOption = None,
    form: MaybeOutput = None,
) -> int:
    """Run a flow.yaml; its params are the flow's defaults."""
    check_timeout(timeout_sec, waits=wait or watch)
    try:
        workflow = workflow_file.read_bytes()
    except OSError as error:
        raise InvalidUsage(
            f"--workflow-file {workflow_file}: {error.strerror}",
            example="pyoco-client init && pyoco-client submit-yaml --workflow-file flow.yaml --flow-name hello",
        ) from error
    with connected(where) as client:
        accepted = client.submit_run_yaml(workflow, tag=tag, flow_name=flow_name, timeout_sec=run_timeout_sec)
        return _after_submit(client, accepted, wait, watch, timeout_sec, form)


def _after_submit(
    client: Any, accepted: Json, wait: bool, watch: bool, timeout_sec: float | None, form: str | None
) -> int:
    run_id = accepted["run_id"]
    if not wait and not watch:
        show_run(accepted, form or "json")
        return output.OK
    output.say(output.in_words(f"submitted: {run_id}", f"投入しました: {run_id}"))
    if watch:
        return exit_code(follow(client, run_id, "json" if form == "json" else "status", timeout_sec))
    with run_goes_on(run_id):
        run = client.wait(run_id, timeout_sec=timeout_sec)
    show_run(client.get_run(run_id, include="records") if form == "table" else run, form or "json")
    return exit_code(run)


@reaches_server
def get(
    where: Where,
    run_id: RunIdArgument = None,
    run_id_option: RunIdOption = None,
    include: IncludeOption = None,
    form: RunOutput = "json",
) -> None:
    """Show a run as it is now."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        show_run(client.get_run(wanted, include=include or ("records" if form == "table" else None)), form)


@reaches_server
def tasks(
    where: Where, run_id: RunIdArgument = None, run_id_option: RunIdOption = None, form: RunOutput = "json"
) -> None:
    """Show the tasks of a run and what is recorded of each."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        answer = client.get_tasks(wanted)
    if form == "json":
        screen.write_json(answer)
    elif form == "table":
        screen.write_table(TASK_HEAD, task_rows(answer))
    else:
        for _, name, status, *_ in task_rows(answer):
            screen.write(f"{name} {status}")


@reaches_server
def watch(
    where: Where,
    run_id: RunIdArgument = None,
    run_id_option: RunIdOption = None,
    until_terminal: Annotated[
        bool, typer.Option("--until-terminal", help="Exit with 1 unless the run is seen to end COMPLETED.")
    ] = False,
    timeout_sec: TimeoutOption = None,
    form: Annotated[
        Literal["status", "json"], typer.Option("--output", "-o", help="Lines for people, or JSON lines.")
    ] = "status",
) -> int:
    """Show a run while it runs, until it is finished."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        run = follow(client, wanted, form, timeout_sec)
    return exit_code(run) if until_terminal else output.OK


@reaches_server
def cancel(
    where: Where,
    run_id: RunIdArgument = None,
    run_id_option: RunIdOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    timeout_sec: TimeoutOption = None,
    reason: Annotated[str | None, typer.Option(help="Why; is kept with the run.")] = None,
    form: RunOutput = "json",
) -> None:
    """Stop a run. A finished one stays as it is, which is not an error."""
    check_timeout(timeout_sec, waits=wait)
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        show_run(client.cancel_run(wanted, wait=wait, timeout_sec=timeout_sec, reason=reason), form)


@reaches_server
def explain(
    where: Where, run_id: RunIdArgument = None, run_id_option: RunIdOption = None, form: TextOutput = "text"
) -> None:
    """Say why a run is not running, or why it ended as it did."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        answer = client.explain_run(wanted)
    if form == "json":
        screen.write_json(answer)
    else:
        for line in explained(answer):
            screen.write(line)


def show_run(run: Json, form: str) -> None:
    """One run in the form that was asked for."""
    if form == "json":
        screen.write_json(run)
    elif form == "status":
        screen.write(f"{text(run.get('run_id'))} {text(run.get('status'))}")
    else:
        for name, value in run_facts(run):
            screen.write(f"{name + ':':<11}{value}")
        if run.get("tasks"):
            screen.write_table(TASK_HEAD, task_rows(run))
        for line in last_words(run):
            screen.write(line)
