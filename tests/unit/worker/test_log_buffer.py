"""The buffer of a run's log: all lines up to its limit, then one marker and the last lines."""

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
def test_lines_within_the_limit_are_unchanged(batches: list[list[str]], size: int) -> None:
    buffer = LogBuffer(PLENTY)
    for batch in batches:
        buffer.add(lines(*batch))

    found: list[LogLine] = []
    while buffer.has_waiting:
        found += buffer.take(size)

    assert texts(found) == [text for batch in batches for text in batch]
    assert buffer.waiting_bytes == 0


def test_a_full_log_has_one_marker_and_the_last_lines() -> None:
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
def test_the_buffer_never_exceeds_its_limit(batches: list[list[str]], limit: int) -> None:
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


def test_lines_of_earlier_attempts_count_towards_the_limit() -> None:
    buffer = LogBuffer(4096)
    buffer.used(4000)

    buffer.add(numbered(0, 200))
    taken_before_the_end = buffer.take(PLENTY)
    buffer.end()

    assert taken_before_the_end == []
    assert texts(buffer.take(PLENTY))[-1] == "line 0199"


def test_lines_beyond_the_buffer_are_replaced_by_a_marker() -> None:
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
