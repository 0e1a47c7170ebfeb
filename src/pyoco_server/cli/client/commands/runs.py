"""The commands about runs: submit, show, watch, explain and open them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.logs import follow_with_logs
from pyoco_server.cli.client.completions import flow_names
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import continues, exit_code, follow_run
from pyoco_server.cli.client.ids import for_each, full_id, remember_last
from pyoco_server.cli.client.params import merge, read_file
from pyoco_server.cli.client.run_view import RUN_FACTS, TASK_HEAD, explanation, last_lines, no_result, task_rows
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import Form, show_facts, show_lines, write, write_json, write_selected, write_table
from pyoco_server.cli.tables import Json, text
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import RunAccepted, RunSnapshot

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

WaitOption = Annotated[bool, Option("--wait", help="Wait for the end and print the run.")]
WatchOption = Annotated[bool, Option("--watch", help="Show it while it runs, as `watch` does.")]
LogsOption = Annotated[
    bool, Option("--logs", help="Show its output on stdout while it runs, and its status on stderr.")
]
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
    strict: opt.StrictOption = True,
    wait: WaitOption = False,
    watch: WatchOption = False,
    logs: LogsOption = False,
    timeout_sec: opt.TimeoutOption = None,
    form: SubmitOutput = None,
) -> int:
    """Run a flow that the workers serve. Params are merged in the order given, words last; the last one wins."""
    then = AfterSubmit(target=target, wait=wait, watch=watch, logs=logs, timeout_sec=timeout_sec, form=form)
    then.check()
    flow, pairs = opt.flow_and_words(words, flow_name, "--flow-name")
    if flow is None:
        raise InvalidUsage("no flow is given", example="pyoco-client submit hello name=Ann --watch")
    merged = merge(ctx.meta["order"], pairs, params_file=params_file, params=params, param=param)
    with connected(target) as client:
        accepted = client.submit_run(
            flow, merged, tag=tag, tags=opt.split_labels(tags), timeout_sec=run_timeout_sec, strict=strict
        )
        return then.show(client, accepted)


@remote_command
def submit_yaml(
    target: Target,
    ctx: typer.Context,
    workflow_file: Annotated[Path, Option("--workflow-file", metavar="FILE", help="The flow.yaml to run.")],
    flow_name: Annotated[str, Option("--flow-name", help="The name of the flow.")] = "main",
    tag: opt.TagOption = None,
    params_file: opt.ParamsFileOption = None,
    params: opt.ParamsOption = None,
    param: opt.ParamOption = None,
    run_timeout_sec: opt.RunTimeoutOption = None,
    strict: opt.StrictOption = True,
    wait: WaitOption = False,
    watch: WatchOption = False,
    logs: LogsOption = False,
    timeout_sec: opt.TimeoutOption = None,
    form: SubmitOutput = None,
) -> int:
    """Run a flow.yaml; its params are the flow's defaults, overridden by those given."""
    then = AfterSubmit(target=target, wait=wait, watch=watch, logs=logs, timeout_sec=timeout_sec, form=form)
    then.check()
    merged = merge(ctx.meta["order"], params_file=params_file, params=params, param=param)
    first = output.localized("(`pyoco-client init` writes a first one)", "（`pyoco-client init` で作成できます）")
    what = f"--workflow-file {workflow_file} {first}"
    workflow = read_file(str(workflow_file), what, {str(workflow_file): "flow.yaml"})
    with connected(target) as client:
        accepted = client.submit_run_yaml(
            workflow, tag=tag, flow_name=flow_name, timeout_sec=run_timeout_sec, params=merged, strict=strict
        )
        return then.show(client, accepted)


@remote_command
def rerun(
    target: Target,
    ctx: typer.Context,
    run_id: opt.RunIdArgument = None,
    words: opt.ParamWordsArgument = None,
    run_id_option: opt.RunIdOption = None,
    params_file: opt.ParamsFileOption = None,
    params: opt.ParamsOption = None,
    param: opt.ParamOption = None,
    strict: opt.StrictOption = True,
    wait: WaitOption = False,
    watch: WatchOption = False,
    logs: LogsOption = False,
    timeout_sec: opt.TimeoutOption = None,
    form: SubmitOutput = None,
) -> int:
    """Run it again: a new run with the same flow, tag, labels and YAML, and its params where none are given."""
    then = AfterSubmit(target=target, wait=wait, watch=watch, logs=logs, timeout_sec=timeout_sec, form=form)
    then.check()
    wanted = opt.required_run_id(run_id, run_id_option)
    merged = merge(ctx.meta["order"], words, params_file=params_file, params=params, param=param)
    with connected(target) as client:
        accepted = client.rerun(full_id(target, client, wanted), merged, strict=strict)
        return then.show(client, accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterSubmit:
    """What happens after a run is submitted: its id, its end or its course is shown."""

    target: Target
    wait: bool
    watch: bool
    logs: bool
    timeout_sec: float | None
    form: Form | None

    def check(self) -> None:
        """Refuse before anything is submitted what could not be shown afterwards."""
        opt.check_timeout(self.timeout_sec, waits=self.wait or self.watch or self.logs)
        if isinstance(self.form, Selection):
            if self.watch or self.logs:
                raise InvalidUsage(
                    f"{'--watch' if self.watch else '--logs'} and a selection of fields exclude each other",
                    example="pyoco-client submit hello --wait --json id,status",
                )
            self.form.check((), (RunSnapshot if self.wait else RunAccepted).__annotations__)

    def show(self, client: PyocoHttpClient, accepted: Json) -> int:
        """Show the run as asked; the exit code says whether it completed, if that was waited for."""
        run_id, form = accepted["run_id"], self.form or "json"
        print_warnings(accepted)
        remember_last(self.target, client, run_id)
        if not (self.wait or self.watch or self.logs):
            _show_run(form, accepted)
            return output.OK
        print_submitted(run_id)
        run: Any
        if self.logs:
            run = follow_with_logs(self.target, run_id, "json" if self.form == "json" else "text", self.timeout_sec)
        elif self.watch:
            run = follow_run(client, run_id, "json" if self.form == "json" else "status", self.timeout_sec)
        else:
            with continues("run", run_id):
                run = client.wait(run_id, timeout_sec=self.timeout_sec)
            _show_run(form, client.get_run(run_id, include="records") if form == "table" else run)
        return exit_code(run.get("status"))


def print_warnings(accepted: Json) -> None:
    for warning in accepted.get("warnings") or ():
        output.print_stderr(f"{output.localized('warning', '警告')}: {warning}")


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
