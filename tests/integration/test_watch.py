"""Streams of real gateways on a real broker over a socket: many clients, slow clients, restarts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.bootstrap import open_api_keys, open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import key_id_in
from pyoco_server.domain.execution.commands import AddTag
from pyoco_server.domain.ids import RunId
from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.command_handler import handle
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, submit
from support.runners import began, declared, succeeded
from support.samples import new_run_id
from support.streams import PATIENCE_SEC, Gateway, listening, to_the_end, until_status, watching
from support.workers import at_work
from support.world import USER

pytestmark = pytest.mark.settings(http_watch_heartbeat_sec=0.1, run_heartbeat_interval_sec=0.05)

MANY = 200


async def label(stores: Stores, run_id: str, tag: str) -> None:
    (await handle(stores, RunId(run_id), AddTag(at=stores.clock.now(), tag=tag), USER)).accepted()


def listened_to(gateway: Gateway) -> list[str]:
    """The subjects that the gateway listens to for streams."""
    connection: Any = gateway.topics._stores.broker
    subjects: list[str] = [subscription.subject for subscription in connection._client._subs.values()]
    of_runs = (subject for subject in subjects if not subject.startswith("pyoco.stored.gateway."))
    return [subject for subject in of_runs if subject.startswith("pyoco.stored.")]


async def wait_until_no_streams(gateway: Gateway) -> None:
    """Polls, because the gateway notices a disconnect with a delay."""
    async with asyncio.timeout(PATIENCE_SEC):
        while gateway.topics.open_count:  # noqa: ASYNC110 - a disconnect sets no event
            await asyncio.sleep(0.01)


# --- all event streams ------------------------------------------------------------------------------------------------

ALL_STREAMS = pytest.mark.parametrize(
    "path", ["/runs/{}/watch", "/jobs/{}/logs/stream", "/executions/{}/events"], ids=["changes", "log", "events"]
)
SSE = {"Accept": "text/event-stream"}


@asynccontextmanager
async def reading(gateway: Gateway, path: str, run_id: str, **headers: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """The bytes of a started stream."""
    async with gateway.client.stream("GET", path.format(run_id), headers=SSE | headers) as response:
        assert response.status_code == 200, await response.aread()
        received = response.aiter_raw()
        assert (await anext(received)).startswith(b"retry: ")
        yield received


async def rest_of(received: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(PATIENCE_SEC):
        return b"".join([piece async for piece in received])


@ALL_STREAMS
@pytest.mark.parametrize("run_id", ["no-run-id", str(new_run_id()), "%00"], ids=["no id", "unknown", "null"])
async def test_a_stream_of_an_unknown_run_is_not_found(gateway: Gateway, path: str, run_id: str) -> None:
    for resume in ({}, {"Last-Event-ID": "1.0.end"}):
        response = await gateway.client.get(path.format(run_id), headers=SSE | resume)

        assert response.status_code == 404
        assert "ERR-PYOCO-0005" in response.text or "EXECUTION_NOT_FOUND" in response.text
    assert gateway.topics.open_count == 0


@ALL_STREAMS
@pytest.mark.parametrize("damaged", ["", "x", "1.5.7", "9" * 40, "²"])
async def test_an_unknown_event_id_counts_as_none(gateway: Gateway, path: str, damaged: str) -> None:
    run_id = await submit(gateway.client)
    await gateway.client.post(f"/runs/{run_id}/cancel")
    headers = {"Last-Event-ID": damaged.encode(), **SSE}

    response = await gateway.client.get(path.format(run_id), headers=headers)  # type: ignore[arg-type]  # as bytes

    whole = await gateway.client.get(path.format(run_id), headers=SSE)
    assert (response.status_code, response.text.count("event: ")) == (200, whole.text.count("event: "))


@ALL_STREAMS
async def test_a_disconnected_client_leaves_no_stream(gateway: Gateway, path: str) -> None:
    run_id = await submit(gateway.client)
    async with reading(gateway, path, run_id):
        assert f"pyoco.stored.{run_id}" in listened_to(gateway)

    await wait_until_no_streams(gateway)
    assert (gateway.topics._topics, listened_to(gateway)) == ({}, [])


@ALL_STREAMS
async def test_more_streams_than_the_limit_are_rejected_until_later(broker: Broker, tmp_path: Path, path: str) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, http_max_watchers=1)) as gateway:
        run_id = await submit(gateway.client)
        async with reading(gateway, path, run_id):
            response = await gateway.client.get(path.format(run_id), headers=SSE)

        assert (response.status_code, "TOO_MANY" in response.text or "ERR-PYOCO-0038" in response.text) == (503, True)
        assert response.headers["retry-after"].isdigit()


@ALL_STREAMS
async def test_more_streams_than_a_caller_may_have_are_rejected_with_429(
    broker: Broker, tmp_path: Path, path: str
) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, http_max_streams_per_caller=1)) as gateway:
        run_id = await submit(gateway.client)
        async with reading(gateway, path, run_id):
            response = await gateway.client.get(path.format(run_id), headers=SSE)

        assert (response.status_code, "TOO_MANY" in response.text or "ERR-PYOCO-0125" in response.text) == (429, True)
        assert response.headers["retry-after"].isdigit()


async def test_a_greedy_tenant_is_refused_before_another_finds_no_room(broker: Broker, tmp_path: Path) -> None:
    settings = gateway_settings(broker.url, tmp_path, http_max_watchers=20, http_auth_mode="api_key")
    greedy, modest = [api_key_headers(await hand_out(settings, tenant)) for tenant in ("greedy", "modest")]
    async with listening(settings) as gateway, AsyncExitStack() as opened:

        async def refused(headers: dict[str, str], most: int) -> httpx.Response | None:
            """Opens streams until one is refused."""
            body = {"flow_name": "hello"}
            run_id = (await gateway.client.post("/runs", json=body, headers=headers)).json()["run_id"]
            for _ in range(most):
                stream = gateway.client.stream("GET", f"/runs/{run_id}/watch", headers=headers)
                response = await opened.enter_async_context(stream)
                if response.status_code != 200:
                    await response.aread()
                    return response
            return None

        refusal = await refused(greedy, 20)

        assert refusal is not None
        assert (refusal.status_code, refusal.json()["err_id"]) == (503, "ERR-PYOCO-0038")
        assert refusal.headers["retry-after"].isdigit()
        assert await refused(modest, 3) is None
        assert (await gateway.client.get("/health")).status_code == 200


@ALL_STREAMS
async def test_a_stopping_gateway_ends_streams_and_starts_none(gateway: Gateway, path: str) -> None:
    run_id = await submit(gateway.client)
    async with reading(gateway, path, run_id) as received:
        gateway.disconnect_all()

        assert b"event: end" not in await rest_of(received)
    assert (await gateway.client.get(path.format(run_id), headers=SSE)).status_code == 503


@ALL_STREAMS
async def test_revoking_a_key_ends_its_streams(broker: Broker, tmp_path: Path, path: str) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    key, kept, others = await hand_out(config), await hand_out(config), await hand_out(config, "team-b")
    async with listening(config) as gateway, open_api_keys(config) as keys:
        gateway.client.headers.update(api_key_headers(kept))
        run_id = await submit(gateway.client)
        foreign = await gateway.client.get(path.format(run_id), headers=SSE | api_key_headers(others))
        async with reading(gateway, path, run_id, **api_key_headers(key)) as received, reading(gateway, path, run_id):
            revoked = key_id_in(key)
            assert revoked is not None

            await keys.revoke(revoked)

            await rest_of(received)
            assert gateway.topics.open_count == 1
    assert foreign.status_code == 404


# --- changes of runs --------------------------------------------------------------------------------------------------


async def test_a_stream_sends_every_state_and_ends_with_the_run(gateway: Gateway, config: NatsBackendConfig) -> None:
    async with open_stores(config, name="worker") as stores:
        run_id = await submit(gateway.client)
        async with watching(gateway.client, run_id, include="records") as events, at_work(stores, config) as worker:
            runner = await worker.executor.begun()
            runner.say(declared("a", "b"), began("a"))
            received = await until_status(events, "RUNNING")
            runner.end("completed", succeeded("a", 1), began("b"), succeeded("b", 2))
            received += await to_the_end(events)

    snapshots = [event for event in received if event.name == "snapshot"]
    assert {event.name for event in received} <= {"snapshot", "heartbeat"}
    assert [event.event_id for event in snapshots] == [str(event.version) for event in snapshots]
    versions = [event.version for event in snapshots]
    assert versions == sorted(set(versions))
    assert received[-1].status == "COMPLETED"
    assert received[-1].data["snapshot"]["task_records"]["b"]["output"] == 2
    assert all(event.data["run_id"] == run_id and event.data["ts"] > 0 for event in received)


async def test_changes_at_one_gateway_are_streamed_by_another(
    gateway: Gateway, config: NatsBackendConfig, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with listening(gateway_settings(config.nats_url, tmp_path / "other")) as other:
        run_id = await submit(gateway.client)
        async with watching(other.client, run_id) as events:
            assert (await anext(events)).status == "PENDING"

            await gateway.client.post(f"/runs/{run_id}/cancel")

            assert (await to_the_end(events))[-1].status == "CANCELLED"


async def test_a_finished_run_is_sent_once_with_records_only_on_request(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    await gateway.client.post(f"/runs/{run_id}/cancel")

    response = await gateway.client.get(f"/runs/{run_id}/watch")
    whole = await gateway.client.get(f"/runs/{run_id}/watch", params={"include": "full"})

    assert response.headers["content-type"].startswith("text/event-stream")
    assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-store", "no")
    assert response.text.startswith("retry: ")
    assert response.text.count("event: ") == 1
    assert ('"task_records":' in response.text, '"task_records":' in whole.text) == (False, True)
    shown = (await gateway.client.get(f"/runs/{run_id}")).json()
    assert orjson.loads(response.text.partition("data: ")[2])["snapshot"] == shown


async def test_a_stream_resumes_after_the_last_event_id(gateway: Gateway, config: NatsBackendConfig) -> None:
    async with open_stores(config, name="writer") as stores:
        run_id = await submit(gateway.client)
        async with watching(gateway.client, run_id) as events:
            last = (await anext(events)).event_id
        await label(stores, run_id, "while disconnected")

        async with watching(gateway.client, run_id, last_event_id=last) as events:
            first = await anext(events)
            await gateway.client.post(f"/runs/{run_id}/cancel")
            ended = (await to_the_end(events))[-1]

    assert first.data["snapshot"]["tags"] == ["default", "while disconnected"]
    again = await gateway.client.get(f"/runs/{run_id}/watch", headers={"Last-Event-ID": ended.event_id or ""})
    assert (again.status_code, again.content) == (204, b"")


@pytest.mark.parametrize("query", ["timeout_sec=0", "timeout_sec=601", "timeout_sec=x", "since=nan", "include=some"])
async def test_an_invalid_query_is_rejected(gateway: Gateway, query: str) -> None:
    response = await gateway.client.get(f"/runs/{new_run_id()}/watch?{query}")

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0002")


async def test_a_stream_ends_after_its_timeout(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)

    async with watching(gateway.client, run_id, timeout_sec=1) as events:
        received = await to_the_end(events)

    assert received[0].name == "snapshot"
    assert {event.name for event in received[1:]} == {"heartbeat"}
    assert all(event.event_id is None for event in received[1:])
    assert gateway.topics.open_count == 0


async def test_a_watch_survives_a_broker_restart(broker: Broker, gateway: Gateway, config: NatsBackendConfig) -> None:
    run_id = await submit(gateway.client)
    async with watching(gateway.client, run_id) as events:
        assert (await anext(events)).name == "snapshot"
        broker.kill()
        async with asyncio.timeout(PATIENCE_SEC):
            while not (beat := await anext(events)).comments:
                pass
        assert "away" in beat.comments[0]
        refused = await gateway.client.get(f"/runs/{run_id}/watch")
        broker.start()

        async with open_stores(config, name="writer") as stores:
            await label(stores, run_id, "after the restart")
            await gateway.client.post(f"/runs/{run_id}/cancel")
        received = await to_the_end(events)

    assert (refused.status_code, refused.json()["err_id"]) == (503, "ERR-PYOCO-0003")
    assert received[-1].data["snapshot"]["tags"] == ["default", "after the restart"]
    assert received[-1].status == "CANCELLED"
    assert not [event for event in received if event.name == "snapshot" and event.comments]


async def test_all_watchers_of_a_run_receive_its_end(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path)) as gateway:
        run_id = await submit(gateway.client)

        async def watch() -> str:
            async with watching(gateway.client, run_id) as events:
                await anext(events)
                here.release()
                return (await to_the_end(events))[-1].status

        here = asyncio.Semaphore(0)
        # In a group, so that a watch that is refused fails the test instead of keeping it waiting.
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(watch()) for _ in range(MANY)]
            for _ in range(MANY):
                await here.acquire()
            await gateway.client.post(f"/runs/{run_id}/cancel")

        assert [watcher.result() for watcher in watchers] == ["CANCELLED"] * MANY
        await wait_until_no_streams(gateway)


async def test_a_slow_client_receives_the_newest_state_and_not_all_states(config: NatsBackendConfig) -> None:
    changes = 30
    async with listening(config, send_buffer=1 << 16) as gateway, open_stores(config, name="writer") as stores:
        run_id = await submit(gateway.client, params={"bulk": "x" * 100_000})
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", gateway.port))
            await loop.sock_sendall(slow, f"GET /runs/{run_id}/watch HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            async with watching(gateway.client, run_id) as quick:
                for number in range(changes):
                    await label(stores, run_id, f"label-{number}")
                    # Each state is sent on its own, so none was merged with another.
                    while f"label-{number}" not in (await anext(quick)).data["snapshot"]["tags"]:
                        pass
            await gateway.client.post(f"/runs/{run_id}/cancel")

            stream = bytearray()
            async with asyncio.timeout(PATIENCE_SEC):
                while not stream.endswith(b"0\r\n\r\n"):
                    stream += await loop.sock_recv(slow, 1 << 16)

    assert b'"status":"CANCELLED"' in stream.rpartition(b"event: snapshot")[2]
    assert stream.count(b"event: snapshot") < changes // 2


async def test_the_sdk_follows_a_run_of_a_real_gateway_to_its_end(gateway: Gateway) -> None:
    run_id = await submit(gateway.client)
    async with AsyncPyocoHttpClient(f"http://127.0.0.1:{gateway.port}") as client:
        received = []
        async with asyncio.timeout(PATIENCE_SEC):
            async for event in client.watch(run_id):
                received.append(event)
                if len(received) == 1:
                    await client.cancel_run(run_id)

    shown = received[-1].get("snapshot")
    assert shown is not None
    assert shown["status"] == "CANCELLED"


async def test_an_invalid_snapshot_affects_neither_gateway_nor_other_streams(
    gateway: Gateway, config: NatsBackendConfig
) -> None:
    odd, other = await submit(gateway.client), await submit(gateway.client)
    async with (
        await Connection.open(config, name="test") as connection,
        open_stores(config, name="test") as stores,
        watching(gateway.client, odd) as odds,
        watching(gateway.client, other) as events,
    ):
        await anext(odds)
        loaded = await stores.snapshots.load(RunId(odd))
        assert loaded is not None
        value = orjson.dumps({**loaded.plain, "heartbeat_at": "soon"})
        await connection.request(f"$KV.{config.runs_kv_bucket}.{odd}", value)
        await anext(events)
        for _ in range(3):
            assert (await anext(events)).name == "heartbeat"  # each after a poll of all channels

        await label(stores, other, "later")

        assert (await anext(event async for event in events if event.name == "snapshot")).data["snapshot"]["tags"]
        assert (await gateway.client.post("/runs", json={"flow_name": "hello"})).status_code == 200
