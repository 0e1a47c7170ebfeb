"""A message as it comes off the wire, and headers as they go onto it; parses no more than it is asked for."""

from __future__ import annotations

from typing import NamedTuple

_LINE = b"NATS/1.0"
_STATUS = b"NATS/1.0 "

NO_RESPONDERS = 503


class Message(NamedTuple):
    """What a subscription hears. Bytes, because most of it is never looked at."""

    subject: bytes
    reply: bytes
    headers: bytes
    data: bytes

    @property
    def status(self) -> int:
        """The broker's inline status; 0 for a message that somebody published."""
        if not self.headers.startswith(_STATUS):
            return 0
        code = self.headers[9:12]
        return int(code) if code.isdigit() else 0

    @property
    def status_text(self) -> str:
        """The words beside the status."""
        return self.headers[13 : self.headers.find(b"\r\n")].decode("utf-8", "replace")

    def header(self, name: str) -> str | None:
        """The first value of a header, spelled as its sender spelled it."""
        mark = b"\r\n%b:" % name.encode()
        start = self.headers.find(mark)
        if start < 0:
            return None
        start += len(mark)
        return self.headers[start : self.headers.find(b"\r\n", start)].strip().decode("utf-8", "replace")

    def number(self, name: str) -> int:
        """A header that the broker promises to set to a number."""
        return int(self.header(name) or 0)


def headers(*pairs: tuple[str, object]) -> bytes:
    """A header block; names and values are ours, so nothing in them needs escaping."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return b"%b\r\n%b\r\n" % (_LINE, lines.encode())


class DeliveredAt(NamedTuple):
    """What the reply subject of a delivered message says of it."""

    consumer: bytes
    num_delivered: int
    sequence: int
    place: int  # counted by the consumer: without gaps while nothing is lost on the way
    pending: int


def stored_at(reply: bytes) -> float:
    """When the broker stored a delivered message, in unix seconds of the broker's clock."""
    return int(reply.rsplit(b".", 2)[1]) / 1e9


def reply_for(sequence: int, like: str) -> str:
    """Where another message of that consumer is answered, given its place in the stream."""
    parts = like.split(".")
    parts[5 if len(parts) == 9 else 7] = str(sequence)
    return ".".join(parts)


def delivered_at(reply: bytes) -> DeliveredAt:
    """$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<place>.<time>.<pending>, or with domain and account first."""
    parts = reply.split(b".")
    first = 2 if len(parts) == 9 else 4
    return DeliveredAt(
        parts[first + 1], int(parts[first + 2]), int(parts[first + 3]), int(parts[first + 4]), int(parts[first + 6])
    )
