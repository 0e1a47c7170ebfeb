"""The registry of workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from pyoco_server.domain.ids import WorkerId
from pyoco_server.stores import WorkerSeen
from support.samples import worker
from support.stores import Ports


async def test_a_record_is_read_as_it_was_put(ports: Ports) -> None:
    await ports.registry.put(worker())

    assert await ports.registry.get(WorkerId("w1")) == worker()
    assert await ports.registry.get(WorkerId("w2")) is None


async def test_one_of_two_successors_wins(ports: Ports) -> None:
    await ports.registry.put(worker(instance_id="dead"))
    dead = await ports.registry.get(WorkerId("w1"))

    succeeded = [await ports.registry.succeed(dead, worker(instance_id=name)) for name in ("one", "two")]

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert (succeeded, stored.instance_id) == ([True, False], "one")
    assert await ports.registry.succeed(None, worker("new", instance_id="first"))
    assert not await ports.registry.succeed(None, worker("new", instance_id="second"))


async def test_all_workers_are_listed_once(ports: Ports) -> None:
    assert await ports.registry.all() == []
    for name in ("w1", "host.example-2", "w3"):
        await ports.registry.put(worker(name))
        await ports.registry.put(worker(name, last_seen_at=101.0))

    listed = await ports.registry.all()

    assert sorted(record.worker_id for record in listed) == ["host.example-2", "w1", "w3"]
    assert {record.last_seen_at for record in listed} == {101.0}


async def test_a_heartbeat_does_not_bring_a_hidden_worker_back(ports: Ports) -> None:
    await ports.registry.put(replace(worker(), hidden=True))

    await ports.registry.put(worker(last_seen_at=200.0))

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert stored.hidden
    assert stored.last_seen_at == 200.0


async def test_hiding_a_worker_changes_nothing_else(ports: Ports) -> None:
    await ports.registry.put(worker())

    hidden = await ports.registry.set_hidden(WorkerId("w1"), True, at=300.0)

    assert hidden is not None
    assert hidden.record == replace(worker(), hidden=True)
    assert await ports.registry.get(WorkerId("w1")) == hidden.record
    visible = await ports.registry.set_hidden(WorkerId("w1"), False, at=301.0)
    assert visible is not None
    assert visible.sequence > hidden.sequence
    assert await ports.registry.get(WorkerId("w1")) == worker()


async def test_an_unknown_worker_cannot_be_hidden(ports: Ports) -> None:
    await ports.registry.put(worker("gone"))
    await ports.registry.remove(worker("gone"))

    assert await ports.registry.set_hidden(WorkerId("w1"), True, at=1.0) is None
    assert await ports.registry.set_hidden(WorkerId("gone"), True, at=1.0) is None


async def test_a_worker_is_removed_unless_its_record_changed(ports: Ports) -> None:
    await ports.registry.put(worker())
    await ports.registry.put(worker(last_seen_at=200.0))

    assert not await ports.registry.remove(worker())
    assert await ports.registry.remove(worker(last_seen_at=200.0))
    assert not await ports.registry.remove(worker(last_seen_at=200.0))
    assert await ports.registry.all() == []


async def test_a_removed_worker_may_come_back(ports: Ports) -> None:
    await ports.registry.put(worker())
    await ports.registry.remove(worker())

    await ports.registry.put(worker(last_seen_at=200.0))

    assert await ports.registry.all() == [worker(last_seen_at=200.0)]


async def test_a_follower_gets_the_stored_records_and_an_empty_batch(ports: Ports) -> None:
    for name in ("w1", "host.example-2"):
        await ports.registry.put(worker(name))

    async with following(ports) as batches:
        present = await whole(batches)

    assert {seen.worker_id: seen.record for seen in present} == {
        "w1": worker("w1"),
        "host.example-2": worker("host.example-2"),
    }
    assert all(seen.age_sec is not None and 0.0 <= seen.age_sec < 60.0 for seen in present)


async def test_a_follower_gets_every_change_in_order(ports: Ports) -> None:
    async with following(ports) as batches:
        await whole(batches)
        await ports.registry.put(worker(last_seen_at=1.0))
        first = await anext(batches)
        hidden = await ports.registry.set_hidden(WorkerId("w1"), True, at=5.0)
        second = await anext(batches)
        await ports.registry.remove(replace(worker(last_seen_at=1.0), hidden=True))
        third = await anext(batches)

    assert [seen.record for seen in first] == [worker(last_seen_at=1.0)]
    assert first[0].age_sec == 0.0
    assert hidden is not None
    assert [(seen.sequence, seen.record) for seen in second] == [(hidden.sequence, hidden.record)]
    assert [(seen.worker_id, seen.record) for seen in third] == [("w1", None)]


async def test_the_age_of_a_record_is_unknown_after_an_operators_change(ports: Ports) -> None:
    await ports.registry.put(worker())
    await ports.registry.set_hidden(WorkerId("w1"), True, at=5.0)

    async with following(ports) as batches:
        (hidden,) = await whole(batches)
    await ports.registry.put(worker(last_seen_at=200.0))
    async with following(ports) as batches:
        (spoken,) = await whole(batches)

    assert hidden.age_sec is None
    assert spoken.age_sec is not None


@asynccontextmanager
async def following(ports: Ports) -> AsyncIterator[AsyncGenerator[Sequence[WorkerSeen], None]]:
    batches = ports.registry.follow()
    assert isinstance(batches, AsyncGenerator)
    async with asyncio.timeout(10), aclosing(batches):
        yield batches


async def whole(batches: AsyncGenerator[Sequence[WorkerSeen], None]) -> list[WorkerSeen]:
    """Everything up to the empty batch."""
    found: list[WorkerSeen] = []
    async for batch in batches:
        if not batch:
            return found
        found += batch
    raise AssertionError("it ended")
