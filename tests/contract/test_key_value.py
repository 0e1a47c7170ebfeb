"""The guarantees of every KeyValue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from pyoco_server.ports import Entry, KeyValue, RevisionConflict, Stored


async def put(bucket: KeyValue, key: str, value: bytes, *, revision: int = 0) -> int:
    stored = await bucket.put(key, value, revision=revision)
    assert isinstance(stored, Stored)
    return stored.version


async def take(batches: AsyncGenerator[Sequence[Entry], None], count: int) -> list[Entry]:
    """The next `count` entries; empty batches are skipped."""
    found: list[Entry] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += await anext(batches)
    return found


@pytest.mark.parametrize("key", ["a", "A", "-", "=", "host.example-2", "x" * 128])
async def test_a_value_is_read_unchanged(bucket: KeyValue, key: str) -> None:
    revision = await put(bucket, key, b"\x00value")

    assert await bucket.get(key) == Entry(key, revision, b"\x00value")
    assert await bucket.get("other") is None


async def test_a_large_value_is_stored(bucket: KeyValue) -> None:
    revision = await put(bucket, "k", b"x" * 300_000)

    assert await bucket.get("k") == Entry("k", revision, b"x" * 300_000)


async def test_only_the_holder_of_the_current_revision_can_write(bucket: KeyValue) -> None:
    first = await put(bucket, "k", b"1")
    second = await put(bucket, "k", b"2", revision=first)

    refused = [await bucket.put("k", b"3", revision=revision) for revision in (0, first, second + 7)]

    assert second > first
    assert refused == [RevisionConflict(entry=Entry("k", second, b"2"))] * 3
    assert await bucket.put("unwritten", b"1", revision=7) == RevisionConflict(entry=None)


async def test_a_repeated_write_is_found_and_not_stored_twice(bucket: KeyValue) -> None:
    first = await put(bucket, "k", b"1")
    second = await put(bucket, "k", b"2", revision=first)

    assert await bucket.put("k", b"2", revision=first) == Stored(version=second, found=True)
    assert (await bucket.state()).last_sequence == second


async def test_exactly_one_of_many_concurrent_writers_succeeds(bucket: KeyValue) -> None:
    results = await asyncio.gather(*(bucket.put("k", b"%d" % number, revision=0) for number in range(16)))

    (winner,) = [answer for answer in results if isinstance(answer, Stored)]
    entry = await bucket.get("k")
    assert entry is not None
    assert entry.revision == winner.version
    assert all(answer == RevisionConflict(entry=entry) for answer in results if answer != winner)


async def test_a_removed_key_differs_from_one_never_written(bucket: KeyValue) -> None:
    first = await put(bucket, "k", b"1")

    assert await bucket.purge("k", revision=first + 1) is None
    removal = await bucket.purge("k", revision=first)

    assert removal is not None
    assert await bucket.get("k") == Entry("k", removal, None)
    assert await bucket.purge("k", revision=first) is None
    assert isinstance(await bucket.put("k", b"1", revision=0), RevisionConflict)
    assert await put(bucket, "k", b"1", revision=removal) > removal


async def test_a_key_is_removed_at_any_revision(bucket: KeyValue) -> None:
    await put(bucket, "k", b"1")

    assert await bucket.purge("k") is not None
    assert await bucket.all() == []


async def test_one_of_many_removals_of_a_revision_succeeds(bucket: KeyValue) -> None:
    revision = await put(bucket, "k", b"1")

    removals = await asyncio.gather(*(bucket.purge("k", revision=revision) for _ in range(16)))

    assert len([removal for removal in removals if removal is not None]) == 1


async def test_all_entries_are_listed_once_and_without_removed_keys(bucket: KeyValue) -> None:
    assert await bucket.all() == []
    revisions = {f"a.{number}": await put(bucket, f"a.{number}", b"1") for number in range(600)}
    changed = await put(bucket, "a.0", b"2", revision=revisions["a.0"])
    await put(bucket, "b.1", b"1")
    await bucket.purge("a.1")

    listed = {entry.key: entry for entry in await bucket.all("a.")}

    assert listed.keys() == revisions.keys() - {"a.1"}
    assert await bucket.revisions("a.") == {key: entry.revision for key, entry in listed.items()}
    assert listed["a.0"] == Entry("a.0", changed, b"2")
    assert len(await bucket.all()) == 600


async def test_a_range_of_revisions_is_read_in_order(bucket: KeyValue) -> None:
    revisions = [await put(bucket, f"k{number}", b"%d" % number) for number in range(5)]
    await put(bucket, "k2", b"again", revision=revisions[2])

    entries = await bucket.read(after=revisions[0], upto=revisions[3])

    assert entries == [Entry("k1", revisions[1], b"1"), Entry("k3", revisions[3], b"3")]
    assert await bucket.key_at(revisions[1]) == "k1"
    assert await bucket.key_at(revisions[2]) is None


async def test_the_state_is_equal_while_the_content_is_the_same(bucket: KeyValue) -> None:
    states = [await bucket.state()]
    revision = await put(bucket, "k", b"1")
    states += [await bucket.state(), await bucket.state()]
    await put(bucket, "k", b"2", revision=revision)
    states.append(await bucket.state())

    assert states[1] == states[2]
    assert len(set(states)) == 3
    assert [state.last_sequence for state in states] == [0, 1, 1, 2]
    assert [state.messages for state in states] == [0, 1, 1, 1]


async def test_a_follower_gets_stored_entries_an_empty_batch_and_every_change(bucket: KeyValue) -> None:
    revisions = [await put(bucket, f"k{number}", b"1") for number in range(3)]
    replaced = await put(bucket, "k0", b"2", revision=revisions[0])

    async with aclosing(bucket.follow(after=0)) as batches, asyncio.timeout(10):
        present = await take(batches, 3)
        assert not await anext(batches)
        live = await put(bucket, "k3", b"1")
        removal = await bucket.purge("k1")
        changes = await take(batches, 2)

    assert [(entry.key, entry.revision, entry.value) for entry in present] == [
        ("k1", revisions[1], b"1"),
        ("k2", revisions[2], b"1"),
        ("k0", replaced, b"2"),
    ]
    assert all(0.0 <= entry.age_sec < 60.0 for entry in present)
    assert removal is not None
    assert changes == [Entry("k3", live, b"1"), Entry("k1", removal, None)]


async def test_a_follower_of_an_empty_bucket_gets_an_empty_batch(bucket: KeyValue) -> None:
    async with aclosing(bucket.follow(after=0)) as batches, asyncio.timeout(10):
        assert not await anext(batches)


async def test_a_follower_continues_after_a_revision_with_several_batches(bucket: KeyValue) -> None:
    first = await put(bucket, "first", b"1")
    keys = [f"k{number}" for number in range(1200)]
    for key in keys:
        await put(bucket, key, b"1")

    async with aclosing(bucket.follow(after=first)) as batches:
        assert [entry.key for entry in await take(batches, 1200)] == keys
