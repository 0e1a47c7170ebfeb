"""The store of run logs."""

from __future__ import annotations

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.codec import encode
from pyoco_server.domain.run_logs.lines import LogChunk, LogLine, chunk_of
from pyoco_server.ports import Conflict, Stored
from pyoco_server.stores import LogStore, StoredChunk
from pyoco_server.stores.run_logs import QUICK_BYTES
from support.samples import new_run_id
from support.stores import Ports


def lines(*texts: str, task: str | None = "load") -> list[LogLine]:
    return [LogLine(1_700_000_000.5 + n / 1000, task, "stdout", "INFO", text) for n, text in enumerate(texts)]


def chunk(*texts: str, attempt: int = 1, behind: StoredChunk | None = None) -> LogChunk:
    return chunk_of(
        lines(*texts),
        attempt=attempt,
        behind=behind.chunk if behind else None,
        sequence=behind.sequence if behind else 0,
    )


async def append(logs: LogStore, run_id: RunId, *texts: str, attempt: int = 1) -> StoredChunk:
    last = await logs.last(run_id)
    new = chunk(*texts, attempt=attempt, behind=last)
    stored = await logs.append(run_id, new, after=last.sequence if last else 0)
    assert isinstance(stored, Stored)
    return StoredChunk(sequence=stored.version, chunk=new)


async def test_a_chunk_is_read_as_it_was_stored(ports: Ports) -> None:
    run_id = new_run_id()
    written = [
        LogLine(1_700_000_000.25, "load", "stdout", "INFO", "größer \U0001f407"),
        LogLine(1_700_000_000.5, "load", "logging", "ERROR", ""),
        LogLine(1_700_000_001.0, None, "output", "INFO", "\x1b[31mred\x00"),
    ]
    new = chunk_of(written, attempt=3, behind=None, sequence=0)

    await ports.run_logs.append(run_id, new, after=0)

    last = await ports.run_logs.last(run_id)
    assert last is not None
    assert (list(last.chunk.lines), last.chunk.attempt) == (written, 3)
    assert (last.chunk.first_line, last.chunk.first_byte, last.chunk.previous) == (1, 0, 0)
    assert last.chunk.size_bytes == len("größer \U0001f407\n\n\x1b[31mred\x00\n".encode())


async def test_a_chunk_of_many_short_lines_is_read_as_it_was_stored(ports: Ports) -> None:
    run_id = new_run_id()
    many = [LogLine(float(number), None, "stdout", "INFO", "") for number in range(50_000)]
    new = chunk_of(many, attempt=1, behind=None, sequence=0)
    assert len(encode(new)) > QUICK_BYTES  # it is decoded in a thread

    stored = await ports.run_logs.append(run_id, new, after=0)

    assert isinstance(stored, Stored)
    for found in (
        await ports.run_logs.last(run_id),
        await ports.run_logs.next(run_id, after=0),
        await ports.run_logs.at(run_id, stored.version),
    ):
        assert found is not None
        assert (found.chunk.next_line, list(found.chunk.lines[-2:])) == (50_001, list(new.lines[-2:]))


async def test_chunks_are_read_in_both_directions_among_those_of_other_runs(ports: Ports) -> None:
    run_id, other_id = new_run_id(), new_run_id()
    stored = []
    for number in range(5):
        stored.append(await append(ports.run_logs, run_id, f"line {number}"))
        await append(ports.run_logs, other_id, "of another run")

    forwards, after = [], 0
    while (found := await ports.run_logs.next(run_id, after=after)) is not None:
        forwards.append(found.sequence)
        after = found.sequence
    backwards, at = [], (await ports.run_logs.last(run_id)) or stored[0]
    backwards.append(at.sequence)
    while at.chunk.previous:
        at = await ports.run_logs.at(run_id, at.chunk.previous) or stored[0]
        backwards.append(at.sequence)

    assert forwards == [one.sequence for one in stored]
    assert backwards == list(reversed(forwards))
    assert [one.chunk.first_line for one in stored] == [1, 2, 3, 4, 5]


async def test_a_chunk_of_another_run_is_not_found_by_its_sequence(ports: Ports) -> None:
    stored = await append(ports.run_logs, new_run_id(), "mine")

    assert await ports.run_logs.at(new_run_id(), stored.sequence) is None


async def test_a_writer_that_missed_a_chunk_gets_a_conflict(ports: Ports) -> None:
    run_id = new_run_id()
    first = await append(ports.run_logs, run_id, "of the first attempt")
    await append(ports.run_logs, run_id, "of the second", attempt=2)

    late = await ports.run_logs.append(run_id, chunk("of a zombie", behind=first), after=first.sequence)

    assert late == Conflict()
    assert (
        await ports.run_logs.append(run_id, chunk("from the start"), after=0) != Conflict()
    )  # its own first chunk, again
    assert await ports.run_logs.append(run_id, chunk("from the start", attempt=2), after=0) == Conflict()


async def test_a_repeated_chunk_is_found_and_not_stored_twice(ports: Ports) -> None:
    run_id = new_run_id()
    first = await append(ports.run_logs, run_id, "one")
    second = chunk("two", behind=first)

    answers = [await ports.run_logs.append(run_id, second, after=first.sequence) for _ in range(2)]

    assert isinstance(answers[0], Stored)
    assert answers[1] == Stored(version=answers[0].version, found=True)
    assert await ports.run_logs.next(run_id, after=answers[0].version) is None


async def test_a_chunk_may_be_empty(ports: Ports) -> None:
    run_id = new_run_id()
    await append(ports.run_logs, run_id, "one")
    await append(ports.run_logs, run_id, attempt=2)

    last = await append(ports.run_logs, run_id, "two", attempt=2)

    assert (last.chunk.first_line, last.chunk.first_byte) == (2, 4)
