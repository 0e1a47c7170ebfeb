"""Output of Python's streams in a runner, decoded as by its supervisor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.trace import TaskStarted, TaskSucceeded
from pyoco_server.worker.output.capture import CapturedStream, OutputCapture
from pyoco_server.worker.output.tagged_lines import OutputDecoder


class Captured:
    """A capture that writes to a file instead of a pipe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.capture = OutputCapture(self.descriptor)
        self.stdout = CapturedStream(self.capture, self.descriptor, "stdout")
        self.capture._streams = [self.stdout]

    def lines(self) -> list[LogLine]:
        reading = OutputDecoder(lambda: 0.0)
        reading.begin_run()
        return [*reading.feed(self._file.read_bytes()), *reading.finish()]

    def texts(self) -> list[str]:
        return [line.text for line in self.lines()]


@pytest.fixture
def captured(tmp_path: Path) -> Iterator[Captured]:
    made = Captured(tmp_path / "pipe")
    yield made
    os.close(made.descriptor)


def test_a_line_is_delivered_before_the_write_returns(captured: Captured) -> None:
    captured.stdout.write("one\ntw")

    assert captured.texts() == ["one"]
    captured.stdout.write("o\n")
    assert captured.texts() == ["one", "two"]


def test_flushed_text_is_delivered_and_its_line_continues(captured: Captured) -> None:
    captured.stdout.write("load")
    captured.stdout.flush()

    assert captured.texts() == ["load"]
    captured.stdout.write("ing\n")
    assert captured.texts() == ["loading"]


@pytest.mark.parametrize("flush_every", [1, 7, 10**9])
def test_an_endless_line_is_delivered_in_parts(captured: Captured, flush_every: int) -> None:
    for number in range(20_000):
        captured.stdout.write("·")
        if number % flush_every == 0:
            captured.stdout.flush()
    captured.stdout.write("x" * 100_000)
    captured.stdout.finish()

    found = captured.texts()
    assert "".join(found) == "·" * 20_000 + "x" * 100_000
    assert not [text for text in found if "\x1e" in text or "\ufffd" in text]


@pytest.mark.parametrize("length", [4_000, 9_000, 70_000, 200_000])
def test_a_long_line_is_not_followed_by_an_empty_one(captured: Captured, length: int) -> None:
    print("x" * length, file=captured.stdout)
    print("y" * length, file=captured.stdout, flush=True)
    captured.stdout.write("z" * length)
    captured.stdout.flush()
    captured.stdout.write("\nnext\n\nlast\n")

    found = captured.texts()

    assert "".join(found) == "x" * length + "y" * length + "z" * length + "nextlast"
    assert found[-3:] == ["next", "", "last"]
    assert found.count("") == 1


def test_lines_belong_to_the_task_of_their_thread_or_to_the_only_running_task(captured: Captured) -> None:
    def in_thread(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    captured.stdout.write("before\n")
    captured.capture.note(TaskStarted(at=1.0, node="load", nth=1))
    in_thread(lambda: captured.stdout.write("helper of load\n"))
    captured.stdout.write("load itself, unfinished")
    in_thread(lambda: captured.capture.note(TaskStarted(at=1.0, node="save", nth=1)))
    in_thread(lambda: captured.stdout.write("helper thread\n"))
    captured.capture.note(TaskSucceeded(at=2.0, node="load", nth=1, output=None))
    captured.stdout.write("between\n")

    assert [(line.text, line.task) for line in captured.lines()] == [
        ("before", None),
        ("helper of load", "load"),
        ("helper thread", None),
        ("load itself, unfinished", "load"),
        ("between", "save"),
    ]


def test_a_stream_refuses_the_same_values_as_a_text_stream(captured: Captured) -> None:
    with pytest.raises(TypeError):
        captured.stdout.write(b"bytes")  # type: ignore[arg-type]
    captured.stdout.close()
    with pytest.raises(ValueError, match="closed"):
        captured.stdout.write("late")


def test_unencodable_characters_are_escaped(captured: Captured) -> None:
    captured.stdout.write("half \ud800 a character\n")

    assert captured.texts() == ["half \\ud800 a character"]


@pytest.mark.parametrize("binary", [False, True], ids=["print", "buffer"])
def test_a_child_that_makes_stdout_non_blocking_does_not_break_the_streams(binary: bool) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as libuv does with inherited descriptors
    stdout = CapturedStream(OutputCapture(writer), writer, "stdout")
    text = "x" * 999 + "\n"
    received: list[bytes] = []

    def drain() -> None:
        while data := os.read(reader, 65536):
            received.append(data)

    for _ in range(60):  # nearly fills the pipe before the first read
        stdout.write(text)
    draining = threading.Thread(target=drain)
    threading.Timer(0.05, draining.start).start()
    for _ in range(2_000):
        _ = stdout.buffer.write(text.encode()) if binary else stdout.write(text)
    stdout.flush()
    os.close(writer)
    draining.join()
    os.close(reader)

    assert b"".join(received).count(b"x" * 999) == 2_060
