"""The command tree of `pyoco-client`: all commands, with an example of each."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from pyoco_server.cli import output, stdout
from pyoco_server.cli.client.commands import (
    audit,
    cancel,
    config,
    doctor,
    executions,
    fleet,
    flows,
    graphs,
    jobs,
    listing,
    local,
    logs,
    overview,
    runs,
    strategies,
    submit,
    wheels,
)
from pyoco_server.cli.client.connection import ApiKeyOption, ProfileOption, ServerOption, Target, TokenOption
from pyoco_server.cli.client.options import EXAMPLE_ID
from pyoco_server.cli.client.profiles import load_profile
from pyoco_server.cli.suggestions import CLIENT as PROGRAM
from pyoco_server.cli.version import HELP_NAMES, VersionOption
from pyoco_server.errors import InvalidUsage

ABOUT = "submit hello name=Ann --watch"


class Entry(NamedTuple):
    """A command: its name, with that of its group, its function and an example."""

    name: str
    function: Callable[..., Any]
    example: str
    hidden: bool = False


COMMANDS = (
    Entry("submit", submit.submit, ABOUT),
    Entry("submit-yaml", submit.submit_yaml, "submit-yaml --workflow-file flow.yaml --flow-name hello --watch"),
    Entry("get", runs.get, f"get {EXAMPLE_ID} --output table"),
    Entry("tasks", runs.tasks, f"tasks {EXAMPLE_ID} --output table"),
    Entry("result", runs.result, f"result {EXAMPLE_ID} --wait"),
    Entry("list", listing.list_runs, "list --status FAILED --since 1h --output table"),
    Entry("list-vnext", listing.list_vnext, "list-vnext --updated-after 1767225600 --limit 100", hidden=True),
    Entry("watch", runs.watch, f"watch {EXAMPLE_ID} --until-terminal"),
    Entry("logs", logs.run_logs, f"logs {EXAMPLE_ID} --follow --tail 100"),
    Entry("cancel", cancel.cancel, f"cancel {EXAMPLE_ID} --wait --timeout-sec 60"),
    Entry("rerun", submit.rerun, f"rerun {EXAMPLE_ID} name=Ann --watch"),
    Entry("explain", runs.explain, f"explain {EXAMPLE_ID}"),
    Entry("open", runs.open_run, "open @last"),
    Entry("execute", executions.execute, "execute release version=1.4.0 --watch"),
    Entry("execution", executions.execution, f"execution {EXAMPLE_ID}"),
    Entry("events", executions.events, f"events {EXAMPLE_ID} --follow"),
    Entry("waits", executions.waits, "waits --graph-id release --output table"),
    Entry("approve", executions.approve, f"approve {EXAMPLE_ID} --answer ship"),
    Entry("overview", overview.overview, "overview"),
    Entry("stats", overview.stats, "stats --since 24h --points 24 --flow hello"),
    Entry("flows", flows.flows, "flows --tag gpu"),
    Entry("graph", flows.graph, "graph hello --mermaid"),
    Entry("graphs", graphs.graphs, "graphs --output table"),
    Entry("graph-put", graphs.graph_put, "graph-put examples/release.yaml --graph-id release"),
    Entry("workers", fleet.workers, "workers --scope all --output table"),
    Entry("wheels", wheels.wheels, "wheels --output table"),
    Entry("wheel-history", wheels.history, "wheel-history --limit 20 --action upload --output table"),
    Entry("wheel-upload", wheels.upload, f"wheel-upload --wheel-file dist/{wheels.EXAMPLE_WHEEL} --tags gpu,batch"),
    Entry("wheel-download", wheels.download, f"wheel-download --wheel-name {wheels.EXAMPLE_WHEEL} --to ."),
    Entry("wheel-delete", wheels.delete, f"wheel-delete --wheel-name {wheels.EXAMPLE_WHEEL}"),
    Entry("strategies", strategies.strategies, "strategies --tag daily --health degraded --sort id.asc"),
    Entry("strategy", strategies.strategy, f"strategy {strategies.EXAMPLE_STRATEGY}"),
    Entry("recheck", strategies.recheck, f"recheck {strategies.EXAMPLE_REQUEST}"),
    Entry("metrics", fleet.metrics, "metrics | grep pyoco_runs_total"),
    Entry("dlq", fleet.dlq, "dlq --reason execution_error --output table"),
    Entry("dlq-replay", fleet.dlq_replay, "dlq-replay --seq 42 --watch"),
    Entry("audit", audit.audit, "audit --actor 0123456789abcdef --since 2026-01-31 --output table"),
    Entry("doctor", doctor.doctor, "doctor --tag gpu"),
    Entry("init", local.init, "init my-flow"),
    Entry("completion", local.completion, "completion bash >> ~/.bashrc"),
    Entry("version", local.version, "version"),
)

JOB_COMMANDS = (
    Entry("job submit", jobs.submit, "job submit input=data.csv --label urgent --follow"),
    Entry("job ls", jobs.ls, "job ls --label urgent --status running"),
    Entry("job get", jobs.get, f"job get {EXAMPLE_ID}"),
    Entry("job logs", logs.job_logs, f"job logs {EXAMPLE_ID} --tail 100 --level WARNING"),
    Entry("job follow", logs.job_follow, f"job follow {EXAMPLE_ID} --tail 100"),
    Entry("job tag", jobs.tag, f"job tag {EXAMPLE_ID} add urgent"),
    Entry("job tags", jobs.tags, "job tags urg --limit 20"),
    Entry("job rm", jobs.rm, f"job rm {EXAMPLE_ID}"),
)
CONFIG_COMMANDS = (
    Entry("config set", config.set_value, "config set server https://pyoco.example.org --profile work"),
    Entry("config get", config.get_value, "config get server"),
    Entry("config unset", config.unset_value, "config unset token"),
    Entry("config list", config.list_values, "config list"),
    Entry("config use", config.use, "config use work"),
)
ALL_COMMANDS = (*COMMANDS, *JOB_COMMANDS, *CONFIG_COMMANDS)


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
        context_settings={"max_content_width": 100, **HELP_NAMES},
    )


app = _group(ABOUT)
groups = {"job": _group(JOB_COMMANDS[0].example), "config": _group(CONFIG_COMMANDS[0].example)}


@app.callback(invoke_without_command=True)
def client(
    ctx: typer.Context,
    server: ServerOption = None,
    api_key: ApiKeyOption = None,
    token: TokenOption = None,
    profile: ProfileOption = None,
    version: VersionOption = False,
) -> None:
    """Submit, show, watch and cancel runs of a pyoco server."""
    ctx.obj = Target(server=server, api_key=api_key, token=token, profile=profile)
    if ctx.invoked_subcommand is None:
        stdout.write(ctx.get_help())


@groups["job"].callback()
def job_group() -> None:
    """Submit, list, show, label and remove jobs; read and follow their output."""


@groups["config"].callback()
def config_group() -> None:
    """Store the server, credentials and preferences in profiles."""


for _entry in ALL_COMMANDS:
    *_group_name, _name = _entry.name.split()
    _parent, _epilog = groups[_group_name[0]] if _group_name else app, f"Example: {PROGRAM} {_entry.example}"
    _parent.command(_name, cls=OrderedCommand, epilog=_epilog, hidden=_entry.hidden)(_entry.function)
for _name, _below in groups.items():
    app.add_typer(_below, name=_name)


def _language_of_profile() -> str | None:
    """The language of messages, which has to be known before the command line is parsed."""
    words = [word for argument in sys.argv[1:] for word in argument.split("=", 1)]
    try:
        return load_profile(next((name for word, name in pairwise(words) if word == "--profile"), None)).language
    except InvalidUsage:
        return None  # the command reports it, unless it is one that repairs the file


def main() -> None:
    stdout.replace_unencodable()
    if any(word.encode(errors="ignore").decode() != word for word in sys.argv):
        # Lone surrogates: the arguments are not in the encoding of the locale.
        output.print_error(InvalidUsage("the command line is not UTF-8", example=f"{PROGRAM} {ABOUT}"))
        raise SystemExit(output.FAILED)
    if language := _language_of_profile():
        os.environ.setdefault("PYOCO_LANG", language)
    # SIGTERM restores the terminal first, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output.run(app, PROGRAM)
