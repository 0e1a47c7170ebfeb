"""`--help` in Japanese: texts, headings, and lines that are filled by the width of characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from typing import Any
from unicodedata import east_asian_width

import typer

from pyoco_server.japanese import japanese

COLUMN_MAX = 30
GAP = 2
# "required" and "default: …" behind the text of an option.
EXTRA = re.compile(r"(?P<text>.*?)(?:(?:^|  )\[(?P<extra>[^\]]*)\])?", re.DOTALL)
# A line may break around each of these; closing marks stay with what is before them.
PIECE = re.compile(r"[（「]*(?:[!-~]+|[^\s])[、。，．）」：；？！ー]*|\s+")


def translate_help(command: Any) -> None:
    """Translate the texts of a command and of all below it."""
    command.context_class = JapaneseContext
    if command.help:
        command.help = japanese(cleandoc(command.help), "commands")
        # The library would cut it where it has spaces.
        command.short_help = command.help.partition("。")[0]
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = japanese(parameter.help, "commands")
    for below in getattr(command, "commands", {}).values():
        translate_help(below)


class JapaneseFormatter(typer.Context.formatter_class):  # type: ignore[valid-type,misc]
    """Writes help pages of the library in Japanese."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or japanese("Usage: ", "commands"))

    def write_heading(self, heading: str) -> None:
        super().write_heading(japanese(heading, "commands"))

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        for paragraph in japanese(text, "commands").split("\n\n"):
            self.write("".join(f"{indent}{line}\n" for line in fill(paragraph, self.width - self.current_indent)))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = COLUMN_MAX, col_spacing: int = GAP) -> None:
        column = min(max(width(first) for first, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for first, second in rows:
            before = f"{indent}{first}"
            if width(first) > column - col_spacing and second:
                self.write(f"{before}\n")
                before = indent
            for line in list(fill(_described(second), max(self.width - column - len(indent), 10))) or [""]:
                self.write(f"{before}{' ' * (column + len(indent) - width(before))}{line}".rstrip() + "\n")
                before = indent


class JapaneseContext(typer.Context):
    formatter_class = JapaneseFormatter


def width(text: str) -> int:
    """The cells that a text takes on a terminal."""
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def fill(text: str, cells: int) -> Iterator[str]:
    """The text in lines of at most this width, unless a word alone is wider."""
    line = ""
    for piece in PIECE.findall(text):
        if line and width(f"{line}{piece}".rstrip()) > cells:
            yield line.rstrip()
            line = ""
        line += piece if line else piece.lstrip()
    if line.strip():
        yield line.rstrip()


def _described(text: str) -> str:
    """The text of an option, and what the library says behind it."""
    found = EXTRA.fullmatch(text)
    if found is None:
        return text
    shown = japanese(found["text"], "commands")
    if not found["extra"]:
        return shown
    extras = (japanese(extra, "commands") for extra in found["extra"].split("; "))
    return f"{shown}  [{'; '.join(extras)}]"
