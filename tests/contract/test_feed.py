"""What every feed promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TypeVar

from pyoco_server.domain.ids import RunId
from pyoco_server.ports import Stored
from support.samples import created, execution_at, new_run_id, tagged
from support.stores import Ports

T = TypeVar("T")


async def take(batches: AsyncIterator[Sequence[T]], count: int) -> list[T]:
    """The next so many entries; the rest of the last batch is dropped."""
    found: list[T] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += await anext(batches)
    return found


async def store(ports: Ports, count: int) -> list[RunId]:
    ids = [new_run_id() for _ in range(count)]
    for run_id in ids:
        await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    return ids


async def test_what_was_stored_comes_in_order_and_then_what_is_stored_meanwhile(ports: Ports) -> None:
    before = await store(ports, 3)

    async with aclosing(ports.feed.snapshots(after=0)) as batches:  # type: ignore[type-var]
        first = await take(batches, 3)
        during = await store(ports, 2)
        then = await take(batches, 2)

    seen = [*first, *then]
    assert [change.run_id for change in seen] == [*before, *during]
    assert [change.sequence for change in seen] == sorted({change.sequence for change in seen})
    assert all(change.plain is not None and change.plain["version"] == 1 for change in seen)


async def test_it_goes_on_behind_the_sequence_it_is_given(ports: Ports) -> None:
    await store(ports, 2)
    _, position = await ports.feed.snapshot_stream()
    later = await store(ports, 1)

    async with aclosing(ports.feed.snapshots(after=position)) as batches:  # type: ignore[type-var]
        (change,) = await take(batches, 1)

    assert change.run_id == later[0]
    assert change.sequence == position + 1


async def test_of_a_replaced_snapshot_only_the_last_is_told(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    await ports.snapshots.advance(execution_at(run_id, 2))

    async with aclosing(ports.feed.snapshots(after=0)) as batches:  # type: ignore[type-var]
        (change,) = await take(batches, 1)

    assert change.plain is not None
    assert change.plain["version"] == 2
    assert await ports.feed.snapshot_key_at(change.sequence) == run_id
    assert await ports.feed.snapshot_key_at(change.sequence - 1) is None


async def test_a_removal_is_told_too(ports: Ports) -> None:
    (run_id,) = await store(ports, 1)

    async with aclosing(ports.feed.snapshots(after=0)) as batches:  # type: ignore[type-var]
        await take(batches, 1)
        await ports.snapshots.remove(run_id)
        (change,) = await take(batches, 1)

    assert (change.run_id, change.plain) == (run_id, None)


async def test_the_position_of_the_stream_grows_with_it(ports: Ports) -> None:
    created_at, before = await ports.feed.snapshot_stream()
    await store(ports, 3)

    assert await ports.feed.snapshot_stream() == (created_at, before + 3)


async def test_more_than_a_batch_comes_whole(ports: Ports) -> None:
    ids = await store(ports, 1200)

    async with aclosing(ports.feed.snapshots(after=0)) as batches:  # type: ignore[type-var]
        assert [change.run_id for change in await take(batches, 1200)] == ids


async def test_commits_of_all_runs_pass_by_with_their_sequences(ports: Ports) -> None:
    one, other = new_run_id(), new_run_id()
    first = await ports.log.append(one, created(), after=0)
    second = await ports.log.append(other, created(), after=0)
    assert isinstance(first, Stored)
    assert isinstance(second, Stored)

    async with aclosing(ports.feed.commits(after=first.version)) as batches:  # type: ignore[type-var]
        (seen,) = await take(batches, 1)
        third = await ports.log.append(one, tagged("x"), after=first.version)
        (live,) = await take(batches, 1)

    assert isinstance(third, Stored)
    assert (await ports.feed.commit_stream())[1] == third.version
    assert (seen.run_id, seen.sequence) == (other, second.version)
    assert (live.run_id, live.sequence) == (one, third.version)
