"""What a runner writes, as lines: nothing lost while there is room, and a marker where there was none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.worker.output_lines import BACKLOG_CAP_BYTES, LAST_LINES, LINE_CAP_BYTES, OutputLines


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n")), max_size=8), st.integers(1, 7))
def test_lines_survive_any_split_of_their_bytes(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    output = OutputLines()

    for start in range(0, len(data), size):
        output.feed(data[start : start + size])

    assert output.take(1000) == lines
    assert not output.waiting


def test_a_last_line_without_newline_comes_when_the_run_ends() -> None:
    output = OutputLines()
    output.feed(b"one\ntwo")

    assert output.take(10) == ["one"]
    output.finish()

    assert output.take(10) == ["two"]


def test_lines_beyond_the_backlog_are_dropped_and_counted() -> None:
    output = OutputLines()
    line = b"x" * 1023 + b"\n"
    fitting = BACKLOG_CAP_BYTES // 1023

    for _ in range(fitting + 10):
        output.feed(line)
    taken = output.take(fitting + 100)
    output.feed(b"after\n")

    assert len(taken) == fitting + 1
    assert taken[-1] == "[pyoco: 10 lines dropped]"
    assert output.take(10) == ["after"]


def test_the_last_lines_are_remembered_even_when_dropped() -> None:
    output = OutputLines()
    output.feed(b"x" * 1023 + b"\n")
    for _ in range(BACKLOG_CAP_BYTES // 1023):
        output.feed(b"x" * 1023 + b"\n")

    output.feed(b"why I died\n")

    assert output.last_lines[-1] == "why I died"
    assert len(output.last_lines) == LAST_LINES


def test_a_line_without_end_is_cut_into_lines() -> None:
    output = OutputLines()

    output.feed(b"y" * (2 * LINE_CAP_BYTES + 1))

    assert output.take(10) == ["y" * LINE_CAP_BYTES] * 2


def test_bytes_that_are_not_text_do_not_stop_the_lines() -> None:
    output = OutputLines()

    output.feed(b"\xff\xfe\nfine\n")

    assert output.take(10) == ["��", "fine"]
