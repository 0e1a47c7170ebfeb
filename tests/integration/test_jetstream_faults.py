"""The stores on JetStream when acks get lost, writers race and the broker is killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import orjson
import pytest

from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.ports import Conflict, SnapshotSeen, Stored
from support.broker import Broker
from support.samples import created, execution_at, job_for, new_run_id, tagged
from support.stores import Ports, opened_ports
from support.tcp_proxy import TcpProxy

KILLS = 3


async def test_an_append_whose_ack_was_lost_is_found_in_the_log(broker: Broker) -> None:
    run_id, commit = new_run_id(), created()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports:
        proxy.hold_replies()
        appending = asyncio.create_task(ports.events.append(run_id, commit, after=0))
        await proxy.reply_held()

        proxy.cut()

        response = await appending
        (stored,) = await ports.events.read(run_id)
        assert response == Stored(version=stored.sequence, found=True)
        assert stored.commit == commit


async def test_a_commit_with_a_lost_ack_is_found_before_another_writers_commit(broker: Broker) -> None:
    run_id = new_run_id()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports, opened_ports(broker.url) as others:
        proxy.hold_replies()
        appending = asyncio.create_task(ports.events.append(run_id, created(), after=0))
        await proxy.reply_held()
        (ours,) = await others.events.read(run_id)
        await others.events.append(run_id, tagged("faster"), after=ours.sequence)

        proxy.cut()

        assert await appending == Stored(version=ours.sequence, found=True)
        assert len(await ports.events.read(run_id)) == 2


async def test_a_lost_ack_of_a_rejected_append_is_a_conflict(broker: Broker) -> None:
    run_id = new_run_id()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports, opened_ports(broker.url) as others:
        await others.events.append(run_id, created(), after=0)
        proxy.hold_replies()
        appending = asyncio.create_task(ports.events.append(run_id, created(), after=0))
        await proxy.reply_held()

        proxy.cut()

        assert await appending == Conflict()


async def test_an_unconfirmed_append_is_unavailable_in_bounded_time(broker: Broker) -> None:
    loop = asyncio.get_running_loop()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports:
        proxy.hold_replies()
        start = loop.time()

        with pytest.raises(BrokerUnavailable):
            await ports.events.append(new_run_id(), created(), after=0)

        assert loop.time() - start < 5.0


async def test_a_lost_ack_duplicates_neither_snapshot_nor_job(broker: Broker) -> None:
    run_id = new_run_id()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports:
        proxy.hold_replies()
        storing = [
            asyncio.create_task(ports.snapshots.advance(execution_at(run_id, 1), create=True)),
            asyncio.create_task(ports.queue.publish(job_for(run_id), created_sequence=1)),
        ]
        await proxy.reply_held()

        proxy.cut()

        await asyncio.gather(*storing)
        loaded = await ports.snapshots.load(run_id)
        assert loaded is not None
        assert loaded.execution.version == 1
        assert len(await ports.queue.stored("default")) == 1


async def test_a_removal_whose_ack_was_lost_is_a_success(broker: Broker) -> None:
    run_id = new_run_id()
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports:
        known = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
        assert known is not None
        proxy.hold_replies()
        removing = asyncio.create_task(ports.snapshots.remove(run_id, known.revision))
        await proxy.reply_held()

        proxy.cut()

        assert await removing
        assert await ports.snapshots.load(run_id) is None


async def test_a_put_whose_ack_was_lost_is_found(broker: Broker) -> None:
    async with TcpProxy(broker.url) as proxy, opened_ports(proxy.url) as ports:
        bucket, revision = ports.idempotency._bucket, 0
        for value in (b"first", b"second"):
            proxy.hold_replies()
            putting = asyncio.create_task(bucket.put("k", value, revision=revision))
            await proxy.reply_held()

            proxy.cut()

            stored, entry = await putting, await bucket.get("k")
            assert entry is not None
            assert stored == Stored(version=entry.revision, found=True)
            assert entry.value == value
            revision = entry.revision


async def test_one_of_many_claims_of_a_snapshot_succeeds(broker: Broker) -> None:
    run_id = new_run_id()
    async with opened_ports(broker.url) as one, opened_ports(broker.url) as other:
        known = await one.snapshots.advance(execution_at(run_id, 1), create=True)
        assert known is not None

        claims = await asyncio.gather(*(ports.snapshots.claim(known) for ports in (one, other) for _ in range(4)))

        assert sum(claims) == 1


async def test_exactly_one_of_two_concurrent_appends_succeeds(broker: Broker) -> None:
    run_id, version = new_run_id(), 0
    async with opened_ports(broker.url) as one, opened_ports(broker.url) as other:
        for number in range(50):
            results = await asyncio.gather(
                one.events.append(run_id, tagged(f"one {number}"), after=version),
                other.events.append(run_id, tagged(f"other {number}"), after=version),
            )

            (winner,) = [response for response in results if isinstance(response, Stored)]
            assert Conflict() in results
            version = winner.version
        assert len(await one.events.read(run_id)) == 50


async def test_no_acknowledged_commit_is_lost_or_duplicated_by_a_killed_broker(broker: Broker) -> None:
    acknowledged: dict[RunId, list[CommitId]] = {new_run_id(): [] for _ in range(8)}
    stop, moved = asyncio.Event(), asyncio.Event()

    async def write(ports: Ports, run_id: RunId) -> None:
        version = 0
        while not stop.is_set():
            commit = tagged(f"after {version}")
            try:
                response = await ports.events.append(run_id, commit, after=version)
            except BrokerUnavailable:
                newer = await ports.events.read(run_id, after=version) if await up(ports) else []
                version = newer[-1].sequence if newer else version
                continue
            assert isinstance(response, Stored)
            acknowledged[run_id].append(commit.commit_id)
            moved.set()
            version = response.version

    async with opened_ports(broker.url) as ports:
        async with asyncio.TaskGroup() as group:
            for run_id in acknowledged:
                group.create_task(write(ports, run_id))
            for _ in range(KILLS):
                await grown(acknowledged, moved)
                broker.kill()
                broker.start()
            await grown(acknowledged, moved)
            stop.set()

        for run_id, commit_ids in acknowledged.items():
            stored = [item.commit.commit_id for item in await ports.events.read(run_id)]
            assert len(set(stored)) == len(stored)
            assert set(commit_ids) <= set(stored)
            assert [each for each in stored if each in set(commit_ids)] == commit_ids


async def test_jobs_are_received_after_a_killed_broker_restarts(broker: Broker) -> None:
    done: set[str] = set()
    async with opened_ports(broker.url, consumer_ack_wait_sec=2.0) as ports:
        queue = await ports.queue.open("default")
        for number in range(KILLS):
            run_id = new_run_id()
            waiting = asyncio.create_task(queue.receive(4))
            await asyncio.wait([waiting], timeout=0.1)
            broker.kill()
            broker.start()
            await ports.queue.publish(job_for(run_id), created_sequence=number)

            async with asyncio.timeout(4):
                while run_id not in done:
                    for delivery in await waiting:
                        done.add(orjson.loads(delivery.payload)["run_id"])
                        await delivery.ack()
                    waiting = asyncio.create_task(queue.receive(4))
            waiting.cancel()
            await asyncio.wait([waiting])
        await queue.close()


async def test_a_follower_neither_misses_nor_repeats_messages_of_a_killed_broker(broker: Broker) -> None:
    ids = [new_run_id() for _ in range(40)]
    seen: list[SnapshotSeen] = []
    all_seen = asyncio.Event()

    async def follow(ports: Ports) -> None:
        async with aclosing(ports.feed.snapshots(after=0)) as batches:
            async for batch in batches:
                seen.extend(batch)
                if len(seen) >= len(ids):
                    all_seen.set()

    async with opened_ports(broker.url) as writer, opened_ports(broker.url) as reader:
        following = asyncio.create_task(follow(reader))
        for number, run_id in enumerate(ids):
            await writer.snapshots.advance(execution_at(run_id, 1), create=True)
            if number % 10 == 9:
                broker.kill()
                broker.start()
        async with asyncio.timeout(10):
            await all_seen.wait()
        following.cancel()
        await asyncio.wait([following])

    assert [change.run_id for change in seen] == ids


async def up(ports: Ports) -> bool:
    try:
        await ports.feed.snapshot_stream()
    except BrokerUnavailable:
        return False
    return True


async def grown(acknowledged: dict[RunId, list[CommitId]], moved: asyncio.Event) -> None:
    """Waits until every writer has stored another commit."""
    before = {run_id: len(commits) for run_id, commits in acknowledged.items()}
    async with asyncio.timeout(20):
        while any(len(acknowledged[run_id]) <= count for run_id, count in before.items()):
            moved.clear()
            await moved.wait()


async def test_concurrent_reads_of_a_large_log_keep_the_connection(broker: Broker) -> None:
    run_id, heavy, version = new_run_id(), "x" * 500_000, 0
    async with opened_ports(broker.url) as ports:
        for number in range(25):
            stored = await ports.events.append(run_id, tagged(f"{number} {heavy}"), after=version)
            assert isinstance(stored, Stored)
            version = stored.version

        read = await asyncio.gather(*(ports.events.read(run_id) for _ in range(8)))

        assert [len(commits) for commits in read] == [25] * 8
        assert {commits[-1].sequence for commits in read} == {version}
