"""The guarantees of every SubjectLog."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from pyoco_server.ports import Conflict, LogMessage, Stored, SubjectLog

PATIENCE_SEC = 5.0


async def append(
    log: SubjectLog, key: str, data: bytes, *, after: int, search_limit: int | None = None
) -> Stored | Conflict:
    return await log.append(
        key, data, after=after, is_ours=lambda message: message.data == data, search_limit=search_limit
    )


async def appended(log: SubjectLog, key: str, *parts: bytes, after: int = 0) -> list[LogMessage]:
    messages = []
    for data in parts:
        stored = await append(log, key, data, after=after)
        assert isinstance(stored, Stored)
        assert not stored.found
        after = stored.version
        messages.append(LogMessage(key, after, data))
    return messages


async def test_messages_of_a_key_are_read_in_order(log: SubjectLog) -> None:
    first = await appended(log, "a", b"1", b"2")
    (other,) = await appended(log, "b", b"other")
    last = await appended(log, "a", b"3", after=first[-1].sequence)

    assert await log.read("a") == [*first, *last]
    assert await log.read("a", after=first[0].sequence) == [first[1], *last]
    assert await log.next("a", after=first[1].sequence) == last[0]
    assert await log.next("a", after=other.sequence) == last[0]
    assert await log.next("a", after=last[0].sequence) is None
    assert await log.last("a") == last[0]
    assert [await log.at(message.sequence) for message in (first[0], other)] == [first[0], other]
    assert await log.at(last[0].sequence + 7) is None


async def test_an_unknown_key_has_no_messages(log: SubjectLog) -> None:
    assert await log.read("a") == []
    assert await log.last("a") is None
    assert await log.next("a", after=0) is None


async def test_a_long_log_is_read_completely_and_in_parts(log: SubjectLog) -> None:
    messages = await appended(log, "a", *(b"%d" % number for number in range(1500)))

    assert await log.read("a") == messages
    for first, limit in ((0, 1), (0, 1200), (0, 5000), (10, 1), (10, 16), (10, 40), (10, None)):
        after = messages[first - 1].sequence if first else 0
        assert await log.read("a", after=after, limit=limit) == messages[first:][:limit]


async def test_an_append_after_an_outdated_message_is_a_conflict(log: SubjectLog) -> None:
    first, second = await appended(log, "a", b"1", b"2")

    results = [await append(log, "a", b"late", after=after) for after in (0, first.sequence, second.sequence + 7)]

    assert results == [Conflict()] * 3
    assert await append(log, "unwritten", b"1", after=7) == Conflict()
    assert await log.read("a") == [first, second]


async def test_a_repeated_append_is_found_among_newer_messages(log: SubjectLog) -> None:
    first, second, _ = await appended(log, "a", b"1", b"2", b"3")

    assert await append(log, "a", b"2", after=first.sequence) == Stored(version=second.sequence, found=True)
    assert await append(log, "a", b"2", after=0) == Stored(version=second.sequence, found=True)
    assert await append(log, "a", b"2", after=0, search_limit=1) == Conflict()


async def test_exactly_one_of_many_concurrent_writers_succeeds(log: SubjectLog) -> None:
    (first,) = await appended(log, "a", b"1")

    results = await asyncio.gather(*(append(log, "a", b"w%d" % number, after=first.sequence) for number in range(20)))

    assert results.count(Conflict()) == 19
    assert len(await log.read("a")) == 2


async def test_a_published_message_needs_no_position(log: SubjectLog) -> None:
    await log.publish("a", b"1")
    await log.publish("a", b"1")

    assert [message.data for message in await log.read("a")] == [b"1", b"1"]


async def test_a_range_is_read_for_all_keys_or_one(log: SubjectLog) -> None:
    for number in range(6):
        await log.publish("ab"[number % 2], b"%d" % number)

    assert [message.data for message in await log.read_range(after=1, upto=5)] == [b"1", b"2", b"3", b"4"]
    assert [message.data for message in await log.read_range(after=1, upto=5, key="a")] == [b"2", b"4"]
    assert await log.read_range(after=1, upto=5, key="c") == []


async def test_a_purge_empties_only_its_key(log: SubjectLog) -> None:
    await appended(log, "a", b"1", b"2")
    kept = await appended(log, "b", b"1")

    await log.purge("a")

    assert await log.read("a") == []
    assert await log.read("b") == kept
    assert (await log.state()).messages == 1
    await appended(log, "a", b"again")


async def test_a_listener_receives_each_stored_message_of_its_key(log: SubjectLog) -> None:
    received: asyncio.Queue[LogMessage | None] = asyncio.Queue()
    await log.listen("a", received.put_nowait)

    await appended(log, "b", b"other")
    (first,) = await appended(log, "a", b"1")
    await append(log, "a", b"refused", after=0)
    (second,) = await appended(log, "a", b"2", after=first.sequence)

    async with asyncio.timeout(PATIENCE_SEC):
        assert [await received.get(), await received.get()] == [first, second]
    assert received.empty()


async def test_stopping_a_listener_does_not_stop_another(log: SubjectLog) -> None:
    gone: asyncio.Queue[LogMessage | None] = asyncio.Queue()
    stays: asyncio.Queue[LogMessage | None] = asyncio.Queue()
    stop = await log.listen("a", gone.put_nowait)
    await log.listen("a", stays.put_nowait)

    stop()
    stop()
    (first,) = await appended(log, "a", b"1")

    async with asyncio.timeout(PATIENCE_SEC):
        assert await stays.get() == first
    assert gone.empty()


async def test_a_follower_gets_the_messages_of_all_keys_without_their_data(log: SubjectLog) -> None:
    (first,) = await appended(log, "a", b"1")
    (second,) = await appended(log, "b", b"1")
    found: list[LogMessage] = []

    async with aclosing(log.follow(after=first.sequence)) as batches, asyncio.timeout(10):
        while not found:
            found += await anext(batches)
        (third,) = await appended(log, "a", b"2", after=first.sequence)
        while len(found) < 2:
            found += await anext(batches)

    assert found == [second._replace(data=b""), third._replace(data=b"")]
    assert (await log.state()).last_sequence == third.sequence
