"""Writes of the lean client: batched, in order, and never delayed without end."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.jetstream.client import BATCH_SEC, LATER_SEC, LeanClient


class Socket:
    """A transport that records written bytes."""

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


async def test_a_delayed_command_is_sent_without_another_command(client: LeanClient, socket: Socket) -> None:
    client.write(b"ack", within_sec=LATER_SEC)

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"ack"


async def test_commands_of_one_turn_are_sent_together_and_in_order(client: LeanClient, socket: Socket) -> None:
    client.write(b"ack ", within_sec=LATER_SEC)
    client.write(b"one ")
    client.write(b"two")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"ack one two"
        client.write(b"three")
        assert await socket.written.get() == b"three"


async def test_unsent_commands_are_dropped_with_the_connection(client: LeanClient, socket: Socket) -> None:
    client.write(b"lost")
    client.drop_unsent()
    await asyncio.sleep(0)
    client.write(b"later")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"later"


async def test_a_write_to_a_closed_socket_raises_nothing(client: LeanClient) -> None:
    class Closed:
        def write(self, data: bytes) -> None:
            raise RuntimeError("unable to perform operation; the handler is closed")

    client._transport = Closed()
    client.write(b"lost")

    client._flush()

    assert client._pending == []


async def test_batched_requests_are_sent_together(client: LeanClient, socket: Socket) -> None:
    client.write(b"one ", within_sec=BATCH_SEC)
    await asyncio.sleep(0)
    client.write(b"two", within_sec=BATCH_SEC)

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"one two"
        client.write(b"three", within_sec=BATCH_SEC)
        assert await socket.written.get() == b"three"


async def test_an_immediate_command_flushes_the_batch(client: LeanClient, socket: Socket) -> None:
    client.write(b"one ", within_sec=BATCH_SEC)
    client.write(b"two")

    async with asyncio.timeout(5):
        assert await socket.written.get() == b"one two"
        client.write(b"three", within_sec=BATCH_SEC)
        assert await socket.written.get() == b"three"
