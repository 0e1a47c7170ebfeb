"""`pyoco-client logs`: what a run has written, for people with time and task, for programs as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyoco_server.cli import plain
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import run_goes_on
from pyoco_server.cli.client.options import RunIdArgument, RunIdOption, TextOutput, the_run
from pyoco_server.cli.client.render import Json, stamp

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

MOST_LINES = 10_000
STYLES = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}


@reaches_server
def logs(
    where: Where,
    run_id: RunIdArgument = None,
    run_id_option: RunIdOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what the run writes, until it is over.")
    ] = False,
    tail: Annotated[int | None, typer.Option(min=1, max=MOST_LINES, help="Only the last so many lines.")] = None,
    form: TextOutput = "text",
) -> None:
    """Show what a run has written: each line with its time (UTC) and its task."""
    wanted = the_run(run_id, run_id_option)
    with connected(where) as client:
        show = _writer(form)
        if follow:
            with run_goes_on(wanted):
                for line in client.follow_run_logs(wanted, tail=tail):
                    show(line)
            return
        for item in _written_so_far(client, wanted, tail):
            show(item)


def _written_so_far(client: PyocoHttpClient, run_id: str, tail: int | None) -> Iterator[Json]:
    page = client.get_run_logs(run_id, tail=tail, limit=None if tail else MOST_LINES)
    yield from page["items"]
    while page["items"] and tail is None and not page["complete"]:
        page = client.get_run_logs(run_id, since_token=page["next_token"], limit=MOST_LINES)
        yield from page["items"]


def _writer(form: str) -> Callable[[Any], None]:
    if form == "json":
        return lambda item: screen.write_json(item, lines=True)
    if not screen.is_terminal():
        return lambda item: screen.write("".join(_parts(item)))
    board = screen.console()

    def in_colour(item: Json) -> None:
        from rich.text import Text

        when, task, message = _parts(item)
        text = Text.assemble((when, "dim"), (task, "cyan"), (message, STYLES.get(item.get("level", ""), "")))
        with board.capture() as drawn:
            board.print(text, soft_wrap=True)
        screen.write(drawn.get().rstrip("\n"))

    return in_colour


def _parts(item: Json) -> tuple[str, str, str]:
    """Time, task and text. What a flow prints is not trusted with the terminal."""
    message = plain.lines(str(item.get("message", "")).rstrip("\r").replace("\n", " "))
    return f"{stamp(item.get('ts'))} ", f"{plain.line(item.get('task') or '-')} ", message
