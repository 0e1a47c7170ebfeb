"""Reading a log as pages of lines and as bytes: complete, ordered, and in few reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LEVELS, Level, LineFilter, LogLine, line_filter, text_of
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import RunNotFound
from pyoco_server.services.run_logs import read as module
from pyoco_server.services.run_logs.read import LogEnd, LogPage, last_lines, lines_from
from pyoco_server.services.run_logs.search import chunk_with, in_bytes, in_lines, text_between
from pyoco_server.services.streaming.chunks import NumberedLine
from pyoco_server.stores import LogStore, StoredChunk
from pyoco_server.testing.broker import MemorySubjectLog
from support.samples import new_run_id
from support.written import AT, Writer, numbered

RUN = new_run_id()
# The sizes of chunks; a later attempt begins with an empty one.
chunk_sizes = st.lists(st.integers(0, 7), max_size=10)
texts = st.lists(st.text(st.sampled_from("a ü漢😀"), max_size=4), max_size=4)


class Written:
    """A growing log, interleaved with chunks of another run; counts the reads of a next chunk."""

    def __init__(self) -> None:
        self.logs = CountingStore(MemorySubjectLog())
        self.text = b""
        self._ours, self._others = Writer(self.logs, RUN), Writer(self.logs, new_run_id())

    async def add(self, lines: Sequence[str], *, others: int = 0) -> None:
        for _ in range(others):
            await self._others.write("other")
        await self._ours.write(*lines)
        self.text += "".join(f"{line}\n" for line in lines).encode()

    async def last(self) -> StoredChunk:
        found = await self.logs.last(RUN)
        assert found is not None
        return found

    async def read(self, start: int, stop: int) -> bytes:
        return b"".join([piece async for piece in text_between(self.logs, RUN, start, stop, last=await self.last())])


class CountingStore(LogStore):
    reads = 0

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        self.reads += 1
        return await super().next(run_id, after=after)


async def stored(sizes: list[int], *, others_before: int = 0) -> LogStore:
    """A log of chunks of these sizes, whose lines are their own numbers."""
    written, first = Written(), 1
    for number, size in enumerate(sizes):
        await written.add(numbered(first, first + size - 1), others=others_before if number == 0 else 0)
        first += size
    return written.logs


async def stored_kinds(chunks: list[list[tuple[str | None, Level]]]) -> LogStore:
    """A log of chunks of lines with these tasks and levels, whose texts are their numbers."""
    logs, number = LogStore(MemorySubjectLog()), 0
    writer = Writer(logs, RUN)
    for kinds_of in chunks:
        lines = [LogLine(AT, task, "stdout", level, str(number + n + 1)) for n, (task, level) in enumerate(kinds_of)]
        number += len(lines)
        await writer.write_lines(lines)
    return logs


async def all_pages(logs: LogStore, limit: int, only: LineFilter = LineFilter()) -> list[LogPage]:  # noqa: B008 - frozen
    pages = [await lines_from(logs, RUN, START, limit, only=only)]
    while not pages[-1].at_end:
        pages.append(await lines_from(logs, RUN, pages[-1].following, limit, only=only))
    return pages


def numbers(*pages: LogPage) -> list[int]:
    lines: list[NumberedLine] = [line for page in pages for line in page.lines]
    assert all(str(line.number) == line.line.text for line in lines)
    return [line.number for line in lines]


# --- pages ------------------------------------------------------------------------------------------------------------


@given(chunk_sizes, st.integers(1, 9))
async def test_pages_of_any_size_contain_every_line_once(sizes: list[int], limit: int) -> None:
    logs = await stored(sizes)

    pages = await all_pages(logs, limit)

    assert all(len(page.lines) == limit for page in pages[:-1])
    assert numbers(*pages) == list(range(1, sum(sizes) + 1))
    assert (await lines_from(logs, RUN, pages[-1].following, limit)).lines == []


@given(chunk_sizes, st.integers(1, 100), st.integers(0, 50))
async def test_the_line_number_of_a_position_counts_and_not_its_sequence(
    sizes: list[int], line: int, sequence: int
) -> None:
    line = min(line, sum(sizes) + 1)
    # As after a restore: the chunks are the same, their sequences are not.
    logs = await stored(sizes, others_before=7)

    page = await lines_from(logs, RUN, LogPosition(line, sequence), 1000)

    assert numbers(page) == list(range(line, sum(sizes) + 1))


@given(chunk_sizes, st.integers(1, 30))
async def test_a_tail_is_the_end_of_all_lines(sizes: list[int], count: int) -> None:
    logs = await stored(sizes)

    page = await last_lines(logs, RUN, count)

    assert numbers(page) == list(range(1, sum(sizes) + 1))[-count:]
    assert (await lines_from(logs, RUN, page.following, 10)).lines == []


async def test_a_page_ends_when_it_is_large_and_the_next_one_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_BYTES", 8)

    pages = await all_pages(await stored([3, 3, 3]), 1000)

    assert [numbers(page) for page in pages] == [[1, 2, 3, 4, 5, 6], [7, 8, 9]]


kinds = st.tuples(st.sampled_from([None, "load", "save"]), st.sampled_from(LEVELS))
filters = st.builds(
    LineFilter, task=st.sampled_from([None, "load", "none"]), level=st.one_of(st.none(), st.sampled_from(LEVELS))
)


@given(st.lists(st.lists(kinds, max_size=6), max_size=8), filters, st.integers(1, 5), st.integers(1, 4))
async def test_filtered_lines_are_complete_for_any_page_size_and_bound(
    chunks: list[list[tuple[str | None, Level]]], only: LineFilter, limit: int, bound: int
) -> None:
    every = [kind for chunk in chunks for kind in chunk]
    wanted = [
        number
        for number, (task, level) in enumerate(every, start=1)
        if only.task in (None, task) and (only.level is None or LEVELS.index(level) >= LEVELS.index(only.level))
    ]
    logs = await stored_kinds(chunks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SEARCHED_CHUNKS", bound)
        patch.setattr(module, "QUICK_LINES", bound)  # chunks with more lines are filtered in a thread
        pages, tail = await all_pages(logs, limit, only), numbers(await last_lines(logs, RUN, limit, only=only))

    assert all(len(page.lines) <= limit for page in pages)
    assert numbers(*pages) == wanted
    # A tail covers the end of the log.
    assert tail == wanted[len(wanted) - len(tail) :]


@given(st.lists(st.lists(st.text(st.sampled_from("aBb İß"), max_size=5), max_size=5), max_size=6), st.integers(1, 4))
async def test_a_text_is_found_in_any_case_unless_it_has_an_upper_case_letter(
    chunks: list[list[str]], limit: int
) -> None:
    logs = LogStore(MemorySubjectLog())
    writer = Writer(logs, RUN)
    for chunk in chunks:
        await writer.write(*chunk)
    every = list(enumerate([text for chunk in chunks for text in chunk], start=1))

    async def found(text: str, case_sensitive: bool | None = None) -> list[int]:
        only = line_filter(task=None, level=None, text=text, case_sensitive=case_sensitive)
        return [line.number for page in await all_pages(logs, limit, only) for line in page.lines]

    assert await found("ab") == [number for number, text in every if "ab" in text.lower()]
    assert await found("aB") == [number for number, text in every if "aB" in text]
    assert await found("aB", case_sensitive=False) == await found("ab")
    assert await found("b", case_sensitive=True) == [number for number, text in every if "b" in text]


async def test_a_search_that_finds_nothing_ends_at_its_bound_and_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    calm: tuple[str | None, Level] = ("load", "INFO")
    logs = await stored_kinds([*([calm] for _ in range(10)), [("load", "ERROR")]])
    monkeypatch.setattr(module, "SEARCHED_CHUNKS", 4)

    pages = await all_pages(logs, 100, LineFilter(level="ERROR"))

    assert [len(page.lines) for page in pages] == [0, 0, 1]
    assert (await last_lines(logs, RUN, 1, only=LineFilter(task="none"))).lines == []


@given(chunk_sizes, st.integers(1, 9), st.integers(0, 10))
async def test_a_read_with_an_end_does_not_change_as_the_log_grows(sizes: list[int], limit: int, seen: int) -> None:
    before, grown = await stored(sizes[:seen]), await stored(sizes)
    end = LogEnd(last=await before.last(RUN))

    for read in (partial(lines_from, place=START, limit=limit), partial(last_lines, count=limit)):
        assert await read(before, RUN, end=end) == await read(grown, RUN, end=end)


# --- bytes ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(texts, st.integers(0, 5)), min_size=1, max_size=12), st.data())
async def test_every_range_is_a_slice_of_the_whole_text(
    chunks: list[tuple[list[str], int]], data: st.DataObject
) -> None:
    written = Written()
    for lines, others in chunks:
        await written.add(lines, others=others)
    start = data.draw(st.integers(0, len(written.text)))
    stop = data.draw(st.integers(start, len(written.text)))

    assert await written.read(start, stop) == written.text[start:stop]
    assert await written.read(0, len(written.text)) == written.text


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=40), st.data())
async def test_a_line_and_a_byte_are_found_in_their_chunk(chunks: list[tuple[int, int]], data: st.DataObject) -> None:
    written = Written()
    for count, others in chunks:
        await written.add(["xy"] * count, others=others)
    last = await written.last()
    for extent, first in ((in_lines, 1), (in_bytes, 0)):
        behind = extent(last.chunk)[1]
        if behind == first:
            continue
        wanted = data.draw(st.integers(first, behind - 1))

        found = await chunk_with(written.logs, RUN, wanted, extent, last=last)

        assert found is not None
        assert extent(found.chunk)[0] <= wanted < extent(found.chunk)[1]


@pytest.mark.parametrize("spread", ["even", "a burst at the end", "a burst at the start", "ever larger chunks"])
async def test_a_byte_of_a_long_log_is_found_in_few_reads(spread: str) -> None:
    written, count = Written(), 400
    for number in range(count):
        others = {"a burst at the end": 30 if number < 40 else 0, "a burst at the start": 30 if number > 360 else 0}
        size = number**2 if spread == "ever larger chunks" else 50
        await written.add(["x" * size], others=others.get(spread, 1))
    most = 3 * math.log2(count * 32)

    for share in range(20):
        written.logs.reads = 0
        wanted = len(written.text) * share // 20

        assert await written.read(wanted, wanted + 1) == written.text[wanted : wanted + 1]
        assert written.logs.reads <= most

    written.logs.reads = 0
    assert await written.read(len(written.text) - 10, len(written.text)) == written.text[-10:]
    assert written.logs.reads == 0  # the last chunk is known already


async def test_lines_that_are_written_during_a_read_are_not_read() -> None:
    written = Written()
    for _ in range(3):
        await written.add(["one", "two"])
    whole = written.text
    pieces = text_between(written.logs, RUN, 0, len(whole), last=await written.last())

    read = await anext(pieces)
    await written.add(["three"])

    assert read + b"".join([piece async for piece in pieces]) == whole


async def test_a_log_removed_during_a_read_is_not_read_as_a_shorter_one() -> None:
    written = Written()
    for _ in range(3):
        await written.add(["one", "two"])
    last = await written.last()
    pieces = text_between(written.logs, RUN, 0, len(written.text), last=last)

    await anext(pieces)
    await written.logs.purge(RUN)

    for reading in (pieces, text_between(written.logs, RUN, 0, len(written.text), last=last)):
        with pytest.raises(RunNotFound):
            await anext(reading)


@given(texts)
def test_each_line_of_text_ends_with_a_newline(lines: list[str]) -> None:
    plain = [LogLine(AT, None, "stdout", "INFO", line) for line in lines]

    assert text_of(plain) == "".join(f"{line}\n" for line in lines).encode()
