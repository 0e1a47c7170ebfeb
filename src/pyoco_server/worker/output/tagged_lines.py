"""The encoding of a runner's lines in its log pipe: written by the runner, read by its supervisor. Pure.

All output goes through one pipe, which keeps its order, and directly to the kernel, so that a kill loses nothing:

    RS kind level time task US text NL      a line that Python wrote; kind o, e, l, p: stdout, stderr, logging, pyoco
    RS KIND level time task US text …       continues the line before: the kind in capitals (long lines come in pieces)
    RS = task US NL                         no line: the task that runs alone from here on; none if several run
    text NL                                 a line written past Python, to descriptor 1 or 2

A piece has at most PIPE_BUF bytes: the kernel never interleaves such writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyoco_server.domain.run_logs.lines import LEVELS, Level, LogLine, Stream

PIPE_BUF = 4096
TEXT_CAP_BYTES = 48 * 1024  # with the heads of its pieces still below the supervisor's limit for one line
LEVEL_OF: Final[dict[Stream, Level]] = {"stdout": "INFO", "stderr": "WARNING", "output": "INFO"}

_KINDS: Final[dict[Stream, str]] = {"stdout": "o", "stderr": "e", "logging": "l", "pyoco": "p"}
_LEVEL_DIGITS: Final[dict[Level, str]] = {level: str(index) for index, level in enumerate(LEVELS)}
_KIND_AND_LEVEL: Final[dict[str, tuple[Stream, Level]]] = {
    letter + digit: (stream, level)
    for stream, kind in _KINDS.items()
    for letter in (kind, kind.upper())
    for level, digit in _LEVEL_DIGITS.items()
}
_PLAIN: Final = LEVEL_OF["output"]
_NEW: Final = tuple.__new__  # bypasses the constructor, which takes twice as long; one call per line
_HEAD = re.compile(rb"\x1e(?:([oelpOELP][0-4])(\d{16})|=)([^\x1e\x1f\n]*)\x1f")
_SIMPLE = re.compile("^\x1e([oelp][0-4])([0-9]{16})([^\x1e\x1f\n]*)\x1f([^\x1e\n]*)$", re.MULTILINE)
_SIGNS = re.compile("[\x1e\x1f\n\r]")


def task_name(name: str) -> bytes:
    return _SIGNS.sub("\ufffd", name).encode("utf-8", "backslashreplace")


def tag_lines(
    text: str, *, stream: Stream, level: Level, at_us: int, task: bytes, continues: bool, ends: bool
) -> bytes:
    """Encodes lines with a head before each; with `ends` false the last one is incomplete."""
    kind = _KINDS[stream]
    rest = f"{_LEVEL_DIGITS[level]}{at_us:016d}".encode() + task + b"\x1f"
    head, more = b"\x1e" + kind.encode() + rest, b"\x1e" + kind.upper().encode() + rest
    body = text.replace("\x1e", "\u241e") if "\x1e" in text else text
    data = body.encode("utf-8", "backslashreplace")
    room = PIPE_BUF - len(head) - 1
    if len(data) <= room and b"\n" not in data:
        return (more if continues else head) + data + (b"\n" if ends else b"")
    pieces: list[bytes] = []
    for number, line in enumerate(data.split(b"\n")):
        first = more if continues and number == 0 else head
        for part in _cut(line, TEXT_CAP_BYTES):
            pieces.append(first + more.join(_cut(part, room)))
            first = head
    return b"\n".join(pieces) + (b"\n" if ends else b"")


def sole_task_mark(task: bytes) -> bytes:
    """A mark: what is written past Python from here on belongs to this task; to none if empty."""
    return b"\x1e=" + task + b"\x1f\n"


def split_writes(data: bytes) -> list[bytes]:
    """Splits the data into writes of at most PIPE_BUF bytes, before a head or after a line where possible."""
    found: list[bytes] = []
    start = 0
    while len(data) - start > PIPE_BUF:
        end = max(data.rfind(b"\n", start, start + PIPE_BUF) + 1, data.rfind(b"\x1e", start + 1, start + PIPE_BUF + 1))
        end = end if end > start else start + PIPE_BUF
        found.append(data[start:end])
        start = end
    found.append(data[start:])
    return found


class TaggedLineDecoder:
    """Decodes what came through the pipe, one physical line at a time; `sole` is the task that runs alone."""

    def __init__(self, sole: str | None) -> None:
        self.sole = sole

    def lines(self, data: bytes, now: float) -> list[LogLine]:
        """The lines in these bytes, which must end with a complete line; `now` is the time of untagged ones."""
        text = data.decode("utf-8", "replace")
        if "\x1e" not in text:
            return [_NEW(LogLine, (now, self.sole, "output", _PLAIN, line)) for line in text.split("\n")]
        # The common case, up to 150,000 lines a second: every line starts with its only head.
        simple = _SIMPLE.findall(text)
        if len(simple) == text.count("\n") + 1 == text.count("\x1e"):
            return [
                _NEW(LogLine, (int(at_us) / 1_000_000, task or None, *_KIND_AND_LEVEL[code], line))
                for code, at_us, task, line in simple
            ]
        found: list[LogLine] = []
        for physical in data.split(b"\n"):
            found += self._tagged(physical, now) if b"\x1e" in physical else [self._untagged(physical, now)]
        return found

    def _tagged(self, physical: bytes, now: float) -> Iterator[LogLine]:
        text, *heads_and_texts = _HEAD.split(physical)
        if text:
            yield self._untagged(text, now)
        # As bytes until all pieces of a line are joined, because a character may be split.
        pieces: list[tuple[bytes | None, bytes, bytes, bytes]] = []
        for code, at_us, task, text in zip(*[iter(heads_and_texts)] * 4, strict=True):
            before, _, task_before, text_before = pieces[-1] if pieces else (None, b"", b"", b"")
            if code is not None and before is not None and code[:1] == before[:1].upper() and task == task_before:
                pieces[-1] = (before, pieces[-1][1], task, text_before + text)
            else:
                pieces.append((code, at_us, task, text))
        for code, at_us, task, text in pieces:
            name = task.decode("utf-8", "replace") or None
            if code is None:
                self.sole = name
                if text:  # another write came before the newline of the mark
                    yield self._untagged(text, now)
            elif text or code.islower():  # else the end of a line that another write split: no line
                stream, level = _KIND_AND_LEVEL[code.decode()]
                yield LogLine(int(at_us) / 1_000_000, name, stream, level, text.decode("utf-8", "replace"))

    def _untagged(self, text: bytes, now: float) -> LogLine:
        return LogLine(now, self.sole, "output", _PLAIN, text.decode("utf-8", "replace"))


def _cut(line: bytes, cap: int) -> list[bytes]:
    """Splits the line into parts of at most `cap` bytes, between characters."""
    parts = []
    while len(line) > cap:
        end = cap
        while end > cap - 4 and line[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]
