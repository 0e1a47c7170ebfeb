"""Streams, buckets and consumers on the broker: created once, and kept as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import structs

from pyoco_server.adapters.jetstream import broker
from pyoco_server.adapters.jetstream.client import Message
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import StreamReplaced
from pyoco_server.adapters.jetstream.topology import NS, ensure_resources, streams
from pyoco_server.bootstrap import stores_on
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import InternalError, InvalidUsage, RequestTooLarge, SnapshotTooLarge
from pyoco_server.ports import Conflict, Stored
from support.broker import Broker
from support.samples import created, execution_at, job_for, new_run_id, tagged, worker
from support.stores import jetstream_ports, settings


@pytest.fixture
def config(tmp_path: Path) -> Iterator[NatsBackendConfig]:
    with Broker(tmp_path) as broker:
        yield settings(broker.url)


async def stream_config(connection: Connection, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await connection.api(f"$JS.API.STREAM.INFO.{name}"))["config"]
    return found


async def test_streams_are_created_as_designed(connection: Connection, config: NatsBackendConfig) -> None:
    facts = await ensure_resources(connection, config)

    assert (facts.replicas, facts.durability) == (1, "buffered")
    events = await stream_config(connection, "PYOCO_EVENTS")
    assert events["subjects"] == ["pyoco.events.*"]
    assert events["republish"] == {"src": "pyoco.events.*", "dest": "pyoco.stored.{{wildcard(1)}}"}
    assert (events["discard"], events["allow_direct"], events["duplicate_window"]) == ("new", True, 120 * NS)
    assert (await stream_config(connection, "PYOCO_WORK"))["retention"] == "workqueue"
    requests = await stream_config(connection, "KV_pyoco_idempotency")
    assert (requests["max_age"], requests["discard"], requests["max_msgs_per_subject"]) == (86_400 * NS, "new", 1)
    letters = await stream_config(connection, "PYOCO_DLQ")
    assert (letters["max_age"], letters["max_msgs"], letters["max_bytes"]) == (604_800 * NS, 100_000, 536_870_912)
    wheels = await stream_config(connection, "OBJ_pyoco_wheels")
    assert wheels["subjects"] == ["$O.pyoco_wheels.C.>", "$O.pyoco_wheels.M.>"]
    assert (wheels["discard"], wheels["allow_rollup_hdrs"], wheels["max_msgs_per_subject"]) == ("new", True, -1)
    history = await stream_config(connection, "KV_pyoco_wheel_history")
    assert (history["subjects"], history["max_age"]) == (["$KV.pyoco_wheel_history.>"], 7_776_000 * NS)
    for name in ("KV_pyoco_runs", "KV_pyoco_workers", "KV_pyoco_graphs"):
        kept = await stream_config(connection, name)
        assert (kept["max_msgs_per_subject"], kept["allow_msg_ttl"], kept["allow_rollup_hdrs"]) == (1, True, True)
        assert not kept.get("deny_delete")


async def test_streams_with_a_short_maximum_age_can_be_created(
    connection: Connection, config: NatsBackendConfig
) -> None:
    short = replace(config, idempotency_ttl_sec=60.0, wheel_history_ttl_sec=5.0, dlq_max_age_sec=119.0)

    await ensure_resources(connection, short)

    for name, kept_sec in (("KV_pyoco_idempotency", 60), ("KV_pyoco_wheel_history", 5), ("PYOCO_DLQ", 119)):
        made = await stream_config(connection, name)
        assert (made["max_age"], made["duplicate_window"]) == (kept_sec * NS, kept_sec * NS)


async def test_durability_follows_from_replicas_and_sync(connection: Connection, config: NatsBackendConfig) -> None:
    assert (await ensure_resources(connection, config, fsynced=True)).durability == "fsynced"
    wanted = streams(settings(config.nats_url, nats_replicas=3))
    assert {stream["num_replicas"] for stream in wanted} == {3}
    assert not any(stream["allow_direct"] for stream in wanted)


async def test_repeated_and_concurrent_setup_changes_nothing(connection: Connection, config: NatsBackendConfig) -> None:
    results = await asyncio.gather(*(ensure_resources(connection, config) for _ in range(8)))
    before = await stream_config(connection, "PYOCO_WORK")

    again = await ensure_resources(connection, settings(config.nats_url, dlq_max_msgs=5))

    assert set(results) == {again}
    assert await stream_config(connection, "PYOCO_WORK") == before
    assert (await stream_config(connection, "PYOCO_DLQ"))["max_msgs"] == 100_000


async def test_changes_of_an_operator_are_kept(connection: Connection, config: NatsBackendConfig) -> None:
    await ensure_resources(connection, config)
    changed = await stream_config(connection, "PYOCO_EVENTS") | {"max_bytes": 10_000_000, "allow_direct": False}
    await connection.api("$JS.API.STREAM.UPDATE.PYOCO_EVENTS", changed)

    facts = await ensure_resources(connection, config)

    assert (await stream_config(connection, "PYOCO_EVENTS"))["max_bytes"] == 10_000_000
    assert "PYOCO_EVENTS" not in facts.direct


async def test_a_stream_of_our_name_with_other_subjects_is_rejected(
    connection: Connection, config: NatsBackendConfig
) -> None:
    await connection.api("$JS.API.STREAM.CREATE.PYOCO_WORK", {"name": "PYOCO_WORK", "subjects": ["another.subject"]})

    with pytest.raises(InvalidUsage, match="'PYOCO_WORK' for other subjects"):
        await ensure_resources(connection, config)


async def test_a_foreign_stream_with_our_subjects_is_named(connection: Connection, config: NatsBackendConfig) -> None:
    await connection.api("$JS.API.STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["pyoco.work.>"]})

    with pytest.raises(InvalidUsage, match="another stream already takes subjects of 'PYOCO_WORK'"):
        await ensure_resources(connection, config)


async def test_only_stored_events_are_republished(connection: Connection, config: NatsBackendConfig) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    received: asyncio.Queue[Message] = asyncio.Queue()
    await connection.subscribe(f"pyoco.stored.{run_id}", received.put_nowait)

    first = await ports.events.append(run_id, created(), after=0)
    refused = await ports.events.append(run_id, created(), after=0)
    assert isinstance(first, Stored)
    second = await ports.events.append(run_id, tagged("x"), after=first.version)

    assert refused == Conflict()
    assert isinstance(second, Stored)
    async with asyncio.timeout(5):
        sequences = [(await received.get()).number("Nats-Sequence") for _ in range(2)]
    assert sequences == [first.version, second.version]


async def test_without_direct_gets_reads_go_to_the_leader(connection: Connection, config: NatsBackendConfig) -> None:
    facts = replace(await ensure_resources(connection, config), direct=frozenset())
    stores = stores_on(connection, facts, config)
    log, snapshots, registry = stores.events, stores.snapshots, stores.registry
    run_id, commits, version = new_run_id(), [created(), tagged("a"), tagged("b")], 0
    for commit in commits:
        stored = await log.append(run_id, commit, after=version)
        assert isinstance(stored, Stored)
        version = stored.version
    kept = await snapshots.advance(execution_at(run_id, version), create=True)
    await registry.put(worker())

    assert [item.commit for item in await log.read(run_id)] == commits
    assert await log.read(run_id, after=version) == []
    assert await log.append(new_run_id(), tagged("late"), after=5) == Conflict()
    assert await snapshots.load(run_id) == kept
    assert await snapshots.remove(run_id)
    assert await snapshots.load(run_id) is None
    assert await registry.get(WorkerId("w1")) == worker()


async def test_the_marker_of_a_removed_run_expires(
    connection: Connection, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "MARKER_TTL_SEC", 1)
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    await ports.snapshots.advance(execution_at(run_id, 1), create=True)

    await ports.snapshots.remove(run_id)

    _, marker = await ports.feed.snapshot_stream()
    assert await ports.feed.snapshot_key_at(marker) == run_id
    async with asyncio.timeout(10):
        while await ports.feed.snapshot_key_at(marker) is not None:
            pass


async def test_removal_works_in_a_bucket_without_message_ttls(
    connection: Connection, config: NatsBackendConfig
) -> None:
    older = next(stream for stream in streams(config) if stream["name"] == "KV_pyoco_runs") | {"allow_msg_ttl": False}
    await connection.api("$JS.API.STREAM.CREATE.KV_pyoco_runs", older)
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    await ports.snapshots.advance(execution_at(run_id, 1), create=True)

    assert await ports.snapshots.remove(run_id)

    assert await ports.snapshots.load(run_id) is None


async def test_a_foreign_snapshot_is_neither_returned_nor_overwritten(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    await connection.request(f"$KV.pyoco_runs.{run_id}", b'{"run_id": "of an older program"}')

    assert await ports.snapshots.load(run_id) is None
    assert await ports.snapshots.advance(execution_at(run_id, 1), create=True) is None


async def test_a_commit_of_a_newer_version_is_an_internal_error(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    await connection.request(f"pyoco.events.{run_id}", b'{"schemaVersion": 99}')

    with pytest.raises(InternalError, match="newer than this program"):
        await ports.events.read(run_id)


async def test_a_value_that_exceeds_a_message_raises_a_named_error(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    huge = execution_at(run_id, 1)
    huge = structs.replace(huge, request=structs.replace(huge.request, input={"x": "y" * connection.max_payload}))

    with pytest.raises(SnapshotTooLarge):
        await ports.snapshots.advance(huge, create=True)
    with pytest.raises(RequestTooLarge):
        await ports.events.append(run_id, tagged("y" * connection.max_payload), after=0)


async def test_reading_newer_commits_does_not_make_the_broker_count_them(
    connection: Connection, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    first = await ports.events.append(run_id, created(), after=0)
    assert isinstance(first, Stored)
    await ports.events.append(run_id, tagged("x"), after=first.version)

    async def batch(*_: object, **__: object) -> list[Message]:
        raise AssertionError("a batch from the middle of the stream is counted by a scan")

    monkeypatch.setattr(connection, "request_many", batch)

    assert len(await ports.events.read(run_id, after=first.version)) == 1


async def test_a_known_snapshot_is_advanced_in_one_round_trip(
    connection: Connection, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = await jetstream_ports(connection, config)
    run_id = new_run_id()
    subjects: list[str] = []
    ask = connection.request

    async def counted(subject: str, payload: bytes = b"", **options: Any) -> Message:
        subjects.append(subject)
        return await ask(subject, payload, **options)

    monkeypatch.setattr(connection, "request", counted)

    known = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    known = await ports.snapshots.advance(execution_at(run_id, 2), known=known)
    await ports.snapshots.advance(execution_at(run_id, 3), known=known)

    assert subjects == [f"$KV.pyoco_runs.{run_id}"] * 3


async def test_an_existing_consumer_keeps_its_settings(connection: Connection, config: NatsBackendConfig) -> None:
    ports = await jetstream_ports(connection, config)
    wanted = {
        "name": "pyoco-worker-default",
        "durable_name": "pyoco-worker-default",
        "filter_subject": "pyoco.work.default",
        "ack_policy": "explicit",
        "ack_wait": 7 * NS,
    }
    body = {"stream_name": "PYOCO_WORK", "config": wanted}
    await connection.api("$JS.API.CONSUMER.CREATE.PYOCO_WORK.pyoco-worker-default", body)

    queue = await ports.queue.open("default")

    assert queue.ack_wait_sec == 7.0
    await queue.close()


async def test_a_foreign_consumer_of_our_jobs_is_named(connection: Connection, config: NatsBackendConfig) -> None:
    ports = await jetstream_ports(connection, config)
    wanted = {"name": "other", "durable_name": "other", "filter_subject": "pyoco.work.>", "ack_policy": "explicit"}
    body = {"stream_name": "PYOCO_WORK", "config": wanted}
    await connection.api("$JS.API.CONSUMER.CREATE.PYOCO_WORK.other", body)

    with pytest.raises(InvalidUsage, match="another consumer of PYOCO_WORK"):
        await ports.queue.open("default")


async def test_a_deleted_consumer_is_created_again(connection: Connection, config: NatsBackendConfig) -> None:
    ports = await jetstream_ports(connection, config)
    queue = await ports.queue.open("default")
    waiting = asyncio.create_task(queue.receive(1))
    await asyncio.wait([waiting], timeout=0.1)

    await connection.api("$JS.API.CONSUMER.DELETE.PYOCO_WORK.pyoco-worker-default")
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)

    async with asyncio.timeout(5):
        (delivery,) = await waiting
    await delivery.ack()
    await queue.close()


async def test_a_job_without_deliveries_left_stays_in_the_stream(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, settings(config.nats_url, consumer_max_deliver=2))
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    queue = await ports.queue.open("default")
    for count in (1, 2):
        (delivery,) = await queue.receive(1)
        assert delivery.num_delivered == count
        await delivery.nak(0.0)

    waiting = asyncio.create_task(queue.receive(1))
    await asyncio.wait([waiting], timeout=1.0)

    assert not waiting.done()
    assert len(await ports.queue.stored("default")) == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    await queue.close()


async def test_a_foreign_producers_job_has_no_created_sequence(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    queue = await ports.queue.open("default")

    await connection.request("pyoco.work.default", b"{}")
    await connection.store("pyoco.work.default", b"{}", [("Pyoco-Created", "nonsense")])

    found = [*await queue.receive(2)]
    while len(found) < 2:
        found += await queue.receive(1)
    assert [delivery.created_sequence for delivery in found] == [None, None]
    assert found[0].subject == "pyoco.work.default"
    await queue.close()


async def test_a_received_job_is_not_redelivered_before_it_is_returned(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    queue = await ports.queue.open("default")
    waiting = asyncio.create_task(queue.receive(1))
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await ports.queue.publish(job_for(new_run_id()), created_sequence=1)
    other = await ports.queue.open("default")

    stealing = asyncio.create_task(other.receive(1))
    await asyncio.wait([stealing], timeout=3 * queue.ack_wait_sec)

    assert not stealing.done()
    (delivery,) = await queue.receive(1)
    assert delivery.num_delivered == 1
    stealing.cancel()
    await asyncio.wait([stealing])
    await queue.close()
    await other.close()


async def test_a_recreated_bucket_is_not_taken_for_the_old_one(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    for _ in range(3):
        await ports.snapshots.advance(execution_at(new_run_id(), 1), create=True)

    async with aclosing(ports.feed.snapshots(after=0)) as batches:
        assert [len(await anext(batches)) for _ in range(2)] == [3, 0]
        await connection.api("$JS.API.STREAM.DELETE.KV_pyoco_runs")
        await ensure_resources(connection, config)
        for _ in range(5):
            await ports.snapshots.advance(execution_at(new_run_id(), 1), create=True)

        async with asyncio.timeout(5):
            with pytest.raises(StreamReplaced):
                await anext(batches)


async def test_a_stream_shorter_than_the_position_is_not_followed(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)

    async with aclosing(ports.feed.snapshots(after=10)) as batches:
        with pytest.raises(StreamReplaced):
            await anext(batches)


async def test_a_follower_resumes_after_its_consumer_is_deleted(
    connection: Connection, config: NatsBackendConfig
) -> None:
    ports = await jetstream_ports(connection, config)
    ids = [new_run_id() for _ in range(4)]
    await ports.snapshots.advance(execution_at(ids[0], 1), create=True)
    await ports.snapshots.advance(execution_at(ids[1], 1), create=True)
    seen = []

    async with aclosing(ports.feed.snapshots(after=0)) as batches, asyncio.timeout(10):
        seen += [change.run_id for change in await anext(batches)]
        listed = await connection.api("$JS.API.CONSUMER.NAMES.KV_pyoco_runs")
        for name in listed["consumers"]:
            await connection.api(f"$JS.API.CONSUMER.DELETE.KV_pyoco_runs.{name}")
        await ports.snapshots.advance(execution_at(ids[2], 1), create=True)
        await ports.snapshots.advance(execution_at(ids[3], 1), create=True)
        while len(seen) < 4:
            seen += [change.run_id for change in await anext(batches)]

    assert seen == ids


async def test_a_closed_feed_leaves_no_consumer(connection: Connection, config: NatsBackendConfig) -> None:
    ports = await jetstream_ports(connection, config)
    await ports.snapshots.advance(execution_at(new_run_id(), 1), create=True)

    async with aclosing(ports.feed.snapshots(after=0)) as batches:
        await anext(batches)

    listed = await connection.api("$JS.API.CONSUMER.NAMES.KV_pyoco_runs")
    assert not listed["consumers"]


async def test_an_operators_hidden_survives_a_heartbeat_by_another_process(
    connection: Connection, config: NatsBackendConfig
) -> None:
    facts = await ensure_resources(connection, config)
    workers, operators = (stores_on(connection, facts, config).registry for _ in range(2))
    await workers.put(worker())
    stored = orjson.loads((await connection.request("$JS.API.DIRECT.GET.KV_pyoco_workers.$KV.pyoco_workers.w1")).data)
    await connection.request("$KV.pyoco_workers.w1", orjson.dumps(stored | {"hidden": True}))

    await workers.put(worker(last_seen_at=200.0))

    seen = await operators.get(WorkerId("w1"))
    assert seen is not None
    assert (seen.hidden, seen.last_seen_at) == (True, 200.0)


@pytest.mark.parametrize("stored", [b"no JSON", b"[]", b'{"schemaVersion":2}'])
async def test_an_unreadable_idempotency_record_is_an_error(
    connection: Connection, config: NatsBackendConfig, stored: bytes
) -> None:
    ports = await jetstream_ports(connection, config)
    await connection.request(f"$KV.pyoco_idempotency.{'0' * 64}", stored)

    with pytest.raises(InternalError, match="cannot be read"):
        await ports.idempotency.get(RecordKey("0" * 64))
