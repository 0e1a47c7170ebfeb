"""Parsing of the NATS protocol, for any split of the bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError

from pyoco_server.adapters.jetstream.client import LeanClient, Message
from pyoco_server.adapters.jetstream.pull import delivery_info

BLOCK = b"NATS/1.0\r\nNats-Msg-Id: r.1\r\nPyoco-Created: 7\r\n\r\n"
WIRE = (
    b"MSG news 1 5\r\nhello\r\n"
    b"PING\r\n"
    b"MSG news 1 _INBOX.a 0\r\n\r\n"
    b"+OK\r\n"
    b"HMSG work 2 $JS.ACK.x %d %d\r\n%b{}\r\n"
    % (len(BLOCK), len(BLOCK) + 2, BLOCK)
    + b"MSG no.listener 9 4\r\nMSG \r\n"
    + b"HMSG _INBOX.b 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
)
RECEIVED = [
    Message(b"news", b"", b"", b"hello"),
    Message(b"news", b"_INBOX.a", b"", b""),
    Message(b"work", b"$JS.ACK.x", BLOCK, b"{}"),
    Message(b"_INBOX.b", b"", b"NATS/1.0 503\r\n\r\n", b""),
]


class RecordingClient(LeanClient):
    """A client without a socket that records its messages."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.received: list[Message] = []
        self.pings = 0
        self._listeners.update({1: self.received.append, 2: self.received.append})

    async def _process_ping(self) -> None:
        self.pings += 1


@given(st.sets(st.integers(min_value=1, max_value=len(WIRE) - 1)))
async def test_messages_are_the_same_however_the_bytes_arrive(cuts: set[int]) -> None:
    client = RecordingClient()
    edges = [0, *sorted(cuts), len(WIRE)]

    for start, end in pairwise(edges):
        await client._ps.parse(WIRE[start:end])

    assert client.received == RECEIVED
    assert client.pings == 1


async def test_an_unknown_protocol_line_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        await RecordingClient()._ps.parse(b"HTTP/1.1 400 Bad Request\r\n")


def test_headers_are_found_by_name() -> None:
    message = Message(b"s", b"", BLOCK, b"")

    assert message.header("Nats-Msg-Id") == "r.1"
    assert message.number("Pyoco-Created") == 7
    assert message.header("Msg-Id") is None
    assert message.status == 0


def test_a_status_is_distinguished_from_headers() -> None:
    message = Message(b"s", b"", b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n", b"")

    assert (message.status, message.status_text) == (408, "Request Timeout")
    assert message.number("Nats-Pending-Messages") == 3


@pytest.mark.parametrize(
    "reply",
    [
        b"$JS.ACK.PYOCO_WORK.pyoco-worker-a.2.30.4.1700000000.5",
        b"$JS.ACK._.ACCOUNT.PYOCO_WORK.pyoco-worker-a.2.30.4.1700000000.5",
        b"$JS.ACK.hub.ACCOUNT.PYOCO_WORK.pyoco-worker-a.2.30.4.1700000000.5.token",
    ],
)
def test_a_delivery_is_read_from_every_form_of_the_reply_subject(reply: bytes) -> None:
    assert delivery_info(reply) == (b"pyoco-worker-a", 2, 30, 4, 5)
