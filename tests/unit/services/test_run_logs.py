"""Reading a log: whatever the chunks and the pages, every line once and in order, and the end from the end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.run_logs.lines import LEVELS, Level, LineFilter, LogChunk, LogLine, chunk_of
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.ports import Stored
from pyoco_server.services.run_logs import read as run_log_reader
from pyoco_server.services.run_logs.read import LogEnd, LogPage, last_lines, lines_from
from pyoco_server.services.streaming.chunks import NumberedLine
from pyoco_server.stores import LogStore
from pyoco_server.testing.broker import MemorySubjectLog
from support.samples import new_run_id

RUN = new_run_id()
# The sizes of chunks; an empty one is what a later attempt begins with.
chunk_sizes = st.lists(st.integers(0, 7), max_size=10)


async def stored(sizes: list[int], *, others_before: int = 0) -> LogStore:
    """A log of chunks of these sizes, whose lines are their own numbers."""
    logs, behind, sequence = LogStore(MemorySubjectLog()), None, 0
    for _ in range(others_before):
        await logs.append(new_run_id(), chunk_of((), attempt=1, behind=None, sequence=0), after=0)
    number = 0
    for size in sizes:
        lines = [LogLine(1.0, None, "stdout", "INFO", str(number + n + 1)) for n in range(size)]
        number += size
        chunk: LogChunk = chunk_of(lines, attempt=1, behind=behind, sequence=sequence)
        answer = await logs.append(RUN, chunk, after=sequence)
        assert isinstance(answer, Stored)
        behind, sequence = chunk, answer.version
    return logs


def numbers(lines: list[NumberedLine]) -> list[int]:
    assert all(str(line.number) == line.line.text for line in lines)
    return [line.number for line in lines]


@given(chunk_sizes, st.integers(1, 9))
def test_pages_of_any_size_tell_every_line_once(sizes: list[int], limit: int) -> None:
    async def read() -> list[int]:
        logs = await stored(sizes)
        found: list[NumberedLine] = []
        page = await lines_from(logs, RUN, START, limit)
        found += page.lines
        while not page.at_end:
            assert len(page.lines) == limit
            page = await lines_from(logs, RUN, page.following, limit)
            found += page.lines
        assert (await lines_from(logs, RUN, page.following, limit)).lines == []
        return numbers(found)

    assert asyncio.run(read()) == list(range(1, sum(sizes) + 1))


@given(chunk_sizes, st.integers(1, 100), st.integers(0, 50))
def test_the_number_in_a_place_holds_whatever_its_sequence_says(sizes: list[int], line: int, sequence: int) -> None:
    line = min(line, sum(sizes) + 1)

    async def read() -> list[int]:
        # As after a restore: the chunks are the same, their sequences are not.
        logs = await stored(sizes, others_before=7)
        return numbers(list((await lines_from(logs, RUN, LogPosition(line, sequence), 1000)).lines))

    assert asyncio.run(read()) == list(range(line, sum(sizes) + 1))


@given(chunk_sizes, st.integers(1, 30))
def test_the_last_lines_are_the_end_of_all_lines(sizes: list[int], count: int) -> None:
    async def read() -> tuple[list[int], list[NumberedLine]]:
        logs = await stored(sizes)
        page = await last_lines(logs, RUN, count)
        behind = await lines_from(logs, RUN, page.following, 10)
        return numbers(list(page.lines)), list(behind.lines)

    found, behind = asyncio.run(read())

    assert found == list(range(1, sum(sizes) + 1))[-count:]
    assert behind == []


def test_a_page_ends_when_it_is_large_and_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> tuple[list[int], list[int]]:
        logs = await stored([3, 3, 3])
        first = await lines_from(logs, RUN, START, 1000)
        second = await lines_from(logs, RUN, first.following, 1000)
        return numbers(list(first.lines)), numbers(list(second.lines))

    monkeypatch.setattr(run_log_reader, "PAGE_BYTES", 8)

    first, second = asyncio.run(read())

    assert (first, second) == ([1, 2, 3, 4, 5, 6], [7, 8, 9])


# Of each line: its task and its level.
kinds = st.tuples(st.sampled_from([None, "load", "save"]), st.sampled_from(LEVELS))
filters = st.builds(
    LineFilter, task=st.sampled_from([None, "load", "none"]), level=st.one_of(st.none(), st.sampled_from(LEVELS))
)


async def stored_kinds(chunks: list[list[tuple[str | None, Level]]]) -> LogStore:
    logs, behind, sequence, number = LogStore(MemorySubjectLog()), None, 0, 0
    for kinds_of in chunks:
        lines = [LogLine(1.0, task, "stdout", level, str(number + n + 1)) for n, (task, level) in enumerate(kinds_of)]
        number += len(lines)
        behind = chunk_of(lines, attempt=1, behind=behind, sequence=sequence)
        answer = await logs.append(RUN, behind, after=sequence)
        assert isinstance(answer, Stored)
        sequence = answer.version
    return logs


@given(st.lists(st.lists(kinds, max_size=6), max_size=8), filters, st.integers(1, 5), st.integers(1, 4))
def test_chosen_lines_are_all_told_whatever_the_pages_and_the_bounds(
    chunks: list[list[tuple[str | None, Level]]], only: LineFilter, limit: int, bound: int
) -> None:
    every = [kind for chunk in chunks for kind in chunk]
    wanted = [
        number
        for number, (task, level) in enumerate(every, start=1)
        if only.task in (None, task) and (only.level is None or LEVELS.index(level) >= LEVELS.index(only.level))
    ]

    async def read() -> tuple[list[int], list[int]]:
        logs = await stored_kinds(chunks)
        found: list[NumberedLine] = []
        page = await lines_from(logs, RUN, START, limit, only=only)
        found += page.lines
        while not page.at_end:
            assert len(page.lines) <= limit
            page = await lines_from(logs, RUN, page.following, limit, only=only)
            found += page.lines
        return numbers(found), numbers(list((await last_lines(logs, RUN, limit, only=only)).lines))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_log_reader, "SEARCHED_CHUNKS", bound)
        found, last = asyncio.run(read())

    assert found == wanted
    # A tail is of what it reads, which is the end of the log.
    assert last == wanted[len(wanted) - len(last) :]


async def test_a_search_that_finds_nothing_ends_at_its_bound_and_is_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calm: tuple[str | None, Level] = ("load", "INFO")
    logs = await stored_kinds([*([calm] for _ in range(10)), [("load", "ERROR")]])
    only = LineFilter(level="ERROR")
    monkeypatch.setattr(run_log_reader, "SEARCHED_CHUNKS", 4)

    pages = [await lines_from(logs, RUN, START, 100, only=only)]
    while not pages[-1].at_end:
        pages.append(await lines_from(logs, RUN, pages[-1].following, 100, only=only))

    assert [len(page.lines) for page in pages] == [0, 0, 1]
    assert (await last_lines(logs, RUN, 1, only=LineFilter(task="none"))).lines == []


@given(chunk_sizes, st.integers(1, 9), st.integers(0, 10))
def test_before_an_end_the_same_is_read_however_the_log_grows(sizes: list[int], limit: int, seen: int) -> None:
    async def read(count: int) -> tuple[LogPage, LogPage]:
        end = LogEnd(last=await (await stored(sizes[:seen])).last(RUN))
        logs = await stored(sizes[:count])
        page = await lines_from(logs, RUN, START, limit, end=end)
        return page, await last_lines(logs, RUN, limit, end=end)

    assert asyncio.run(read(seen)) == asyncio.run(read(len(sizes)))
