"""The command tree of `pyoco-client`: which commands there are, and an example of each. Nothing is done here."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import (
    dead_letters,
    doctor,
    executions,
    first_steps,
    graphs,
    job_logs,
    jobs,
    lists,
    logs,
    runs,
    screen,
    wheels,
)
from pyoco_server.cli.client.connection import ApiKeyOption, ServerOption, TokenOption, Where
from pyoco_server.cli.client.lean import LeanCommand, LeanGroup
from pyoco_server.cli.client.options import EXAMPLE_ID
from pyoco_server.cli.correction import PROGRAM
from pyoco_server.errors import InvalidUsage

ABOUT = "submit --flow-name hello --param name=Ann --watch"


class Entry(NamedTuple):
    """A command, its name (behind that of its group), and what a person would type."""

    name: str
    does: Callable[..., Any]
    example: str


COMMANDS = (
    Entry("submit", runs.submit, "submit --flow-name hello --param name=Ann --watch"),
    Entry("submit-yaml", runs.submit_yaml, "submit-yaml --workflow-file flow.yaml --flow-name hello --watch"),
    Entry("get", runs.get, f"get {EXAMPLE_ID} --output table"),
    Entry("tasks", runs.tasks, f"tasks {EXAMPLE_ID} --output table"),
    Entry("list", lists.list_runs, "list --status FAILED --limit 10 --output table"),
    Entry("list-vnext", lists.list_vnext, "list-vnext --updated-after 1767225600 --limit 100"),
    Entry("watch", runs.watch, f"watch {EXAMPLE_ID} --until-terminal"),
    Entry("logs", logs.logs, f"logs {EXAMPLE_ID} --follow --tail 100"),
    Entry("cancel", runs.cancel, f"cancel --run-id {EXAMPLE_ID} --wait --timeout-sec 60"),
    Entry("explain", runs.explain, f"explain {EXAMPLE_ID}"),
    Entry("execute", executions.execute, "execute release --param version=1.4.0 --watch"),
    Entry("execution", executions.execution, f"execution {EXAMPLE_ID}"),
    Entry("events", executions.events, f"events {EXAMPLE_ID} --follow"),
    Entry("waits", executions.waits, "waits --graph-id release --output table"),
    Entry("approve", executions.approve, f"approve {EXAMPLE_ID} --answer '{{\"ship\": true}}'"),
    Entry("graphs", graphs.graphs, "graphs --output table"),
    Entry("graph-put", graphs.graph_put, "graph-put examples/release.yaml --graph-id release"),
    Entry("workers", lists.workers, "workers --scope all --output table"),
    Entry("wheels", wheels.wheels, "wheels --output table"),
    Entry("wheel-history", wheels.history, "wheel-history --limit 20 --action upload --output table"),
    Entry("wheel-upload", wheels.upload, f"wheel-upload --wheel-file dist/{wheels.EXAMPLE_WHEEL} --tags gpu,batch"),
    Entry("wheel-download", wheels.download, f"wheel-download --wheel-name {wheels.EXAMPLE_WHEEL} --to ."),
    Entry("wheel-delete", wheels.delete, f"wheel-delete --wheel-name {wheels.EXAMPLE_WHEEL}"),
    Entry("metrics", lists.metrics, "metrics | grep pyoco_runs_total"),
    Entry("dlq", dead_letters.dlq, "dlq --reason execution_error --output table"),
    Entry("dlq-replay", dead_letters.dlq_replay, "dlq-replay --seq 42 --watch"),
    Entry("doctor", doctor.doctor, "doctor --tag gpu"),
    Entry("init", first_steps.init, "init my-flow"),
    Entry("completion", first_steps.completion, "completion bash >> ~/.bashrc"),
    Entry("version", first_steps.version, "version"),
)

JOB_COMMANDS = (
    Entry("job submit", jobs.submit, "job submit --param input=data.csv --label urgent --follow"),
    Entry("job ls", jobs.ls, "job ls --label urgent --status running"),
    Entry("job get", jobs.get, f"job get {EXAMPLE_ID}"),
    Entry("job logs", job_logs.logs, f"job logs {EXAMPLE_ID} --tail 100 --level WARNING"),
    Entry("job follow", job_logs.follow, f"job follow {EXAMPLE_ID} --tail 100"),
    Entry("job tag", jobs.tag, f"job tag {EXAMPLE_ID} add urgent"),
    Entry("job tags", jobs.tags, "job tags urg --limit 20"),
    Entry("job rm", jobs.rm, f"job rm {EXAMPLE_ID}"),
)
ALL_COMMANDS = (*COMMANDS, *JOB_COMMANDS)


def _group(example: str) -> typer.Typer:
    return typer.Typer(
        cls=LeanGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog=f"Example: {PROGRAM} {example}",
        context_settings={"max_content_width": 100, "help_option_names": ["--help", "-h"]},
    )


app = _group(ABOUT)
job = _group(JOB_COMMANDS[0].example)


def _show_version(wanted: bool) -> None:
    if wanted:
        screen.write(first_steps.version_line())
        raise typer.Exit


@app.callback()
def client(
    ctx: typer.Context,
    server: ServerOption = None,
    api_key: ApiKeyOption = None,
    token: TokenOption = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Submit, look at, watch and cancel runs of a pyoco server."""
    ctx.obj = Where(server=server, api_key=api_key, token=token)


@job.callback()
def jobs_of_a_server() -> None:
    """Have jobs done: submit, list, show, label and remove them; read and follow what they write."""


def _put(group: typer.Typer, entry: Entry) -> None:
    group.command(entry.name.split()[-1], cls=LeanCommand, epilog=f"Example: {PROGRAM} {entry.example}")(entry.does)


for _entry in COMMANDS:
    _put(app, _entry)
for _entry in JOB_COMMANDS:
    _put(job, _entry)
app.add_typer(job, name="job")


def main() -> None:
    screen.ready()
    if any(word.encode(errors="ignore").decode() != word for word in sys.argv):
        # Halves of characters: what was typed is not in the encoding of the locale.
        output.complain(InvalidUsage("the command line is not UTF-8", example=f"{PROGRAM} {ABOUT}"))
        raise SystemExit(output.USER_CAN_MEND)
    # Who is told to end puts the terminal in order first, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.run(app, PROGRAM)
