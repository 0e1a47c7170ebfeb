"""The connection when the broker is slow, disconnected, or back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pyoco_server.adapters.jetstream.client import NO_RESPONDERS, LeanClient, Message
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.refusals import LoginRefused
from pyoco_server.errors import BrokerUnavailable, RequestTooLarge
from support.broker import Broker
from support.nats import running_nats
from support.stores import settings
from support.tcp_proxy import TcpProxy


@pytest_asyncio.fixture
async def connection(broker: Broker) -> AsyncIterator[Connection]:
    async with await Connection.open(settings(broker.url)) as opened:
        yield opened


def next_reconnect(connection: Connection) -> asyncio.Event:
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    return back


async def until(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


async def wait_until_disconnected(connection: Connection) -> None:
    """Waits until the connection has noticed the outage, when it fails waiting requests."""

    def silence(message: Message) -> None:
        assert message.reply

    await connection.subscribe("silent", silence)
    with pytest.raises(BrokerUnavailable):
        await connection.request("silent", timeout_sec=10.0)
    assert not connection.connected


async def test_without_a_broker_opening_gives_up_after_the_given_time() -> None:
    config = settings("nats://127.0.0.1:9", nats_token="do-not-show")

    with pytest.raises(BrokerUnavailable) as refused:
        await Connection.open(config, timeout_sec=0.3)

    assert "127.0.0.1:9" in refused.value.detail
    assert "do-not-show" not in refused.value.detail


async def test_opening_waits_for_a_broker_that_starts_late(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        pass  # now it has a port without a listener
    opening = asyncio.create_task(Connection.open(settings(broker.url)))
    await asyncio.wait([opening], timeout=0.2)

    with broker:
        async with await opening as connection:
            assert connection.connected


async def test_only_the_right_token_connects(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        async with await Connection.open(settings(server.url, nats_token=server.token)) as connection:
            assert connection.connected
        with pytest.raises(LoginRefused, match="Authorization Violation"):
            await Connection.open(settings(server.url, nats_token="wrong"), timeout_sec=1.0)


async def test_a_request_without_listeners_fails_at_once(connection: Connection) -> None:
    message = await connection.request("no.listener")

    assert message.status == NO_RESPONDERS


async def test_a_message_that_is_too_large_is_rejected_before_it_is_sent(connection: Connection) -> None:
    with pytest.raises(RequestTooLarge):
        await connection.request("any.subject", b"x" * (connection.max_payload + 1))

    assert (await connection.request("no.listener")).status == NO_RESPONDERS


async def test_a_large_message_arrives_in_one_piece(connection: Connection) -> None:
    received: asyncio.Queue[Message] = asyncio.Queue()
    await connection.subscribe("large", received.put_nowait)
    body = bytes(range(256)) * 3000

    await connection.publish("large", body)

    async with asyncio.timeout(5):
        assert (await received.get()).data == body


async def test_a_request_without_a_response_times_out(broker: Broker, connection: Connection) -> None:
    def silence(message: Message) -> None:
        assert message.reply

    await connection.subscribe("silent", silence)
    loop = asyncio.get_running_loop()
    start = loop.time()

    with pytest.raises(BrokerUnavailable):
        await connection.request("silent", timeout_sec=0.2)

    assert 0.2 <= loop.time() - start < 1.0


async def test_a_lost_connection_fails_waiting_requests_at_once(broker: Broker) -> None:
    async with TcpProxy(broker.url) as proxy, await Connection.open(settings(proxy.url)) as connection:
        proxy.hold_replies()
        asking = asyncio.create_task(connection.request("no.listener", timeout_sec=30.0))
        await proxy.reply_held()

        proxy.cut()

        with pytest.raises(BrokerUnavailable, match="lost"):
            async with asyncio.timeout(5):
                await asking


async def test_subscriptions_and_requests_work_again_after_a_restart(broker: Broker, connection: Connection) -> None:
    received: asyncio.Queue[Message] = asyncio.Queue()
    await connection.subscribe("news", received.put_nowait)
    back = next_reconnect(connection)

    broker.kill()
    broker.start()
    await until(back)

    await connection.publish("news", b"hello")
    async with asyncio.timeout(5):
        assert (await received.get()).data == b"hello"
    assert (await connection.request("no.listener")).status == NO_RESPONDERS


async def test_a_request_during_a_short_outage_waits_for_the_reconnect(broker: Broker, connection: Connection) -> None:
    broker.kill()
    await wait_until_disconnected(connection)
    asking = asyncio.create_task(connection.request("no.listener"))
    broker.start()

    assert (await asking).status == NO_RESPONDERS


async def test_a_failed_publish_is_not_sent_after_the_reconnect(broker: Broker, connection: Connection) -> None:
    received: list[bytes] = []
    marked = asyncio.Event()

    def on_message(message: Message) -> None:
        received.append(message.data)
        if message.data == b"after":
            marked.set()

    await connection.subscribe("news", on_message)
    back = next_reconnect(connection)
    broker.kill()
    await wait_until_disconnected(connection)

    with pytest.raises(BrokerUnavailable):
        await connection.publish("news", b"while away")
    with pytest.raises(BrokerUnavailable):
        await connection.request("news", b"while away, too")
    broker.start()
    await until(back)
    await connection.publish("news", b"after")
    await until(marked)

    assert received == [b"after"]


async def test_a_hanging_broker_is_detected_within_seconds(broker: Broker, connection: Connection) -> None:
    back = next_reconnect(connection)
    loop = asyncio.get_running_loop()
    broker.pause()
    start = loop.time()
    try:
        # More than the socket buffers: a graceful close of such a connection would never end.
        for _ in range(30):
            await connection.publish("no.listener", b"x" * 900_000)
        await wait_until_disconnected(connection)
        assert loop.time() - start < 5.0
    finally:
        broker.resume()

    await until(back)
    assert (await connection.request("no.listener")).status == NO_RESPONDERS


async def test_an_error_from_the_server_leads_to_a_reconnect(broker: Broker, connection: Connection) -> None:
    back = next_reconnect(connection)

    connection._client.write(b"NONSENSE\r\n")

    await until(back)
    assert (await connection.request("no.listener")).status == NO_RESPONDERS


async def test_connects_and_disconnects_are_logged_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_nats(tmp_path) as server:
        url = server.url.replace("nats://", f"nats://{server.token}@")
        async with TcpProxy(server.url) as proxy:
            url = proxy.url.replace("nats://", f"nats://{server.token}@")
            async with await Connection.open(settings(url)) as connection:
                back = next_reconnect(connection)
                proxy.cut()
                await until(back)

    assert {"nats disconnected", "nats reconnected"} <= {record.message for record in caplog.records}
    assert all(server.token not in str(vars(record)) for record in caplog.records)


async def test_a_closed_connection_rejects_requests(connection: Connection) -> None:
    await connection.close()

    with pytest.raises(BrokerUnavailable):
        await connection.request("any.subject")


async def test_closing_works_although_the_reconnect_swallows_a_cancel(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, swallowed = asyncio.Event(), 0

    async def connect_to_server(_client: object, _server: object) -> None:
        """Swallows a cancel, as `asyncio.wait_for` of Python 3.11 does when its inner task has just ended."""
        nonlocal swallowed
        connecting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            swallowed += 1
            if swallowed > 1:
                raise
            raise OSError("refused") from None

    connection = await Connection.open(settings(broker.url))
    monkeypatch.setattr(LeanClient, "_connect_to_server", connect_to_server)
    broker.kill()
    await until(connecting)

    await connection.close()

    assert swallowed >= 1
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    assert "Client._attempt_reconnect" not in names


async def test_a_connection_that_is_refused_ends_in_time_although_a_cancel_is_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swallowed = 0

    async def connect_to_server(_client: object, _server: object) -> None:
        """Swallows the first cancel, as `asyncio.wait_for` of Python 3.11 does when its inner task has just ended."""
        nonlocal swallowed
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if swallowed:
                raise
            swallowed += 1
            raise OSError("refused") from None

    monkeypatch.setattr(LeanClient, "_connect_to_server", connect_to_server)

    async with asyncio.timeout(10):
        with pytest.raises(BrokerUnavailable):
            await Connection.open(settings("nats://127.0.0.1:9"), timeout_sec=0.1)

    assert swallowed == 1
