"""The command tree of `pyoco-client`: all commands, with an example of each."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from typer import Option
from typer.core import TyperCommand
from typer.exceptions import TyperException

from pyoco_server.cli import output, stdout
from pyoco_server.cli.client.commands import doctor, executions, fleet, flows, jobs, local, logs, runs, wheels
from pyoco_server.cli.client.connection import ApiKeyOption, ServerOption, Target, TokenOption
from pyoco_server.cli.client.options import EXAMPLE_ID
from pyoco_server.cli.suggestions import CLIENT as PROGRAM
from pyoco_server.errors import InvalidUsage

ABOUT = "submit --flow-name hello --param name=Ann --watch"


class Entry(NamedTuple):
    """A command: its name, with that of its group, its function and an example."""

    name: str
    function: Callable[..., Any]
    example: str


COMMANDS = (
    Entry("submit", runs.submit, "submit --flow-name hello --param name=Ann --watch"),
    Entry("submit-yaml", runs.submit_yaml, "submit-yaml --workflow-file flow.yaml --flow-name hello --watch"),
    Entry("get", runs.get, f"get {EXAMPLE_ID} --output table"),
    Entry("tasks", runs.tasks, f"tasks {EXAMPLE_ID} --output table"),
    Entry("result", runs.result, f"result {EXAMPLE_ID} --wait"),
    Entry("list", runs.list_runs, "list --status FAILED --limit 10 --output table"),
    Entry("list-vnext", runs.list_vnext, "list-vnext --updated-after 1767225600 --limit 100"),
    Entry("watch", runs.watch, f"watch {EXAMPLE_ID} --until-terminal"),
    Entry("logs", logs.run_logs, f"logs {EXAMPLE_ID} --follow --tail 100"),
    Entry("cancel", runs.cancel, f"cancel --run-id {EXAMPLE_ID} --wait --timeout-sec 60"),
    Entry("rerun", runs.rerun, f"rerun {EXAMPLE_ID} --param name=Ann --watch"),
    Entry("explain", runs.explain, f"explain {EXAMPLE_ID}"),
    Entry("execute", executions.execute, "execute release --param version=1.4.0 --watch"),
    Entry("execution", executions.execution, f"execution {EXAMPLE_ID}"),
    Entry("events", executions.events, f"events {EXAMPLE_ID} --follow"),
    Entry("waits", executions.waits, "waits --graph-id release --output table"),
    Entry("approve", executions.approve, f"approve {EXAMPLE_ID} --answer ship"),
    Entry("flows", flows.flows, "flows --tag gpu"),
    Entry("graph", flows.graph, "graph hello --mermaid"),
    Entry("graphs", executions.graphs, "graphs --output table"),
    Entry("graph-put", executions.graph_put, "graph-put examples/release.yaml --graph-id release"),
    Entry("workers", fleet.workers, "workers --scope all --output table"),
    Entry("wheels", wheels.wheels, "wheels --output table"),
    Entry("wheel-history", wheels.history, "wheel-history --limit 20 --action upload --output table"),
    Entry("wheel-upload", wheels.upload, f"wheel-upload --wheel-file dist/{wheels.EXAMPLE_WHEEL} --tags gpu,batch"),
    Entry("wheel-download", wheels.download, f"wheel-download --wheel-name {wheels.EXAMPLE_WHEEL} --to ."),
    Entry("wheel-delete", wheels.delete, f"wheel-delete --wheel-name {wheels.EXAMPLE_WHEEL}"),
    Entry("metrics", fleet.metrics, "metrics | grep pyoco_runs_total"),
    Entry("dlq", fleet.dlq, "dlq --reason execution_error --output table"),
    Entry("dlq-replay", fleet.dlq_replay, "dlq-replay --seq 42 --watch"),
    Entry("doctor", doctor.doctor, "doctor --tag gpu"),
    Entry("init", local.init, "init my-flow"),
    Entry("completion", local.completion, "completion bash >> ~/.bashrc"),
    Entry("version", local.version, "version"),
)

JOB_COMMANDS = (
    Entry("job submit", jobs.submit, "job submit --param input=data.csv --label urgent --follow"),
    Entry("job ls", jobs.ls, "job ls --label urgent --status running"),
    Entry("job get", jobs.get, f"job get {EXAMPLE_ID}"),
    Entry("job logs", logs.job_logs, f"job logs {EXAMPLE_ID} --tail 100 --level WARNING"),
    Entry("job follow", logs.job_follow, f"job follow {EXAMPLE_ID} --tail 100"),
    Entry("job tag", jobs.tag, f"job tag {EXAMPLE_ID} add urgent"),
    Entry("job tags", jobs.tags, "job tags urg --limit 20"),
    Entry("job rm", jobs.rm, f"job rm {EXAMPLE_ID}"),
)
ALL_COMMANDS = (*COMMANDS, *JOB_COMMANDS)


class OrderedCommand(TyperCommand):
    """A command that knows the order of its options: `ctx.meta["order"]` has one name per occurrence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except TyperException as error:
            # The parser does not set the context, which the usage message needs.
            vars(error)["ctx"] = ctx
            raise
        ctx.meta["order"] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def _group(example: str) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog=f"Example: {PROGRAM} {example}",
        context_settings={"max_content_width": 100, "help_option_names": ["--help", "-h"]},
    )


app = _group(ABOUT)
job = _group(JOB_COMMANDS[0].example)


def _show_version(wanted: bool) -> None:
    if wanted:
        stdout.write(local.version_line())
        raise typer.Exit


@app.callback()
def client(
    ctx: typer.Context,
    server: ServerOption = None,
    api_key: ApiKeyOption = None,
    token: TokenOption = None,
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Submit, show, watch and cancel runs of a pyoco server."""
    ctx.obj = Target(server=server, api_key=api_key, token=token)


@job.callback()
def job_group() -> None:
    """Submit, list, show, label and remove jobs; read and follow their output."""


for _entry in ALL_COMMANDS:
    _parent, _epilog = job if _entry in JOB_COMMANDS else app, f"Example: {PROGRAM} {_entry.example}"
    _parent.command(_entry.name.split()[-1], cls=OrderedCommand, epilog=_epilog)(_entry.function)
app.add_typer(job, name="job")


def main() -> None:
    stdout.replace_unencodable()
    if any(word.encode(errors="ignore").decode() != word for word in sys.argv):
        # Lone surrogates: the arguments are not in the encoding of the locale.
        output.print_error(InvalidUsage("the command line is not UTF-8", example=f"{PROGRAM} {ABOUT}"))
        raise SystemExit(output.FAILED)
    # SIGTERM restores the terminal first, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.run(app, PROGRAM)
