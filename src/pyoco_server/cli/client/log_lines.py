"""Lines that a run or a job has written, for people with time and task, for programs as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyoco_server.cli import plain
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.render import Json, stamp

MOST_LINES = 10_000
STYLES = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}


def writer(form: str) -> Callable[[Any], None]:
    """What shows one line, in this form."""
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
    # Of a job the time is text already; of a run it is a number.
    when = plain.line(item["timestamp"]) if item.get("timestamp") else stamp(item.get("ts"))
    return f"{when} ", f"{plain.line(item.get('task') or '-')} ", message
