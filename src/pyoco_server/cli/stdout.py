"""Results on stdout: JSON for programs, tables for people. Colours only on a terminal that supports them."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import RawIOBase
from typing import TYPE_CHECKING, Any

import typer

from pyoco_server.cli.output import FAILED, OK, localized, print_stderr
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.tables import STYLES, Json, Row, Table, layout
from pyoco_server.cli.terminal_escape import escape_lines, to_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Form = str | Selection
"""What a command prints: one of the words of --output, or the parts that --json or --template select."""


def write(text: str) -> None:
    """Write a line. If the reader has closed the pipe, the program ends successfully."""
    with _broken_pipe_ends_program():
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class RawOutput(RawIOBase):
    """Stdout for bytes: unchanged for a program, without control characters on a terminal."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace") if sys.stdout.isatty() else None

    def write(self, piece: Any) -> int:
        with _broken_pipe_ends_program():
            if self._decoder is None:
                sys.stdout.buffer.write(piece)
            else:
                sys.stdout.write(escape_lines(self._decoder.decode(piece)))
            sys.stdout.flush()
        return len(piece)


@contextmanager
def _broken_pipe_ends_program() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Discard what is still buffered: the interpreter would report it when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(OK) from None
        print_stderr(
            localized(
                f"error: the output cannot be written: {error.strerror}", f"エラー: 出力できません: {error.strerror}"
            )
        )
        raise typer.Exit(FAILED) from None


def write_json(value: Any) -> None:
    write(to_json(value, indent=2))


def write_json_line(value: Any) -> None:
    write(to_json(value))


def is_terminal(stream: Any = None) -> bool:
    """Whether stdout, or this stream, is a terminal that can be drawn on."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


@cache
def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """The terminal, or plain text if there is none; markup in foreign text has no effect. Rich obeys NO_COLOR."""
    from rich.console import Console  # here: commands that print JSON do not need it

    terminal = is_terminal(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, force_terminal=terminal)


def draw(drawn: RenderableType, width: int | None = None) -> None:
    """Write something of rich's: a table in its width, anything else without breaking lines."""
    board = console(width=width)
    with board.capture() as captured:
        board.print(drawn, crop=False, soft_wrap=width is None)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()))


def show(form: Form, data: Any, table: Table, items: Iterable[Json] | None = None, known: Iterable[str] = ()) -> None:
    """Print an answer as JSON, or its items as a table or as selected; the cursor of the next page goes to stderr.

    `known` are the fields that such items can have.
    """
    if form == "json":
        write_json(data)
        return
    page = data if isinstance(data, Mapping) else {"items": data}
    listed = list(page["items"] if items is None else items)
    if isinstance(form, Selection):
        write_selected(form, listed, known)
    else:
        write_table(table.head, [table.row(item) for item in listed], table.styles)
    cursor = page.get("next_cursor") or page.get("nextCursor")
    if cursor:
        print_stderr(f"{localized('next page', '次のページ')}: --cursor {cursor}")


def write_table(head: Sequence[str], rows: Iterable[Row], styles: Mapping[str, str] = STYLES) -> None:
    """A table: in colour and cut to the width of a terminal, plain and complete elsewhere."""
    draw(*layout(head, rows, styles, console().width if is_terminal() else None))


def write_selected(
    selection: Selection, items: Sequence[Json], known: Iterable[str] = (), *, one: bool = False
) -> None:
    """Print the selected parts of items: a JSON array, or a line of each; of `one` item an object."""
    selection.check(items, known)
    if selection.template is None:
        found = [selection.of(item) for item in items]
        write_json(found[0] if one else found)
        return
    for item in items:
        write(selection.line(item))


def show_facts(form: Form, item: Any, table: Table, known: Iterable[str] = ()) -> None:
    """Print one item as JSON, as names and values, or as selected."""
    if form == "json":
        write_json(item)
        return
    if isinstance(form, Selection):
        write_selected(form, [item], known, one=True)
        return
    width = max(len(name) for name in table.head) + 2
    for name, value in table.facts(item):
        write(f"{name + ':':<{width}}{value}")


def show_lines(form: Form, data: Any, lines: Iterable[str]) -> None:
    """Print an answer as JSON, as selected, or as these lines."""
    if form == "json":
        write_json(data)
        return
    if isinstance(form, Selection):
        write_selected(form, [data], one=True)
        return
    for line in lines:
        write(line)


def replace_unencodable() -> None:
    """Replace characters that the encoding of the terminal lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
