"""Standard output: JSON for programs, tables for people. Colours only on a terminal that wants them."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import RawIOBase
from typing import IO, TYPE_CHECKING, Any, cast

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client.render import STYLES, Row
from pyoco_server.cli.plain import document, lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def write(text: str) -> None:
    """A line of output; a reader that has gone away has had enough, and that is no failure."""
    with _read_by_somebody():
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def bytes_of_others() -> IO[bytes]:
    """Standard output for bytes: as they are for a program, without what steers a terminal for a person."""
    return cast("IO[bytes]", _Bytes())


class _Bytes(RawIOBase):
    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace") if sys.stdout.isatty() else None

    def write(self, piece: Any) -> int:
        with _read_by_somebody():
            if self._decoder is None:
                sys.stdout.buffer.write(piece)
            else:
                sys.stdout.write(lines(self._decoder.decode(piece)))
            sys.stdout.flush()
        return len(piece)


@contextmanager
def _read_by_somebody() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Whatever is still buffered goes nowhere, or the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(output.OK) from None
        output.say(f"error: the output cannot be written: {error.strerror}")
        raise typer.Exit(output.USER_CAN_MEND) from None


def write_json(value: Any, *, lines: bool = False) -> None:
    """One document; with `lines` on one line, as one of many."""
    write(document(value, indent=None if lines else 2))


def is_terminal() -> bool:
    """Whether a person looks at the output, on something that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def console() -> Console:
    """The terminal: no markup is read from anybody's text. NO_COLOR is heeded by rich itself."""
    from rich.console import Console  # here: programs that read JSON do not pay for it

    return Console(markup=False, emoji=False, highlight=False, force_terminal=True)


def table(
    head: Sequence[str], rows: Iterable[Row], room: int | None = None, styles: Mapping[str, str] = STYLES
) -> list[Text]:
    """The lines of a table; a status has its colour wherever it stands."""
    from rich.text import Text

    from pyoco_server.cli.client.columns import GAP, aligned

    first, *rest = aligned(head, rows, room)
    lines = [Text(GAP.join(first), style="bold")]
    for cells in rest:
        style = next((styles[word] for cell in cells if (word := cell.strip()) in styles), "")
        one = Text()
        for place, cell in enumerate(cells):
            one.append(GAP if place else "")
            one.append(cell, style=style if cell.strip() in styles or len(cell) == 1 else "")
        lines.append(one)
    return lines


def write_table(head: Sequence[str], rows: Iterable[Row], styles: Mapping[str, str] = STYLES) -> None:
    """A table, drawn once: in colour and within its width on a terminal, whole and plain elsewhere."""
    if not is_terminal():
        for line in table(head, rows):
            write(line.plain.rstrip())
        return
    board = console()
    with board.capture() as drawn:
        for line in table(head, rows, board.width, styles):
            board.print(line, soft_wrap=True)
    write(drawn.get().rstrip("\n"))


def write_page(page: Mapping[str, Any], head: Sequence[str], row: Callable[[Mapping[str, Any]], Row]) -> None:
    """The items of a page as a table; how to go on is for people, not for what reads the table."""
    write_table(head, [row(item) for item in page["items"]])
    following = page.get("next_cursor") or page.get("nextCursor")
    if following:
        output.say(f"{output.in_words('next page', '次のページ')}: --cursor {following}")


def ready() -> None:
    """Let nothing that somebody named make the output fail: what the encoding does not know is replaced."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
