"""Parses server-sent events as the HTML standard defines them, from chunks of any size. Opens no connection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"

# A snapshot is far smaller; a server that sends a longer event is not a gateway.
MAX_EVENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event; `id` is that of the last event that had one."""

    event: str
    data: str
    id: str


@dataclass(slots=True)
class SseParser:
    """Keeps incomplete lines and events between chunks; `retry_sec` is the reconnection time that the server set."""

    last_event_id: str = ""
    max_event_bytes: int = MAX_EVENT_BYTES
    retry_sec: float | None = None
    _tail: list[bytes] = field(default_factory=list)
    _size: int = 0
    _after_cr: bool = False
    _first_line: bool = True
    _event: str = ""
    _id: str | None = None
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes. An incomplete event at the end of a stream is dropped."""
        if not chunk:
            return []
        # A CR ends a line at once, so that an event need not wait for the next chunk; a following LF is skipped.
        rest = chunk[1:] if self._after_cr and chunk.startswith(b"\n") else chunk
        self._after_cr = chunk.endswith(b"\r")
        *ended, tail = _LINE_END.split(rest)
        events = []
        for piece in ended:
            self._grow(piece)
            event = self._line(b"".join(self._tail))
            self._tail.clear()
            if event is not None:
                events.append(event)
        self._grow(tail)
        return events

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self.max_event_bytes:
            raise ValueError(f"an event of the stream has more than {self.max_event_bytes} bytes")
        if piece:
            self._tail.append(piece)

    def _line(self, line: bytes) -> ServerEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            self._size -= len(line)  # a quiet stream may consist of comments only, which must not add up
            return None
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        self._field(name, value.removeprefix(" "))
        return None

    def _field(self, name: str, value: str) -> None:
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit() and len(value) < 10:
                self.retry_sec = int(value) / 1000
            case _:
                pass  # ignored, as the standard requires

    def _dispatch(self) -> ServerEvent | None:
        if self._id is not None:
            self.last_event_id = self._id
        event = None
        if self._data:
            event = ServerEvent(event=self._event or "message", data="\n".join(self._data), id=self.last_event_id)
        self._event, self._id, self._size = "", None, 0
        self._data.clear()
        return event
