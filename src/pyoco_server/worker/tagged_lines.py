"""The words in which a runner's lines travel through its log pipe: written by the runner, read by its supervisor; pure.

Everything goes through one pipe, so that it stays in order, and straight to the kernel, so that a kill loses nothing:

    RS kind level time task US text NL      a line that Python wrote; kind o, e, l, p: stdout, stderr, logging, pyoco
    RS KIND level time task US text …       more of the line before: the kind in capitals (long lines come in pieces)
    RS = task US NL                         no line: which task runs alone from here on; none where several do
    text NL                                 a line that somebody wrote past Python, to descriptor 1 or 2

A piece is at most PIPE_BUF bytes long: the kernel never mixes such a write with another one's.
"""

from __future__ import annotations

import re
from typing import Final

from pyoco_server.domain.run_logs.lines import LEVELS, Level, LogLine, Stream

PIPE_BUF = 4096
TEXT_CAP_BYTES = 48 * 1024  # with the heads of its pieces still below what the supervisor takes as one line
LEVEL_OF: Final[dict[Stream, Level]] = {"stdout": "INFO", "stderr": "WARNING", "output": "INFO"}

_KINDS: Final[dict[Stream, str]] = {"stdout": "o", "stderr": "e", "logging": "l", "pyoco": "p"}
_LEVEL_DIGITS: Final[dict[Level, str]] = {level: str(index) for index, level in enumerate(LEVELS)}
_HOW: Final[dict[str, tuple[Stream, Level]]] = {
    letter + digit: (stream, level)
    for stream, kind in _KINDS.items()
    for letter in (kind, kind.upper())
    for level, digit in _LEVEL_DIGITS.items()
}
_PLAIN: Final = LEVEL_OF["output"]
_NEW: Final = tuple.__new__  # a line is made for every line there is: the way around its constructor is half as long
_HEAD = re.compile(rb"\x1e(?:([oelpOELP][0-4])(\d{16})|=)([^\x1e\x1f\n]*)\x1f")
_SIMPLE = re.compile("^\x1e([oelp][0-4])([0-9]{16})([^\x1e\x1f\n]*)\x1f([^\x1e\n]*)$", re.MULTILINE)
_SIGNS = re.compile("[\x1e\x1f\n\r]")


def task_name(name: str) -> bytes:
    """A task's name as it stands in a head."""
    return _SIGNS.sub("\ufffd", name).encode("utf-8", "backslashreplace")


def tagged(text: str, *, stream: Stream, level: Level, at_us: int, task: bytes, continues: bool, ends: bool) -> bytes:
    """Whole lines (and with `ends` false the beginning of one more) with a head before each."""
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


def sole_task(task: bytes) -> bytes:
    """From here on what is written past Python belongs to this task; to none when it is empty."""
    return b"\x1e=" + task + b"\x1f\n"


def writes(data: bytes) -> list[bytes]:
    """The data in writes of at most PIPE_BUF bytes, cut before a head or behind a line where that can be."""
    found: list[bytes] = []
    start = 0
    while len(data) - start > PIPE_BUF:
        end = max(data.rfind(b"\n", start, start + PIPE_BUF) + 1, data.rfind(b"\x1e", start + 1, start + PIPE_BUF + 1))
        end = end if end > start else start + PIPE_BUF
        found.append(data[start:end])
        start = end
    found.append(data[start:])
    return found


class TaggedReader:
    """Makes lines of what came through the pipe, one physical line at a time; `sole` is the task that runs alone."""

    def __init__(self, sole: str | None) -> None:
        self.sole = sole

    def lines(self, data: bytes, now: float) -> list[LogLine]:
        """The lines in these bytes, which end with a whole line or are all there is; `now` is for untagged ones."""
        text = data.decode("utf-8", "replace")
        if "\x1e" not in text:
            return [_NEW(LogLine, (now, self.sole, "output", _PLAIN, line)) for line in text.split("\n")]
        # By far the most common, and ten thousands a second: every line has one head, and begins with it.
        simple = _SIMPLE.findall(text)
        if len(simple) == text.count("\n") + 1 == text.count("\x1e"):
            return [
                _NEW(LogLine, (int(at_us) / 1_000_000, task or None, *_HOW[how], line))
                for how, at_us, task, line in simple
            ]
        found: list[LogLine] = []
        for physical in data.split(b"\n"):
            if b"\x1e" in physical:
                self._tagged(physical, now, found)
            else:
                found.append(LogLine(now, self.sole, "output", _PLAIN, physical.decode("utf-8", "replace")))
        return found

    def _tagged(self, physical: bytes, now: float, found: list[LogLine]) -> None:
        start = 0
        before: re.Match[bytes] | None = None
        parts: list[tuple[re.Match[bytes] | None, bytes]] = []
        for found_head in _HEAD.finditer(physical):
            if found_head.start() > 0:
                parts.append((before, physical[start : found_head.start()]))
            start, before = found_head.end(), found_head
        parts.append((before, physical[start:]))
        for head, text in _joined(parts):
            if head is not None and head[1] is not None:
                if text or head[1].islower():  # else the end of a line that others have come in between: no line
                    found.append(_line(head, text))
                continue
            if head is not None:
                self.sole = head[3].decode("utf-8", "replace") or None
            if text or head is None:  # behind a mark: somebody else's write came before its newline
                found.append(LogLine(now, self.sole, "output", _PLAIN, text.decode("utf-8", "replace")))


def _joined(parts: list[tuple[re.Match[bytes] | None, bytes]]) -> list[tuple[re.Match[bytes] | None, bytes]]:
    """The pieces of one line as one; as bytes, because a character may be cut in two."""
    joined: list[tuple[re.Match[bytes] | None, bytes]] = []
    for head, text in parts:
        before = joined[-1][0] if joined else None
        if before is not None and head is not None and _continues(before, head):
            joined[-1] = (before, joined[-1][1] + text)
        else:
            joined.append((head, text))
    return joined


def _continues(before: re.Match[bytes], head: re.Match[bytes]) -> bool:
    if before[1] is None or head[1] is None or not head[1][:1].isupper():
        return False
    return before[1][:1].lower() == head[1][:1].lower() and before[3] == head[3]


def _cut(line: bytes, cap: int) -> list[bytes]:
    """The line in parts of at most so many bytes, no character cut in two."""
    parts = []
    while len(line) > cap:
        end = cap
        while end > cap - 4 and line[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]


def _line(head: re.Match[bytes], text: bytes) -> LogLine:
    how, at_us, task = head.groups()
    stream, level = _HOW[how.decode()]
    return LogLine(
        int(at_us) / 1_000_000, task.decode("utf-8", "replace") or None, stream, level, text.decode("utf-8", "replace")
    )
