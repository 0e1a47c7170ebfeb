"""Decoding of a runner's output into lines: tagged or plain, for any split of the bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.worker.output.tagged_lines import (
    FIRST_TASK,
    LAST_LINES,
    LINE_CAP_BYTES,
    PIPE_BUF,
    TEXT_CAP_BYTES,
    OutputDecoder,
    sole_task_mark,
    split_writes,
    tag_lines,
    task_name,
)

NOW = 1_700_000_000.0
AT_US = 1_700_000_001_500_000
anything = st.text(st.characters(codec="utf-8"), max_size=40)
single_lines = st.text(st.characters(codec="utf-8", exclude_characters="\n\x1e"), max_size=40)


def reading() -> OutputDecoder:
    lines = OutputDecoder(lambda: NOW)
    lines.begin_run()
    return lines


def from_python(text: str, task: str = "load", **how: Any) -> bytes:
    options: dict[str, Any] = {"stream": "stdout", "level": "INFO", "continues": False, "ends": True} | how
    return tag_lines(text, at_us=AT_US, task=task_name(task), **options)


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


@given(st.lists(single_lines, max_size=8), st.integers(1, 7))
def test_lines_survive_any_split_of_their_bytes(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    output = reading()

    found = [line for start in range(0, len(data), size) for line in output.feed(data[start : start + size])]

    assert texts(found) == lines


@given(st.lists(st.tuples(single_lines, st.booleans()), max_size=8), st.integers(1, 50))
def test_tagged_and_plain_lines_stay_separate_and_in_order(lines: list[tuple[str, bool]], size: int) -> None:
    data = b"".join(from_python(text) if is_tagged else f"{text}\n".encode() for text, is_tagged in lines)
    output = reading()

    found = [line for start in range(0, len(data), size) for line in output.feed(data[start : start + size])]

    assert [(line.text, line.stream) for line in found] == [
        (text, "stdout" if is_tagged else "output") for text, is_tagged in lines
    ]


@given(anything)
def test_any_printed_text_gives_its_lines(text: str) -> None:
    found = reading().feed(from_python(text))

    assert texts(found) == text.replace("\x1e", "\u241e").split("\n")
    assert {(line.at, line.task, line.stream, line.level) for line in found} == {
        (AT_US / 1e6, "load", "stdout", "INFO")
    }


@given(st.binary(max_size=200), st.integers(1, 7))
def test_arbitrary_bytes_are_decoded_without_an_error(data: bytes, size: int) -> None:
    output = reading()

    for start in range(0, len(data), size):
        output.feed(data[start : start + size])
    output.finish()

    assert texts(output.feed(b"after\n")) == ["after"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\x1e"), min_size=2000, max_size=20_000))
def test_a_long_line_is_split_into_atomic_writes(text: str) -> None:
    data = from_python(text * 2)

    pieces = split_writes(data)

    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= PIPE_BUF
    assert all(piece.startswith(b"\x1e") for piece in pieces)
    assert "".join(texts(reading().feed(data))) == text * 2


def test_a_line_longer_than_the_cap_becomes_several() -> None:
    text = "x" + "é" * TEXT_CAP_BYTES

    found = reading().feed(from_python(text))

    assert len(found) == 3
    assert "".join(texts(found)) == text


def test_a_line_that_was_flushed_before_its_end_is_one_line() -> None:
    data = from_python("load", ends=False) + from_python("ing", ends=False, continues=True)
    data += from_python("…\nnext", continues=True)

    assert texts(reading().feed(data)) == ["loading…", "next"]


def test_the_empty_rest_of_an_interrupted_line_is_no_line() -> None:
    data = from_python("one", ends=False) + from_python("other", task="save") + from_python("", continues=True)

    assert texts(reading().feed(data)) == ["one", "other"]


def test_a_plain_line_without_newline_ends_where_a_tagged_one_begins() -> None:
    found = reading().feed(b"from a program" + from_python("from python"))

    assert [(line.text, line.stream) for line in found] == [("from a program", "output"), ("from python", "stdout")]


def test_plain_lines_belong_to_the_first_task_until_a_mark() -> None:
    found = reading().feed(
        b"one\n"
        + sole_task_mark(task_name("save"))
        + b"two\n"
        + sole_task_mark(b"")
        + b"three"
        + sole_task_mark(b"x")
        + b"four\n"
    )

    assert [(line.text, line.task, line.at) for line in found] == [
        ("one", FIRST_TASK, NOW),
        ("two", "save", NOW),
        ("three", None, NOW),
        ("four", "x", NOW),
    ]


def test_a_last_line_without_newline_is_delivered_at_the_end_of_the_run() -> None:
    output = reading()

    assert texts(output.feed(b"one\ntwo")) == ["one"]
    assert texts(output.finish()) == ["two"]


def test_the_traceback_is_not_among_the_last_lines() -> None:
    output = reading()

    output.feed(from_python("what I did") + from_python("Traceback", stream="pyoco", level="ERROR"))

    assert output.last_lines == ("what I did",)


def test_the_last_lines_are_kept_until_the_next_run() -> None:
    output = reading()
    output.feed(b"".join(from_python(f"line {n}") for n in range(60)))
    output.feed(b"why I died")
    output.finish()

    remembered = output.last_lines
    output.begin_run()

    assert remembered == (*(f"line {n}" for n in range(61 - LAST_LINES, 60)), "why I died")
    assert output.last_lines == ()


def test_an_endless_line_is_split_into_lines() -> None:
    assert texts(reading().feed(b"y" * (2 * LINE_CAP_BYTES + 1))) == ["y" * LINE_CAP_BYTES] * 2


def test_bytes_that_are_not_text_do_not_stop_the_decoder() -> None:
    assert texts(reading().feed(b"\xff\xfe\nfine\n")) == ["��", "fine"]
