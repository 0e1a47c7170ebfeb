"""The commands that submit a run: of a flow, of a flow.yaml, or again; and what they show afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.logs import follow_with_logs
from pyoco_server.cli.client.commands.runs import LogsOption, show_run
from pyoco_server.cli.client.completions import flow_names
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.following import continues, exit_code, follow_run
from pyoco_server.cli.client.ids import full_id, remember_last
from pyoco_server.cli.client.params import merge, read_file
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import Form
from pyoco_server.cli.tables import Json
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import RunAccepted, RunSnapshot

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

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
            show_run(form, accepted)
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
            show_run(form, client.get_run(run_id, include="records") if form == "table" else run)
        return exit_code(run.get("status"))


def print_warnings(accepted: Json) -> None:
    for warning in accepted.get("warnings") or ():
        output.print_stderr(f"{output.localized('warning', '警告')}: {warning}")


def print_submitted(item_id: str) -> None:
    output.print_stderr(output.localized(f"submitted: {item_id}", f"投入しました: {item_id}"))
