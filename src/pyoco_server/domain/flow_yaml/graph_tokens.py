"""The text of a graph → its tokens, one at a time, as pyoco's own lexer produces them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Far more than two thousand tasks need; stops early on a text of semicolons only.
MAX_TOKENS = 20_000

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_WORD = re.compile(r"\w+")
_STRING = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MARKS = frozenset("(){}:;,=")


class GraphFault(ValueError):
    """What is wrong with a graph, and on which of its lines."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is the mark itself, or one of name, number, text, template, end."""

    kind: str
    value: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of the text, the last one of kind `end`; `GraphFault` for an invalid character."""
    place, line, count = 0, 1, 0
    while True:
        if skipped := _SKIPPED.match(text, place):
            line += text.count("\n", place, skipped.end())
            place = skipped.end()
        if place >= len(text):
            yield Token("end", "", line)
            return
        kind, value, after = _next(text, place, line)
        yield Token(kind, value, line)
        line += text.count("\n", place, after)
        place = after
        count += 1
        if count > MAX_TOKENS:
            raise GraphFault("the graph is too long", line)


def _next(text: str, place: int, line: int) -> tuple[str, str, int]:
    char = text[place]
    if char == ">":
        if text.startswith(">>", place):
            return ">>", ">>", place + 2
        raise GraphFault("tasks are joined by '>>', not by '>'", line)
    if text.startswith("{{", place):
        end = text.find("}}", place + 2)
        if end < 0:
            raise GraphFault("'{{' has no '}}'", line)
        return "template", "{{" + text[place + 2 : end].strip() + "}}", end + 2
    if char in _MARKS:
        return char, char, place + 1
    if char in "'\"":
        return _text(text, place, line)
    if word := _WORD.match(text, place):
        return _word(word[0], place, line)
    raise GraphFault(f"unexpected character {char!r}", line)


def _text(text: str, place: int, line: int) -> tuple[str, str, int]:
    found = _STRING.match(text, place)
    if found is None:
        raise GraphFault("a text in quotes does not end", line)
    value = found[1] if found[1] is not None else found[2]
    return "text", _ESCAPE.sub(r"\1", value), found.end()


def _word(word: str, place: int, line: int) -> tuple[str, str, int]:
    if word[0].isdigit():
        digits = next((at for at, char in enumerate(word) if not char.isdigit()), len(word))
        return "number", word[:digits], place + digits
    if word[0].isalpha() or word[0] == "_":
        return "name", word, place + len(word)
    raise GraphFault(f"unexpected character {word[0]!r}", line)
