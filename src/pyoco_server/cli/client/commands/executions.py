"""The commands about executions and graphs: execute, show, list events, approve; list and put graphs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.answers import answer_without_option, read_answer
from pyoco_server.cli.client.commands.submit import print_warnings
from pyoco_server.cli.client.completions import graph_names, recent_ids, routing_tags
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.execution_view import EVENTS, EXECUTION_FACTS, LIVE_HEAD, NODE_HEAD, apply_event, node_rows
from pyoco_server.cli.client.following import continues, exit_code, fold, show_json
from pyoco_server.cli.client.ids import full_id, remember_last
from pyoco_server.cli.client.params import merge
from pyoco_server.cli.client.run_view import run_status, summary
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import (
    is_terminal,
    show,
    show_facts,
    write,
    write_json,
    write_json_line,
    write_selected,
    write_table,
)
from pyoco_server.cli.suggestions import command_line
from pyoco_server.cli.tables import NODE_STYLES, Json, Table, inline_json, moment, text, unix_sec
from pyoco_server.domain.execution.choices import choices_of, shown
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client.models.executions import CommandAccepted

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

WAITS = Table(
    ("EXECUTION_ID", "executionId"),
    ("GRAPH", "graphId"),
    ("NODE", "nodeId"),
    ("SINCE", "waitingSince", moment),
    ("DEADLINE", "deadlineAt", moment),
    ("PROMPT", "prompt", inline_json),
)

ExecutionIdArgument = Annotated[
    str,
    Argument(
        metavar="EXECUTION_ID", help="The execution: its id or its beginning, or @last.", autocompletion=recent_ids
    ),
]


@remote_command
def execute(
    target: Target,
    ctx: typer.Context,
    graph_id: Annotated[
        str,
        Argument(
            metavar="GRAPH_ID", help="A graph, a flow, or any name for an open graph.", autocompletion=graph_names
        ),
    ],
    words: opt.ParamWordsArgument = None,
    tag: Annotated[
        str | None,
        Option("--tag", "--queue", help="For a flow: which workers may run it.", autocompletion=routing_tags),
    ] = None,
    params_file: opt.ParamsFileOption = None,
    params: opt.ParamsOption = None,
    param: opt.ParamOption = None,
    strict: opt.StrictOption = True,
    watch: Annotated[bool, Option("--watch", help="Show its nodes until it has ended.")] = False,
    form: Annotated[
        Literal["json", "status"] | Selection | None,
        Option("--output", "-o", help="What to print: json, or status with --watch."),
    ] = None,
) -> int:
    """Create an execution and start it. Params are merged in the order given, words last; the last one wins."""
    merged = merge(ctx.meta["order"], words, params_file=params_file, params=params, param=param)
    if isinstance(form, Selection):
        if watch:
            raise InvalidUsage(
                "--watch and a selection of fields exclude each other",
                example="pyoco-client execute release version=1.4.0 --json id,version",
            )
        form.check((), CommandAccepted.__annotations__)
    with connected(target) as client:
        accepted = client.execute(graph_id, merged, tag, strict=strict)
        print_warnings(accepted)
        execution_id = accepted["executionId"]
        remember_last(target, client, execution_id)
        if tag is None:
            _warn_about_open_graph(client, execution_id)
        if watch:
            output.print_stderr(output.localized(f"started: {execution_id}", f"開始しました: {execution_id}"))
            with continues("execution", execution_id), closing(client.follow_events(execution_id)) as events:
                return exit_code(_follow(execution_id, events, "json" if form == "json" else "status").get("status"))
    if isinstance(form, Selection):
        write_selected(form, [accepted], CommandAccepted.__annotations__, one=True)
    elif form == "status":
        write(f"{execution_id} PENDING")
    else:
        write_json(accepted)
    return output.OK


def _warn_about_open_graph(client: PyocoHttpClient, execution_id: str) -> None:
    """A misspelled name is no error: it starts an open graph, which ends only by a command."""
    from pyoco_server.http_client import PyocoClientError

    try:
        found = client.get_execution(execution_id)
    except PyocoClientError:  # the execution was accepted, even if the caller may not read it
        return
    if found.get("graphVersion") is None and found.get("tag") is None:
        name = text(found.get("graphId"))
        output.print_stderr(
            output.localized(
                f"no graph or flow has the name {name}: this is an open graph, which ends when it is completed or "
                "failed by a command. To list graphs and flows: pyoco-client graphs",
                f"{name} という graph・flow はありません。open graph として開始したため、complete か fail を送るまで"
                "終了しません。一覧: pyoco-client graphs",
            )
        )


def _follow(execution_id: str, events: Iterator[Any], form: str) -> Json:
    def show_line(before: Json, after: Json, event: Json) -> None:
        _write_event(event)
        _print_how_to_approve(execution_id, event)

    if form == "json":
        return fold(events, apply_event, show_json)
    view = _live(execution_id, events) if is_terminal() else fold(events, apply_event, show_line)
    write(summary("execution", execution_id, view))
    return view


def _live(execution_id: str, events: Iterator[Any]) -> Json:
    from pyoco_server.cli.client.live import live_view

    with live_view(NODE_STYLES, LIVE_HEAD) as draw:

        def show(before: Json, after: Json, event: Json) -> None:
            _print_how_to_approve(execution_id, event)
            draw(after, unix_sec(event.get("occurredAt")))

        return fold(events, apply_event, show)


def _print_how_to_approve(execution_id: str, event: Any) -> None:
    if event.get("type") == "NODE_WAITING":
        node = shlex.quote(str(event["payload"].get("nodeId")))
        command = f"pyoco-client approve {execution_id} --node {node}"
        choices = choices_of(event["payload"].get("prompt"))
        which = f" ({shown(choices)})" if choices else ""
        output.print_stderr(
            output.localized(f"waits for approval{which}: {command}", f"承認待ちです{which}: {command}")
        )


@remote_command
def execution(
    target: Target, execution_id: ExecutionIdArgument, at: opt.AtOption = None, form: opt.TableOutput = "table"
) -> None:
    """Show an execution and its nodes, as they are or as they were."""
    wanted, as_of = opt.valid_id("an execution id", execution_id), opt.as_of(at)
    with connected(target) as client:
        found = client.get_execution(full_id(target, client, wanted), as_of)
    show_facts(form, found, EXECUTION_FACTS)
    if form == "table" and found["nodes"]:
        write_table(NODE_HEAD, node_rows(found), NODE_STYLES)


@remote_command
def events(
    target: Target,
    execution_id: ExecutionIdArgument,
    follow: Annotated[bool, Option("--follow", "-f", help="Continue with new events, until it has ended.")] = False,
    form: opt.PlainOutput = "table",
) -> None:
    """List the events of an execution: what happened, when (UTC) and by whom; as JSON, one event per line."""
    wanted = opt.valid_id("an execution id", execution_id)
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        if follow:
            write_one: Callable[[Any], None] = write_json_line if form == "json" else _write_event
            with continues("execution", wanted), closing(client.follow_events(wanted)) as stream:
                for event in stream:
                    write_one(event)
            return
        found: list[Any] = list(client.iter_events(wanted))
    if form == "table":
        show(form, found, EVENTS)
        return
    for event in found:
        write_json_line(event)


def _write_event(event: Any) -> None:
    """One event as it arrives: the widths of later ones are unknown."""
    write("  ".join(cell for cell in EVENTS.row(event) if cell not in ("-", "")))


@remote_command
def waits(
    target: Target,
    graph_id: Annotated[str | None, Option("--graph-id", help="Only of this graph.")] = None,
    limit: opt.LimitOption = None,
    cursor: opt.CursorOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List the nodes that wait for a decision, longest waiting first."""
    with connected(target) as client:
        page = client.list_waits(graph_id=graph_id, limit=limit, cursor=cursor)
    show(form, page, WAITS)


@remote_command
def approve(
    target: Target,
    execution_id: ExecutionIdArgument,
    node: Annotated[str | None, Option(help="Which node, if several wait.")] = None,
    answer: Annotated[
        str | None, Option(metavar="CHOICE|JSON", help="The answer to the prompt: one of its choices, if it has some.")
    ] = None,
    reject: Annotated[bool, Option("--reject", help="Fail the node instead; its graph fails.")] = False,
    reason: Annotated[str | None, Option(metavar="TEXT", help="Why it is rejected.")] = None,
) -> None:
    """Resume the node that waits for a decision, or reject it. On a terminal, asks for the choice."""
    wanted = opt.valid_id("an execution id", execution_id)
    if reason is not None and not reject:
        raise InvalidUsage("--reason needs --reject", example=command_line([*sys.argv[1:], "--reject"]))
    if answer is not None and reject:
        raise InvalidUsage(
            "--answer and --reject exclude each other", example=command_line(["approve", wanted, "--answer", answer])
        )
    parsed = None if answer is None else read_answer(answer)
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        chosen = _waiting_node(client.get_execution(wanted), node)
        node_id, attempt = chosen["nodeId"], chosen["attempt"]
        if reject:
            write_json(client.fail_node(wanted, node_id, "REJECTED", reason or "rejected", attempt))
        else:
            parsed = answer_without_option(wanted, chosen) if answer is None else parsed
            write_json(client.resume_node(wanted, node_id, chosen["waitKey"], parsed, attempt))


def _waiting_node(found: Any, node_id: str | None) -> Any:
    """The waiting node; if that is ambiguous, an error that lists the candidates."""
    execution_id, waiting = found["executionId"], [one for one in found["nodes"] if one["status"] == "WAITING"]
    chosen = [one for one in waiting if node_id in (None, one["nodeId"])]
    if len(chosen) == 1:
        return chosen[0]
    if not waiting:
        raise InvalidUsage(
            f"nothing waits in execution {execution_id} ({run_status(found)})",
            example=f"pyoco-client explain {execution_id}",
        )
    for one in waiting:
        prompt = inline_json(one.get("prompt"))
        output.print_stderr(f"- {one['nodeId']}: {text(one.get('waitKey')) if prompt == '-' else prompt}")
    several = f"{len(waiting)} nodes wait: choose one by --node"
    raise InvalidUsage(
        several if node_id is None else f"{node_id!r} does not wait; these do",
        example=command_line(["approve", execution_id, "--node", str(waiting[0]["nodeId"])]),
    )
