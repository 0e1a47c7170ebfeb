"""`/jobs/{id}/ws` of real gateways on a real broker: status and log frames, commands, and hostile clients."""

from __future__ import annotations

import asyncio
import socket as sockets
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import key_id_in
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.http_api.api.jobs import websocket_session
from pyoco_server.http_api.protocol import connection_limits
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, submit
from support.samples import new_run_id
from support.sockets import joined, messages, next_frame, send, to_the_close
from support.streams import PATIENCE_SEC, Gateway, listening
from support.workers import at_work
from support.written import Writer, numbered

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05)


async def wait_until_no_watchers(gateway: Gateway) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while gateway.topics.open_count:  # noqa: ASYNC110 - a disconnect sets no event
            await asyncio.sleep(0.01)


def masked(opcode: int, payload: bytes = b"", *, fin: bool = True) -> bytes:
    """A frame as a client sends it; a mask of zeros leaves the payload as it is."""
    return bytes([(0x80 if fin else 0) | opcode, 0x80 | len(payload)]) + bytes(4) + payload


def ping_frames(count: int) -> bytes:
    return masked(0x9, b"x" * 100) * count


def text_frames(count: int) -> bytes:
    return masked(0x1, b'{"type":"ping"}') * count


def fragments(count: int) -> bytes:
    return masked(0x1, b"", fin=False) + masked(0x0, b"", fin=False) * count


# --- frames of the gateway --------------------------------------------------------------------------------------------


async def test_a_socket_sends_status_and_log_until_the_end(
    gateway: Gateway, config: NatsBackendConfig, stores: Stores
) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        first = await next_frame(socket, "status")
        async with at_work(stores, config) as worker:
            runner = await worker.executor.begun()
            running = await next_frame(socket, "status")
            runner.write(*numbered(1, 100))
            runner.end()
            frames, code = await to_the_close(socket)

    assert first["job"]["status"] == "pending"
    assert first["job"]["id"] == run_id
    assert running["job"]["status"] == "running"
    assert [frame["job"]["status"] for frame in frames if frame["type"] == "status"][-1] == "completed"
    assert messages(frames) == numbered(1, 100)
    assert frames[-1] == {"type": "end", "status": "completed"}
    assert code == 1000
    await wait_until_no_watchers(gateway)


async def test_a_status_frame_equals_the_job(gateway: Gateway) -> None:
    run_id = await submit(gateway.client, params={"secret": 1}, tags=["b", "a"])
    async with joined(gateway, run_id) as socket:
        job = (await next_frame(socket, "status"))["job"]

    assert {name: type(value) for name, value in job.items()} == {
        "id": str,
        "status": str,
        "flow": str,
        "tag": str,
        "createdAt": str,
        "startedAt": type(None),
        "completedAt": type(None),
        "tags": list,
        "attempt": int,
    }
    assert (job["flow"], job["tags"]) == ("hello", ["b", "a"])


async def test_the_log_may_be_omitted_or_start_at_its_tail(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write(*numbered(1, 9))
    await gateway.client.post(f"/runs/{run_id}/cancel")

    async with joined(gateway, run_id, logs="false") as socket:
        without, _ = await to_the_close(socket)
    async with joined(gateway, run_id, tail=2) as socket:
        tail, _ = await to_the_close(socket)

    assert [frame["type"] for frame in without] == ["status", "end"]
    assert messages(tail) == ["8", "9"]


# --- frames of the client ---------------------------------------------------------------------------------------------


async def test_a_ping_gets_a_pong_and_a_cancel_cancels(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        await send(socket, type="ping")
        assert await next_frame(socket, "pong") == {"type": "pong"}

        await send(socket, type="cancel", reason="not needed")
        frames, code = await to_the_close(socket)

    assert (frames[-1], code) == ({"type": "end", "status": "canceled"}, 1000)
    shown = (await gateway.client.get(f"/runs/{run_id}")).json()
    assert (shown["status"], shown["cancel"]["reason"]) == ("CANCELLED", "not needed")


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "hello",
        "[]",
        "null",
        "{}",
        '{"type":"stop"}',
        '{"type":["ping"]}',
        '{"type":"ping","more":1}',
        '{"type":"cancel","reason":7}',
        orjson.dumps({"type": "cancel", "reason": "x" * 1001}).decode(),
        "[" * 30_000,
        '{"type":' * 200,
        b'{"type":"ping"}',
    ],
)
async def test_an_invalid_frame_gets_an_error_without_effect(gateway: Gateway, payload: str | bytes) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        await socket.send(payload)

        error = await next_frame(socket, "error")
        await send(socket, type="ping")
        await next_frame(socket, "pong")

    assert set(error) == {"type", "code", "detail", "hint"}
    assert (await gateway.client.get(f"/runs/{run_id}")).json()["status"] == "PENDING"


async def test_many_invalid_frames_close_the_socket(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        for _ in range(websocket_session.MOST_MISTAKES + 1):
            await socket.send("nonsense")

        frames, code = await to_the_close(socket)

    assert [frame["type"] for frame in frames].count("error") == websocket_session.MOST_MISTAKES + 1
    assert code == 1008


async def test_too_many_frames_close_the_socket(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        for _ in range(websocket_session.MOST_FRAMES):
            await send(socket, type="ping")
            await next_frame(socket, "pong")
        await send(socket, type="ping")

        assert (await to_the_close(socket))[1] == 1008
    await wait_until_no_watchers(gateway)


@pytest.mark.parametrize(("size", "code"), [(64 * 1024 + 1, 1009), (5_000_000, 1009)])
async def test_a_frame_above_the_limit_is_not_read(gateway: Gateway, size: int, code: int) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        with suppress(ConnectionClosed):  # the close may arrive while it still sends
            await socket.send("x" * size)

        assert (await to_the_close(socket))[1] == code
    await wait_until_no_watchers(gateway)


# --- access -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", ["no-run-id", str(new_run_id()), "%00"], ids=["no id", "unknown", "null"])
async def test_a_missing_job_closes_the_accepted_socket(gateway: Gateway, run_id: str) -> None:
    async with joined(gateway, run_id) as socket:
        frames, code = await to_the_close(socket)

    assert ([frame["code"] for frame in frames], code) == (["EXECUTION_NOT_FOUND"], 4404)
    assert gateway.topics.open_count == 0


@pytest.mark.parametrize("query", [{"tail": 0}, {"sinceToken": "x"}, {"logs": "some"}, {"limit": 3}])
async def test_an_invalid_query_is_rejected(gateway: Gateway, query: dict[str, Any]) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id, **query) as socket:
        frames, code = await to_the_close(socket)

    assert ([frame["type"] for frame in frames], code) == (["error"], 4422)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1"])
async def test_a_cross_site_page_is_rejected(gateway: Gateway, origin: str) -> None:
    run_id = await submit(gateway.client)

    with pytest.raises(InvalidStatus) as refused:
        async with joined(gateway, run_id, origin=origin):
            pass

    assert refused.value.response.status_code == 403


async def test_a_same_site_page_is_accepted(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id, origin=f"http://127.0.0.1:{gateway.port}") as socket:
        assert (await next_frame(socket, "status"))["job"]["id"] == run_id


async def test_no_other_path_accepts_a_socket(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    for path in (f"../runs/{run_id}", f"{run_id}/ws/more"):
        with pytest.raises(InvalidStatus):
            async with joined(gateway, path):
                pass


async def test_a_socket_requires_credentials(broker: Broker, tmp_path: Path) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    key, others = await hand_out(config), await hand_out(config, "team-b")
    reader = await hand_out(config, "team-a", Scope.RUNS_READ)
    writer = await hand_out(config, "team-a", Scope.RUNS_WRITE)
    async with listening(config) as gateway:
        gateway.client.headers.update(api_key_headers(key))
        run_id = await submit(gateway.client)

        async def code(headers: dict[str, str], **query: Any) -> int:
            async with joined(gateway, run_id, headers=headers, **query) as socket:
                return (await to_the_close(socket))[1]

        assert await code({}) == 4401
        assert await code(api_key_headers("pyoco_nonsense")) == 4401
        assert await code(api_key_headers(writer)) == 4403
        assert await code(api_key_headers(others)) == 4404
        async with joined(gateway, run_id, headers=api_key_headers(reader)) as socket:
            await send(socket, type="cancel")
            error = await next_frame(socket, "error")
        async with joined(gateway, run_id, headers=api_key_headers(key)) as socket:
            await send(socket, type="cancel")
            frames, _ = await to_the_close(socket)

    assert error["code"] == "FORBIDDEN"
    assert frames[-1]["status"] == "canceled"


async def test_only_the_socket_of_a_revoked_key_is_closed(broker: Broker, tmp_path: Path) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    key, kept = await hand_out(config), await hand_out(config)
    async with listening(config) as gateway, open_api_keys(config) as keys:
        gateway.client.headers.update(api_key_headers(kept))
        run_id = await submit(gateway.client)
        leaving = joined(gateway, run_id, headers=api_key_headers(key))
        async with leaving as socket, joined(gateway, run_id, headers=api_key_headers(kept)) as other:
            await next_frame(socket, "status")
            revoked = key_id_in(key)
            assert revoked is not None

            await keys.revoke(revoked)

            assert (await to_the_close(socket))[1] == 4401
            await send(other, type="ping")
            await next_frame(other, "pong")


# --- limits and shutdown ----------------------------------------------------------------------------------------------


async def test_sockets_above_the_limit_are_closed_for_a_later_retry(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, http_max_watchers=1)) as gateway:
        run_id = await submit(gateway.client)
        async with joined(gateway, run_id) as first, joined(gateway, run_id) as second:
            await next_frame(first, "status")

            frames, code = await to_the_close(second)

    assert ([frame["code"] for frame in frames], code) == (["TOO_MANY_WATCHERS"], 1013)


async def test_sockets_above_the_limit_of_a_caller_are_closed_for_a_later_retry(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, http_max_streams_per_caller=1)) as gateway:
        run_id = await submit(gateway.client)
        async with joined(gateway, run_id) as first, joined(gateway, run_id) as second:
            await next_frame(first, "status")

            frames, code = await to_the_close(second)

    assert ([frame["code"] for frame in frames], code) == (["TOO_MANY_STREAMS"], 1013)


async def test_sockets_above_the_rate_limit_are_closed_for_a_later_retry(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, rate_limit_api_read_per_min=1)) as gateway:
        run_id = await submit(gateway.client)
        async with joined(gateway, run_id) as first, joined(gateway, run_id) as second:
            await next_frame(first, "status")

            _, code = await to_the_close(second)

    assert code == 1013


async def test_during_an_outage_new_sockets_are_closed_and_open_ones_kept(broker: Broker, gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        await next_frame(socket, "status")
        broker.kill()
        async with joined(gateway, str(new_run_id())) as late:
            assert (await to_the_close(late))[1] == 1013
        await send(socket, type="cancel")
        assert (await next_frame(socket, "error"))["code"] == "UNAVAILABLE"
        broker.start()
        await gateway.client.post(f"/runs/{run_id}/cancel")

        assert (await to_the_close(socket))[0][-1] == {"type": "end", "status": "canceled"}


async def test_a_stopping_gateway_closes_its_sockets(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket:
        await next_frame(socket, "status")

        gateway.disconnect_all()

        assert (await to_the_close(socket))[1] == 1012


async def test_a_client_that_does_not_read_is_closed_and_others_continue(
    config: NatsBackendConfig, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.http_api.protocol.websocket.STALLED_SEC", 0.3)
    monkeypatch.setattr(connection_limits.BoundedSocket, "close_patience_sec", 1.0)
    async with listening(config, send_buffer=1 << 16) as gateway:
        run_id = await submit(gateway.client)
        writer = Writer(stores.run_logs, RunId(run_id))
        with sockets.socket() as slow:
            slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            slow.setblocking(False)
            await _shake_hands(slow, gateway.port, run_id)
            async with joined(gateway, run_id) as quick, asyncio.timeout(PATIENCE_SEC):
                await next_frame(quick, "status")
                while gateway.topics.open_count == 2:
                    await writer.write(*["x" * 1000] * 50)
                    await next_frame(quick, "log")
                await send(quick, type="ping")
                await next_frame(quick, "pong")
                taken = bytearray()
                while piece := await asyncio.get_running_loop().sock_recv(slow, 1 << 16):
                    taken += piece

    assert (1008).to_bytes(2) + b"too slow" in taken


async def test_a_client_that_does_not_read_its_close_frame_is_dropped(
    config: NatsBackendConfig, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.http_api.protocol.websocket.STALLED_SEC", 0.1)
    monkeypatch.setattr(connection_limits.BoundedSocket, "close_patience_sec", 0.1)
    async with listening(config, send_buffer=1 << 16) as gateway:
        run_id = await submit(gateway.client)
        writer = Writer(stores.run_logs, RunId(run_id))
        with sockets.socket() as slow:
            slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
            slow.setblocking(False)
            await _shake_hands(slow, gateway.port, run_id)
            async with asyncio.timeout(PATIENCE_SEC):
                while gateway.topics.open_count:
                    await writer.write(*["x" * 1000] * 50)
                while gateway.sockets:  # noqa: ASYNC110 - a disconnect sets no event
                    await asyncio.sleep(0.01)


async def test_an_unreadable_log_closes_the_socket_as_an_internal_error(
    gateway: Gateway, config: NatsBackendConfig
) -> None:
    run_id = await submit(gateway.client)
    async with joined(gateway, run_id) as socket, await Connection.open(config, name="test") as connection:
        await next_frame(socket, "status")

        await connection.request(f"{config.logs_subject_prefix}.{run_id}", b"no chunk")

        frames, code = await to_the_close(socket)
    assert ([frame["code"] for frame in frames], code) == (["INTERNAL_ERROR"], 1011)


@pytest.mark.parametrize("flood", [ping_frames(200_000), text_frames(2000), fragments(500)], ids=len)
async def test_a_flood_of_frames_is_bounded(gateway: Gateway, flood: bytes) -> None:
    run_id = await submit(gateway.client)
    with sockets.socket() as hostile:
        hostile.setblocking(False)
        await _shake_hands(hostile, gateway.port, run_id)
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_SEC):
                await loop.sock_sendall(hostile, flood)

        assert (await gateway.client.get("/health")).status_code == 200
        await wait_until_no_watchers(gateway)


async def _shake_hands(slow: sockets.socket, port: int, run_id: str) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(slow, ("127.0.0.1", port))
    head = (
        f"GET /jobs/{run_id}/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await loop.sock_sendall(slow, head.encode())
    assert (await loop.sock_recv(slow, 12)).startswith(b"HTTP/1.1 101")


async def test_a_flooding_client_leaves_no_error_in_the_log(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    run_id = await submit(gateway.client)
    for _ in range(5):
        async with joined(gateway, run_id) as socket:
            with suppress(ConnectionClosed):
                for _ in range(3000):
                    await socket.send('{"type":"ping"}')
            await to_the_close(socket)

    assert "Exception in ASGI application" not in caplog.text
