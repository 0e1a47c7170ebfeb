"""Messages and header blocks of the NATS protocol; parsed lazily."""

from __future__ import annotations

from typing import NamedTuple

_LINE = b"NATS/1.0"
_STATUS = b"NATS/1.0 "

NO_RESPONDERS = 503


class Message(NamedTuple):
    """A received message. Bytes, because most parts are never read."""

    subject: bytes
    reply: bytes
    headers: bytes
    data: bytes

    @property
    def status(self) -> int:
        """The broker's inline status; 0 for a published message."""
        if not self.headers.startswith(_STATUS):
            return 0
        code = self.headers[9:12]
        return int(code) if code.isdigit() else 0

    @property
    def status_text(self) -> str:
        """The description of the status."""
        return self.headers[13 : self.headers.find(b"\r\n")].decode("utf-8", "replace")

    def header(self, name: str) -> str | None:
        """The first value of a header; names are case-sensitive."""
        mark = b"\r\n%b:" % name.encode()
        start = self.headers.find(mark)
        if start < 0:
            return None
        start += len(mark)
        return self.headers[start : self.headers.find(b"\r\n", start)].strip().decode("utf-8", "replace")

    def number(self, name: str) -> int:
        """A header that the broker sets to a number."""
        return int(self.header(name) or 0)


def headers(*pairs: tuple[str, object]) -> bytes:
    """A header block; names and values are ours, so nothing in them needs escaping."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return b"%b\r\n%b\r\n" % (_LINE, lines.encode())


class DeliveryInfo(NamedTuple):
    """The facts in the reply subject of a delivered message."""

    consumer: bytes
    num_delivered: int
    sequence: int
    consumer_sequence: int  # has no gaps unless messages were lost
    pending: int


def stored_at(reply: bytes) -> float:
    """When the broker stored a delivered message, in unix seconds of the broker's clock."""
    return int(reply.rsplit(b".", 2)[1]) / 1e9


def reply_for(sequence: int, like: str) -> str:
    """The reply subject of another message of the same consumer, by its sequence in the stream."""
    parts = like.split(".")
    parts[5 if len(parts) == 9 else 7] = str(sequence)
    return ".".join(parts)


def delivery_info(reply: bytes) -> DeliveryInfo:
    """$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>.<time>.<pending>"""
    parts = reply.split(b".")
    first = 2 if len(parts) == 9 else 4
    return DeliveryInfo(
        parts[first + 1], int(parts[first + 2]), int(parts[first + 3]), int(parts[first + 4]), int(parts[first + 6])
    )
