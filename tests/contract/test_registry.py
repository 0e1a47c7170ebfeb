"""What every worker registry promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from pyoco_server.domain.ids import WorkerId
from pyoco_server.ports import WorkerSeen
from support.samples import worker
from support.stores import Ports


async def test_a_record_comes_back_as_it_was_put(ports: Ports) -> None:
    await ports.registry.put(worker())

    assert await ports.registry.get(WorkerId("w1")) == worker()
    assert await ports.registry.get(WorkerId("w2")) is None


async def test_of_two_that_come_in_under_one_name_one_succeeds(ports: Ports) -> None:
    await ports.registry.put(worker(instance_id="dead"))
    dead = await ports.registry.get(WorkerId("w1"))

    came_in = [await ports.registry.succeed(dead, worker(instance_id=name)) for name in ("one", "two")]

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert (came_in, stored.instance_id) == ([True, False], "one")
    assert await ports.registry.succeed(None, worker("new", instance_id="first"))
    assert not await ports.registry.succeed(None, worker("new", instance_id="second"))


async def test_the_last_word_counts(ports: Ports) -> None:
    for last_seen_at in (1.0, 2.0, 3.0):
        await ports.registry.put(worker(last_seen_at=last_seen_at))

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert stored.last_seen_at == 3.0


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


async def test_an_operators_wish_is_stored_and_changes_nothing_else(ports: Ports) -> None:
    await ports.registry.put(worker())

    hidden = await ports.registry.set_hidden(WorkerId("w1"), True, at=300.0)

    assert hidden is not None
    assert hidden.record == replace(worker(), hidden=True)
    assert await ports.registry.get(WorkerId("w1")) == hidden.record
    shown = await ports.registry.set_hidden(WorkerId("w1"), False, at=301.0)
    assert shown is not None
    assert shown.sequence > hidden.sequence
    assert await ports.registry.get(WorkerId("w1")) == worker()


async def test_nobody_can_be_hidden_who_is_not_there(ports: Ports) -> None:
    await ports.registry.put(worker("gone"))
    await ports.registry.remove(worker("gone"))

    assert await ports.registry.set_hidden(WorkerId("w1"), True, at=1.0) is None
    assert await ports.registry.set_hidden(WorkerId("gone"), True, at=1.0) is None


async def test_neither_a_heartbeat_nor_a_wish_is_lost_when_both_come_at_once(ports: Ports) -> None:
    await ports.registry.put(worker(last_seen_at=0.0))

    async def breathe() -> None:
        for _ in range(3):  # without it nobody else would ever get a word in
            await ports.registry.get(WorkerId("w1"))

    async def beat() -> None:
        for nth in range(1, 301):
            await ports.registry.put(worker(last_seen_at=float(nth)))
            await breathe()

    async def wish() -> None:
        for nth in range(1, 52):
            seen = await ports.registry.set_hidden(WorkerId("w1"), nth % 2 == 1, at=float(nth))
            assert seen is not None
            assert seen.record is not None
            assert seen.record.hidden == (nth % 2 == 1)
            await breathe()

    async with asyncio.timeout(60), asyncio.TaskGroup() as both:
        both.create_task(beat())
        both.create_task(wish())

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored == replace(worker(last_seen_at=300.0), hidden=True)


async def test_a_worker_is_removed_unless_it_has_spoken_since(ports: Ports) -> None:
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


async def test_a_follower_is_told_what_is_there_and_that_this_is_all(ports: Ports) -> None:
    for name in ("w1", "host.example-2"):
        await ports.registry.put(worker(name))

    async with following(ports) as told:
        present = await whole(told)

    assert {seen.worker_id: seen.record for seen in present} == {
        "w1": worker("w1"),
        "host.example-2": worker("host.example-2"),
    }
    assert all(seen.age_sec is not None and 0.0 <= seen.age_sec < 60.0 for seen in present)


async def test_a_follower_of_an_empty_registry_is_told_that_it_is_empty(ports: Ports) -> None:
    async with following(ports) as told:
        assert await whole(told) == []


async def test_a_follower_is_told_every_change_in_order(ports: Ports) -> None:
    async with following(ports) as told:
        await whole(told)
        await ports.registry.put(worker(last_seen_at=1.0))
        first = await anext(told)
        hidden = await ports.registry.set_hidden(WorkerId("w1"), True, at=5.0)
        second = await anext(told)
        await ports.registry.remove(replace(worker(last_seen_at=1.0), hidden=True))
        third = await anext(told)

    assert [seen.record for seen in first] == [worker(last_seen_at=1.0)]
    assert first[0].age_sec == 0.0
    assert hidden is not None
    assert [(seen.sequence, seen.record) for seen in second] == [(hidden.sequence, hidden.record)]
    assert [(seen.worker_id, seen.record) for seen in third] == [("w1", None)]


async def test_how_long_ago_a_worker_spoke_is_not_known_where_an_operator_wrote_last(ports: Ports) -> None:
    await ports.registry.put(worker())
    await ports.registry.set_hidden(WorkerId("w1"), True, at=5.0)

    async with following(ports) as told:
        (hidden,) = await whole(told)
    await ports.registry.put(worker(last_seen_at=200.0))
    async with following(ports) as told:
        (spoken,) = await whole(told)

    assert hidden.age_sec is None
    assert spoken.age_sec is not None


@asynccontextmanager
async def following(ports: Ports) -> AsyncIterator[AsyncGenerator[Sequence[WorkerSeen], None]]:
    batches = ports.registry.follow()
    assert isinstance(batches, AsyncGenerator)
    async with asyncio.timeout(10), aclosing(batches):
        yield batches


async def whole(told: AsyncGenerator[Sequence[WorkerSeen], None]) -> list[WorkerSeen]:
    """Everything up to the word that this is all."""
    found: list[WorkerSeen] = []
    async for batch in told:
        if not batch:
            return found
        found += batch
    raise AssertionError("it ended")
