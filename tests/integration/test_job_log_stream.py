"""`GET /jobs/{id}/logs/stream` of real gateways on a real broker: every line once, through restarts, at any gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_api_keys, open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import key_id_in
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.callers import hand_out, showing
from support.gateways import gateway_settings, submit
from support.samples import new_run_id
from support.streams import PATIENCE_SEC, Event, Gateway, events_in, listening
from support.workers import at_work
from support.written import Writer, numbered

pytestmark = pytest.mark.settings(run_heartbeat_interval_sec=0.05)


@asynccontextmanager
async def following(
    client: httpx.AsyncClient, run_id: str, *, headers: dict[str, str] | None = None, **query: Any
) -> AsyncIterator[AsyncGenerator[Event, None]]:
    """The events of a log's stream; leaving the block hangs up."""
    async with client.stream("GET", f"/jobs/{run_id}/logs/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield events_in(answer.aiter_lines())


def behind(event: Event) -> dict[str, str]:
    assert event.event_id is not None
    return {"Last-Event-ID": event.event_id}


async def some(events: AsyncIterator[Event], count: int) -> list[Event]:
    async with asyncio.timeout(PATIENCE_SEC):
        return [await anext(events) for _ in range(count)]


async def all_of(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(PATIENCE_SEC):
        return [event async for event in events]


def messages(events: list[Event]) -> list[str]:
    return [event.data["message"] for event in events if event.name == "logEntry"]


async def finish(gateway: Gateway, run_id: str) -> None:
    """Of a run that nobody holds."""
    await gateway.client.post(f"/runs/{run_id}/cancel")


async def test_a_job_is_told_line_by_line_while_it_writes_and_then_its_end(
    gateway: Gateway, config: NatsBackendConfig, stores: Stores
) -> None:
    run_id = await submit(gateway.client)
    async with following(gateway.client, run_id) as events, at_work(stores, config) as worker:
        runner = await worker.executor.begun()
        runner.write("one", "zwei \u2028 <b>", task="load")
        told = await some(events, 2)
        for number in range(3, 200):
            runner.write(str(number))
        runner.end()
        told += await all_of(events)

    assert messages(told) == ["one", "zwei \u2028 <b>", *numbered(3, 199)]
    assert told[0].data == {
        "timestamp": "2023-11-14T22:13:20.000Z",
        "message": "one",
        "n": 1,
        "task": "load",
        "level": "INFO",
        "stream": "stdout",
        "attempt": 1,
    }
    assert [event.data["n"] for event in told[:-1]] == list(range(1, 200))
    assert (told[-1].name, told[-1].data) == ("end", {"status": "completed"})
    answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream", headers=behind(told[-1]))
    assert (answer.status_code, answer.content) == (204, b"")
    assert gateway.watches.open_count == 0


async def test_a_finished_log_is_told_whole_to_whoever_comes_late(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write("one", "two")
    await finish(gateway, run_id)

    answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert answer.text.count("event: logEntry") == 2
    assert answer.text.endswith('event: end\ndata: {"status":"canceled"}\n\n')


async def test_a_reader_that_is_cut_anywhere_goes_on_behind_the_last_line_it_has(
    broker: Broker, config: NatsBackendConfig, stores: Stores, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other_settings = gateway_settings(broker.url, tmp_path / "other")
    async with listening(config) as first, listening(other_settings) as other:
        run_id = await submit(first.client)
        writer = Writer(stores.run_logs, RunId(run_id))
        await writer.write(*numbered(1, 5))
        async with following(first.client, run_id) as events:
            told = await some(events, 3)  # in the middle of a chunk
        await writer.write(*numbered(6, 8))
        async with following(other.client, run_id, headers=behind(told[-1])) as events:
            told += await some(events, 4)
        told += await some_of(other, run_id, told[-1], 1)  # at the end of a chunk
    async with listening(config) as restarted:
        await writer.write(*numbered(9, 9))
        await finish(restarted, run_id)
        async with following(restarted.client, run_id, headers=behind(told[-1])) as events:
            told += await all_of(events)

    assert messages(told) == numbered(1, 9)
    assert told[-1].name == "end"


async def some_of(gateway: Gateway, run_id: str, last: Event, count: int) -> list[Event]:
    async with following(gateway.client, run_id, headers=behind(last)) as events:
        return await some(events, count)


async def test_a_token_of_the_log_of_the_run_goes_on_behind_it(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write(*numbered(1, 5))
    page = (await gateway.client.get(f"/runs/{run_id}/logs", params={"limit": 2})).json()
    await finish(gateway, run_id)

    async with following(gateway.client, run_id, sinceToken=page["next_token"]) as events:
        assert messages(await all_of(events)) == numbered(3, 5)


async def test_of_a_log_only_the_tail_or_what_fits_is_told(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    writer = Writer(stores.run_logs, RunId(run_id))
    await writer.write("a", task="load", level="ERROR")
    await writer.write("b", "c", task="fit")
    await finish(gateway, run_id)

    async def told(**query: Any) -> list[str]:
        async with following(gateway.client, run_id, **query) as events:
            return messages(await all_of(events))

    assert await told(tail=2) == ["b", "c"]
    assert await told(task="fit") == ["b", "c"]
    assert await told(level="WARNING") == ["a"]
    assert await told(task="fit", level="ERROR") == []


async def test_a_reader_of_the_tail_that_is_cut_before_its_first_line_misses_none(
    gateway: Gateway, stores: Stores
) -> None:
    run_id = await submit(gateway.client)
    writer = Writer(stores.run_logs, RunId(run_id))
    await writer.write(*numbered(1, 3))
    async with gateway.client.stream("GET", f"/jobs/{run_id}/logs/stream", params={"tail": 2}) as answer:
        place = await anext(line async for line in answer.aiter_lines() if line.startswith("id: "))
    await writer.write(*numbered(4, 9))
    await finish(gateway, run_id)

    async with following(gateway.client, run_id, headers={"Last-Event-ID": place[4:]}, tail=2) as events:
        assert messages(await all_of(events)) == numbered(2, 9)


@pytest.mark.parametrize("damaged", ["x", "0.1", "1", "1.2.3", "01.1", "9" * 40, "1.1.END", "²"])
async def test_an_event_id_that_is_none_of_ours_counts_as_none(gateway: Gateway, stores: Stores, damaged: str) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write("one")
    await finish(gateway, run_id)

    headers: Any = {"Last-Event-ID": damaged.encode()}
    answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream", headers=headers)

    assert answer.text.count("event: logEntry") == 1


@pytest.mark.parametrize("run_id", ["no-run-id", str(new_run_id()), "%00"], ids=["no id", "unknown", "null"])
async def test_a_job_that_is_not_there_is_not_found(gateway: Gateway, run_id: str) -> None:
    for headers in ({}, {"Last-Event-ID": "1.0.end"}):
        answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream", headers=headers)

        assert (answer.status_code, answer.json()["errId"]) == (404, "ERR-PYOCO-0005")
        assert answer.headers["content-type"] == "application/problem+json"
    assert gateway.watches.open_count == 0


@pytest.mark.parametrize(
    "query",
    ["tail=0", "tail=x", "level=LOUD", "task=", "sinceToken=x", "tail=1&tail=2", "limit=1", "tail=1&sinceToken=x"],
)
async def test_a_query_that_cannot_be_is_refused(gateway: Gateway, query: str) -> None:
    answer = await gateway.client.get(f"/jobs/{new_run_id()}/logs/stream?{query}")

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


async def test_a_reader_that_hangs_up_leaves_nothing_behind(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write("one")
    async with following(gateway.client, run_id) as events:
        await some(events, 1)
        assert gateway.watches.open_count == 1

    async with asyncio.timeout(PATIENCE_SEC):
        while gateway.watches.open_count:  # noqa: ASYNC110 - nobody tells when a reader has gone
            await asyncio.sleep(0.01)
    assert gateway.watches._channels == {}


async def test_comments_show_life_while_nothing_is_written(config: NatsBackendConfig, tmp_path: Path) -> None:
    async with listening(gateway_settings(config.nats_url, tmp_path, http_watch_heartbeat_sec=0.05)) as gateway:
        run_id = await submit(gateway.client)
        async with gateway.client.stream("GET", f"/jobs/{run_id}/logs/stream") as answer:
            shown = (line async for line in answer.aiter_lines() if line == ": alive")
            async with asyncio.timeout(PATIENCE_SEC):
                assert [await anext(shown) for _ in range(3)] == [": alive"] * 3


async def test_a_broker_that_is_killed_and_comes_back_costs_a_reader_nothing(
    broker: Broker, gateway: Gateway, config: NatsBackendConfig
) -> None:
    run_id = await submit(gateway.client)
    async with open_stores(config, name="writer") as stores:
        await Writer(stores.run_logs, RunId(run_id)).write("before")
    async with following(gateway.client, run_id) as events:
        told = await some(events, 1)
        broker.kill()
        refused = await gateway.client.get(f"/jobs/{new_run_id()}/logs/stream")
        broker.start()
        await finish(gateway, run_id)
        told += await all_of(events)

    assert (refused.status_code, refused.json()["errId"]) == (503, "ERR-PYOCO-0003")
    assert messages(told) == ["before"]
    assert told[-1].name == "end"


async def test_more_streams_than_the_limit_are_refused(broker: Broker, tmp_path: Path) -> None:
    async with listening(gateway_settings(broker.url, tmp_path, http_max_watchers=1)) as gateway:
        run_id = await submit(gateway.client)
        async with gateway.client.stream("GET", f"/jobs/{run_id}/logs/stream"):
            answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream")

        assert (answer.status_code, answer.json()["errId"]) == (503, "ERR-PYOCO-0038")
        assert answer.headers["retry-after"].isdigit()


async def test_the_stream_of_a_key_that_is_revoked_ends_and_another_tenants_is_not_there(
    broker: Broker, tmp_path: Path
) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    key, others = await hand_out(config), await hand_out(config, "team-b")
    async with listening(config) as gateway, open_api_keys(config) as keys, open_stores(config, name="w") as stores:
        gateway.client.headers.update(showing(key))
        run_id = await submit(gateway.client)
        await Writer(stores.run_logs, RunId(run_id)).write("one")
        refused = await gateway.client.get(f"/jobs/{run_id}/logs/stream", headers=showing(others))
        async with following(gateway.client, run_id) as events:
            await some(events, 1)
            revoked = key_id_in(key)
            assert revoked is not None

            await keys.revoke(revoked)

            assert await all_of(events) == []
    assert refused.status_code == 404


async def test_streams_end_without_an_end_event_when_the_gateway_stops(gateway: Gateway, stores: Stores) -> None:
    run_id = await submit(gateway.client)
    await Writer(stores.run_logs, RunId(run_id)).write("one")
    async with following(gateway.client, run_id) as events:
        await some(events, 1)

        gateway.let_go()

        assert await all_of(events) == []
    answer = await gateway.client.get(f"/jobs/{run_id}/logs/stream")
    assert answer.status_code == 503
