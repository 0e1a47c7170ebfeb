"""What waits of a run's log: everything while there is room; where there was none, one marker and the last lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.run_logs.lines import LogLine, size_of
from pyoco_server.worker.output.log_buffer import LogBuffer

PLENTY = 1_000_000


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(1.0, None, "stdout", "INFO", text) for text in texts]


def texts(found: list[LogLine]) -> list[str]:
    return [line.text for line in found]


def numbered(first: int, count: int) -> list[LogLine]:
    return lines(*(f"line {number:04}" for number in range(first, first + count)))


@given(st.lists(st.lists(st.text(max_size=20), min_size=1, max_size=5), max_size=10), st.integers(1, 200))
def test_while_there_is_room_lines_come_out_as_they_went_in(batches: list[list[str]], size: int) -> None:
    buffer = LogBuffer(PLENTY)
    for batch in batches:
        buffer.add(lines(*batch))

    found: list[LogLine] = []
    while buffer.has_waiting:
        found += buffer.take(size)

    assert texts(found) == [text for batch in batches for text in batch]
    assert buffer.waiting_bytes == 0


def test_a_log_that_is_full_keeps_the_last_lines_for_its_end_behind_one_marker() -> None:
    buffer = LogBuffer(4096)
    for number in range(0, 1000, 10):
        buffer.add(numbered(number, 10))

    before = buffer.take(PLENTY)
    assert not buffer.has_waiting
    buffer.end()
    found = texts(before + buffer.take(PLENTY))

    (marker,) = [text for text in found if text.startswith("[pyoco:")]
    place = found.index(marker)
    assert found[:place] == texts(numbered(0, place))
    assert found[place + 1 :] == texts(numbered(1000 - len(found[place + 1 :]), len(found[place + 1 :])))
    assert f"{1000 - (len(found) - 1)} lines dropped" in marker
    assert "PYOCO_MAX_RUN_LOG_BYTES" in marker
    assert len(found[place + 1 :]) > 50


@given(st.lists(st.lists(st.text(max_size=300), min_size=1, max_size=8), max_size=60), st.integers(1024, 5000))
def test_no_more_is_taken_than_the_limit_allows(batches: list[list[str]], limit: int) -> None:
    buffer = LogBuffer(limit)
    found: list[LogLine] = []
    for batch in batches:
        buffer.add(lines(*batch))
        found += buffer.take(1)
    buffer.end()
    while buffer.has_waiting:
        found += buffer.take(1)

    assert size_of(found) <= limit
    assert sum(text.startswith("[pyoco: ") for text in texts(found)) <= 1


def test_what_an_earlier_attempt_has_written_counts() -> None:
    buffer = LogBuffer(4096)
    buffer.used(4000)

    buffer.add(numbered(0, 200))
    taken_before_the_end = buffer.take(PLENTY)
    buffer.end()

    assert taken_before_the_end == []
    assert texts(buffer.take(PLENTY))[-1] == "line 0199"


def test_lines_without_room_are_dropped_with_a_marker_in_their_place() -> None:
    buffer = LogBuffer(PLENTY, waiting_cap_bytes=1000)
    buffer.add(numbered(0, 50))
    for number in range(50, 9050, 50):
        buffer.add(numbered(number, 50))

    found = texts(buffer.take(PLENTY))
    buffer.add(lines("after"))

    place = next(index for index, text in enumerate(found) if text.startswith("[pyoco:"))
    assert found[:place] == texts(numbered(0, 100))
    assert found[-1] == "line 9049"
    assert "PYOCO_MAX_RUN_LOG_BYTES" not in found[place]
    assert texts(buffer.take(PLENTY)) == ["after"]
