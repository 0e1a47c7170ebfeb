"""The commands about executions: execute a graph, look at it, see who did what, and decide what waits for a person."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import execution_view as view
from pyoco_server.cli.client import params as given_params
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import exit_code, goes_on
from pyoco_server.cli.client.options import (
    EXAMPLE_ID,
    CursorOption,
    LimitOption,
    ListOutput,
    TableOutput,
    checked_id,
)
from pyoco_server.cli.client.render import NODE_STYLES, Json
from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

REJECTED = "REJECTED"

ExecutionIdArgument = Annotated[
    str, typer.Argument(metavar="EXECUTION_ID", help="Which execution.", show_default=False)
]


@reaches_server
def execute(
    where: Where,
    ctx: typer.Context,
    graph_id: Annotated[
        str,
        typer.Argument(metavar="GRAPH_ID", help="A graph, a flow, or any name for an open graph.", show_default=False),
    ],
    tag: Annotated[str | None, typer.Option(help="For a flow: which workers may run it.")] = None,
    params_file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Input from a JSON or YAML file; - is standard input.")
    ] = None,
    params: Annotated[list[str] | None, typer.Option(metavar="JSON", help="Input as a JSON object.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="One param; the value is JSON or plain text.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show its nodes until it has ended.")] = False,
    form: Annotated[
        Literal["json", "status"] | None,
        typer.Option("--output", "-o", help="What to print: json, or status with --watch.", show_default=False),
    ] = None,
) -> int:
    """Create an execution and start it. Params are merged in the order given; the last one wins."""
    sources = {"params_file": params_file or [], "params": params or [], "param": param or []}
    gathered = given_params.merged(ctx.meta["order"], sources)
    with connected(where) as client:
        accepted = client.execute(graph_id, gathered, tag)
        execution_id = accepted["executionId"]
        if tag is None:
            _warn_of_an_open_graph(client, execution_id)
        if watch:
            output.say(output.in_words(f"started: {execution_id}", f"開始しました: {execution_id}"))
            with goes_on(execution_id), closing(client.follow_events(execution_id)) as events:
                return exit_code(_watched(execution_id, events, form or "status"))
    if form == "status":
        screen.write(f"{execution_id} ACTIVE")
    else:
        screen.write_json(accepted)
    return output.OK


def _warn_of_an_open_graph(client: PyocoHttpClient, execution_id: str) -> None:
    """A slip in the name is no error: it makes an execution that waits for somebody who knows what its nodes are."""
    from pyoco_server.http_client import PyocoClientError

    try:
        found = client.get_execution(execution_id)
    except PyocoClientError:  # it was accepted; whoever may not read it, or cannot now, is told no less of that
        return
    if found.get("graphVersion") is None and found.get("tag") is None:
        name = view.shown(found.get("graphId"))
        output.say(
            output.in_words(
                f"no graph or flow is called {name}: this is an open graph, which ends when somebody completes or "
                "fails it. To see what there is: pyoco-client graphs",
                f"{name} という graph・flow はありません。open graph として開始したため、complete か fail を送るまで"
                "終了しません。一覧: pyoco-client graphs",
            )
        )


def _watched(execution_id: str, events: Iterator[Any], form: str) -> Json:
    """Show what happens until the end; what was seen of it."""
    show = _json_lines if form == "json" else _live if screen.is_terminal() else _lines
    shown = show(execution_id, events)
    if form != "json":
        screen.write(view.last_line(execution_id, shown))
    return shown


def _json_lines(execution_id: str, events: Iterator[Any]) -> Json:
    shown: Json = {}
    for event in events:
        screen.write_json(event, lines=True)
        shown = view.seen(shown, event)
    return shown


def _lines(execution_id: str, events: Iterator[Any]) -> Json:
    shown: Json = {}
    for event in events:
        _write_event(event)
        shown = view.seen(shown, event)
        _say_how_it_goes_on(execution_id, event)
    return shown


def _say_how_it_goes_on(execution_id: str, event: Any) -> None:
    if event.get("type") == "NODE_WAITING":
        node = shlex.quote(str(event["payload"].get("nodeId")))
        command = f"pyoco-client approve {execution_id} --node {node}"
        output.say(output.in_words(f"it waits for somebody: {command}", f"承認待ちです: {command}"))


def _live(execution_id: str, events: Iterator[Any]) -> Json:
    from pyoco_server.cli.client.live import live_board

    shown: Json = {}
    with live_board(NODE_STYLES, view.LIVE_HEAD) as show:
        for event in events:
            shown = view.seen(shown, event)
            _say_how_it_goes_on(execution_id, event)
            show(shown, view.unix_sec(event.get("occurredAt")))
    return shown


@reaches_server
def execution(where: Where, execution_id: ExecutionIdArgument, form: TableOutput = "table") -> None:
    """Show an execution as it is now, with its nodes."""
    wanted = checked_id("an execution id", execution_id, EXAMPLE_ID)
    with connected(where) as client:
        found = client.get_execution(wanted)
    if form == "json":
        screen.write_json(found)
        return
    for name, value in view.execution_facts(found):
        screen.write(f"{name + ':':<11}{value}")
    if found["nodes"]:
        screen.write_table(view.NODE_HEAD, view.node_rows(found), NODE_STYLES)


@reaches_server
def events(
    where: Where,
    execution_id: ExecutionIdArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until it has ended.")
    ] = False,
    form: TableOutput = "table",
) -> None:
    """Show who did what to an execution, and when (UTC); as JSON, one event per line."""
    wanted = checked_id("an execution id", execution_id, EXAMPLE_ID)
    with connected(where) as client:
        if follow:
            show: Callable[[Any], None] = _write_json_line if form == "json" else _write_event
            with goes_on(wanted), closing(client.follow_events(wanted)) as stream:
                for event in stream:
                    show(event)
            return
        found = list(client.iter_events(wanted))
    if form == "table":
        screen.write_table(view.EVENT_HEAD, [view.event_row(event) for event in found])
        return
    for event in found:
        _write_json_line(event)


def _write_json_line(event: Any) -> None:
    screen.write_json(event, lines=True)


def _write_event(event: Any) -> None:
    """One event as it comes: how wide the next ones are is not known."""
    screen.write("  ".join(cell for cell in view.event_row(event) if cell not in ("-", "")))


@reaches_server
def waits(
    where: Where,
    graph_id: Annotated[str | None, typer.Option("--graph-id", help="Only of this graph.")] = None,
    limit: LimitOption = None,
    cursor: CursorOption = None,
    form: ListOutput = "json",
) -> None:
    """List what waits for somebody's decision, the longest waiting first."""
    with connected(where) as client:
        page = client.list_waits(graph_id=graph_id, limit=limit, cursor=cursor)
    if form == "json":
        screen.write_json(page)
    else:
        screen.write_page(page, view.WAIT_HEAD, view.wait_row)


@reaches_server
def approve(
    where: Where,
    execution_id: ExecutionIdArgument,
    node: Annotated[str | None, typer.Option(help="Which node, where several wait.", show_default=False)] = None,
    answer: Annotated[
        str | None, typer.Option(metavar="JSON", help="What to answer to the prompt.", show_default=False)
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Give the node up instead; its graph fails.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it is rejected.", show_default=False)] = None,
) -> None:
    """Let the node that waits for a decision go on, or give it up."""
    wanted = checked_id("an execution id", execution_id, EXAMPLE_ID)
    if reason is not None and not reject:
        raise InvalidUsage("--reason needs --reject", example=corrected([*sys.argv[1:], "--reject"], replace={}))
    if answer is not None and reject:
        raise InvalidUsage(
            "--answer and --reject exclude each other",
            example=corrected(["approve", wanted, "--answer", answer], replace={}),
        )
    said = _read_answer(answer)
    with connected(where) as client:
        chosen = _the_wait(client.get_execution(wanted), node)
        node_id, attempt = chosen["nodeId"], chosen["attempt"]
        if reject:
            screen.write_json(client.fail_node(wanted, node_id, REJECTED, reason or "rejected", attempt))
        else:
            screen.write_json(client.resume_node(wanted, node_id, chosen["waitKey"], said, attempt))


def _read_answer(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return given_params.parse_json(text)
    except ValueError as error:
        fixed = corrected(sys.argv[1:], replace={text: '{"approved": true}'})
        raise InvalidUsage(f"--answer is not JSON: {error}", example=fixed) from error


def _the_wait(found: Any, node_id: str | None) -> Any:
    """The waiting node that is meant; when that is not clear, which ones there are."""
    execution_id, waiting = found["executionId"], [one for one in found["nodes"] if one["status"] == "WAITING"]
    chosen = [one for one in waiting if node_id in (None, one["nodeId"])]
    if len(chosen) == 1:
        return chosen[0]
    if not waiting:
        raise InvalidUsage(
            f"nothing waits in execution {execution_id} ({found['status']})",
            example=f"pyoco-client explain {execution_id}",
        )
    for one in waiting:
        output.say(f"- {one['nodeId']}: {view.shown(one.get('prompt')) or one.get('waitKey')}")
    some = f"{len(waiting)} nodes wait: say which one by --node"
    example = ["approve", execution_id, "--node", str(waiting[0]["nodeId"])]
    raise InvalidUsage(
        some if node_id is None else f"{node_id!r} does not wait; these do", example=corrected(example, replace={})
    )
