"""The commands about runs: show, watch, explain and open them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.logs import follow_with_logs
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import continues, exit_code, follow_run
from pyoco_server.cli.client.ids import for_each, full_id
from pyoco_server.cli.client.run_view import RUN_FACTS, TASK_HEAD, explanation, last_lines, no_result, task_rows
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import Form, show_facts, show_lines, write, write_json, write_selected, write_table
from pyoco_server.cli.tables import Json, text
from pyoco_server.http_client.models.runs import RunSnapshot

LogsOption = Annotated[
    bool, Option("--logs", help="Show its output on stdout while it runs, and its status on stderr.")
]


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
def result(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    wait: Annotated[bool, Option("--wait", help="Wait for the end of the run.")] = False,
    timeout_sec: opt.TimeoutOption = None,
) -> int:
    """Print what a run returned, as JSON: the output of its last task, or outputs by task if there are several."""
    opt.check_timeout(timeout_sec, waits=wait)
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        if wait:
            with continues("run", wanted):
                client.wait(wanted, timeout_sec=timeout_sec)
        run = client.get_run(wanted)
    if "result" in run and not run.get("result_truncated"):
        write_json(run["result"])
        return exit_code(run.get("status"))
    output.print_problem(*no_result(run))
    return output.FAILED


@remote_command
def watch(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    logs: LogsOption = False,
    until_terminal: Annotated[bool, Option("--until-terminal", help="Exit with 1 unless it ends COMPLETED.")] = False,
    timeout_sec: opt.TimeoutOption = None,
    form: Annotated[Literal["status", "json"], Option("--output", "-o", help="Lines of text or JSON.")] = "status",
) -> int:
    """Show a run while it runs, until it ends."""
    wanted = opt.required_run_id(run_id, run_id_option)
    with connected(target) as client:
        whole = full_id(target, client, wanted)
        client.health()  # following repeats requests for ever, also to a gateway that never was there
        if logs:
            run = follow_with_logs(target, whole, "json" if form == "json" else "text", timeout_sec)
        else:
            run = follow_run(client, whole, form, timeout_sec)
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
    """Print the address of the dashboard for a browser, or that of a run in it."""
    with connected(target) as client:
        if run_id is None and run_id_option is None:
            write(f"{client.base_url}/")
            return
        wanted = opt.required_run_id(run_id, run_id_option)
        write(f"{client.base_url}/#/runs/{full_id(target, client, wanted)}")


def show_runs(form: Form, runs: Sequence[Json], *, one: bool) -> None:
    """Print one run, or several: as JSON an array."""
    if one or form in ("table", "status"):
        for run in runs:
            show_run(form, run)
    elif isinstance(form, Selection):
        write_selected(form, runs, RunSnapshot.__annotations__)
    else:
        write_json(runs)


def show_run(form: Form, run: Json) -> None:
    if form == "status":
        write(f"{text(run.get('run_id'))} {text(run.get('status'))}")
        return
    # What this run lacks, such as the result of a failed one, is empty.
    show_facts(form, run, RUN_FACTS, RunSnapshot.__annotations__)
    if form == "table":
        if run.get("tasks"):
            write_table(TASK_HEAD, task_rows(run))
        for line in last_lines(run):
            write(line)
