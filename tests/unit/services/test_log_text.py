"""A log as bytes: any range of it, found without walking, and just so many however it grows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.lines import LogChunk, LogLine, chunk_of, text_of
from pyoco_server.errors import RunNotFound
from pyoco_server.ports import Stored
from pyoco_server.services.run_logs.search import chunk_with, in_bytes, in_lines, text_between
from pyoco_server.stores import LogStore, StoredChunk
from pyoco_server.testing.broker import MemorySubjectLog
from support.samples import new_run_id

RUN, OTHER = new_run_id(), new_run_id()
texts = st.lists(st.text(st.sampled_from("a ü漢😀"), max_size=4), max_size=4)


class CountingStore(LogStore):
    """Counts how often somebody asks for the next chunk."""

    reads = 0

    async def next(self, run_id: RunId, *, after: int) -> StoredChunk | None:
        self.reads += 1
        return await super().next(run_id, after=after)


class Written:
    """A log in the making, with chunks of another run between its own."""

    def __init__(self) -> None:
        self.logs = CountingStore(MemorySubjectLog())
        self.text = b""
        self._behind: dict[RunId, tuple[LogChunk, int]] = {}

    async def add(self, lines: Sequence[str], *, others: int = 0) -> None:
        for _ in range(others):
            await self._append(OTHER, ["other"])
        await self._append(RUN, lines)
        self.text += "".join(f"{line}\n" for line in lines).encode()

    async def last(self) -> StoredChunk:
        found = await self.logs.last(RUN)
        assert found is not None
        return found

    async def read(self, start: int, stop: int) -> bytes:
        return b"".join([piece async for piece in text_between(self.logs, RUN, start, stop, last=await self.last())])

    async def _append(self, run_id: RunId, lines: Sequence[str]) -> None:
        behind, sequence = self._behind.get(run_id, (None, 0))
        plain = [LogLine(1.0, None, "stdout", "INFO", line) for line in lines]
        chunk = chunk_of(plain, attempt=1, behind=behind, sequence=sequence)
        stored = await self.logs.append(run_id, chunk, after=sequence)
        assert isinstance(stored, Stored)
        self._behind[run_id] = chunk, stored.version


@given(st.lists(st.tuples(texts, st.integers(0, 5)), min_size=1, max_size=12), st.data())
def test_every_range_is_cut_out_of_the_whole_text(chunks: list[tuple[list[str], int]], data: st.DataObject) -> None:
    async def check() -> None:
        written = Written()
        for lines, others in chunks:
            await written.add(lines, others=others)
        start = data.draw(st.integers(0, len(written.text)))
        stop = data.draw(st.integers(start, len(written.text)))

        assert await written.read(start, stop) == written.text[start:stop]
        assert await written.read(0, len(written.text)) == written.text

    asyncio.run(check())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=40), st.data())
def test_a_line_and_a_byte_are_found_in_the_chunk_that_has_them(
    chunks: list[tuple[int, int]], data: st.DataObject
) -> None:
    async def check() -> None:
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

    asyncio.run(check())


@pytest.mark.parametrize("spread", ["even", "a burst at the end", "a burst at the start", "ever larger chunks"])
async def test_a_byte_of_a_long_log_is_found_in_few_reads(spread: str) -> None:
    written, count = Written(), 400
    for number in range(count):
        others = {"a burst at the end": 30 if number < 40 else 0, "a burst at the start": 30 if number > 360 else 0}
        size = number**2 if spread == "ever larger chunks" else 50
        await written.add(["x" * size], others=others.get(spread, 1))
    last, most = await written.last(), 3 * math.log2(count * 32)

    for share in range(20):
        written.logs.reads = 0
        wanted = len(written.text) * share // 20

        assert await written.read(wanted, wanted + 1) == written.text[wanted : wanted + 1]
        assert written.logs.reads <= most

    written.logs.reads = 0
    assert await written.read(len(written.text) - 10, len(written.text)) == written.text[-10:]
    assert written.logs.reads == 0  # the last chunk is known already
    assert last == await written.last()


async def test_what_is_written_meanwhile_is_not_read() -> None:
    written = Written()
    for _ in range(3):
        await written.add(["one", "two"])
    whole = written.text
    pieces = text_between(written.logs, RUN, 0, len(whole), last=await written.last())

    read = await anext(pieces)
    await written.add(["three"])

    assert read + b"".join([piece async for piece in pieces]) == whole


async def test_a_log_that_is_removed_on_the_way_is_no_shorter_log() -> None:
    written = Written()
    for _ in range(3):
        await written.add(["one", "two"])
    last = await written.last()
    pieces = text_between(written.logs, RUN, 0, len(written.text), last=last)

    await anext(pieces)
    await written.logs.purge(RUN)

    with pytest.raises(RunNotFound):
        await anext(pieces)
    with pytest.raises(RunNotFound):
        await anext(text_between(written.logs, RUN, 0, len(written.text), last=last))


@given(texts)
def test_lines_as_text_each_have_their_newline(lines: list[str]) -> None:
    plain = [LogLine(1.0, None, "stdout", "INFO", line) for line in lines]

    assert text_of(plain) == "".join(f"{line}\n" for line in lines).encode()
