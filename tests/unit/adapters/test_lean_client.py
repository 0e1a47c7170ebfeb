"""What the lean client writes, and when: together with other things, but never not at all."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.jetstream.client import LeanClient


class Socket:
    """The end of the transport where bytes leave."""

    def __init__(self) -> None:
        self.written: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes) -> None:
        self.written.put_nowait(data)


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
def client(socket: Socket) -> LeanClient:
    client = LeanClient(on_lost=lambda: None)
    client._transport = socket
    client._status = LeanClient.CONNECTED
    return client


async def test_what_nobody_waits_for_leaves_by_itself(client: LeanClient, socket: Socket) -> None:
    client.write_later(b"ack")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"ack"


async def test_what_is_written_in_one_turn_leaves_together_and_in_order(client: LeanClient, socket: Socket) -> None:
    client.write_later(b"ack ")
    client.write(b"one ")
    client.write(b"two")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"ack one two"
        client.write(b"three")
        assert await socket.written.get() == b"three"


async def test_what_was_not_sent_is_dropped_with_the_connection(client: LeanClient, socket: Socket) -> None:
    client.write(b"lost")
    client.drop_unsent()
    await asyncio.sleep(0)
    client.write(b"later")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"later"


async def test_a_socket_that_closed_before_anybody_noticed_takes_nothing_and_harms_nobody(client: LeanClient) -> None:
    class Closed:
        def write(self, data: bytes) -> None:
            raise RuntimeError("unable to perform operation; the handler is closed")

    client._transport = Closed()
    client.write(b"lost")

    client._flush_now()

    assert client._pending == []


async def test_the_requests_of_a_crowd_leave_together_in_a_moment(client: LeanClient, socket: Socket) -> None:
    client.write_batched(b"one ")
    await asyncio.sleep(0)
    client.write_batched(b"two")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"one two"
        client.write_batched(b"three")
        assert await socket.written.get() == b"three"


async def test_what_is_in_a_hurry_takes_the_crowd_along(client: LeanClient, socket: Socket) -> None:
    client.write_batched(b"one ")
    client.write(b"two")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"one two"
        client.write_batched(b"three")
        assert await socket.written.get() == b"three"
