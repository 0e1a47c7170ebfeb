"""What Python's streams write in a runner, read as its supervisor reads it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.trace import NodeBegan, NodeSucceeded
from pyoco_server.worker.output_lines import OutputLines
from pyoco_server.worker.runner_voice import Voice, VoiceStream


class Desk:
    """A voice that writes to a file instead of a pipe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.voice = Voice(self.descriptor)
        self.stdout = VoiceStream(self.voice, self.descriptor, "stdout")
        self.voice._streams = [self.stdout]

    def lines(self) -> list[LogLine]:
        reading = OutputLines(lambda: 0.0)
        reading.begin_run()
        return [*reading.feed(self._file.read_bytes()), *reading.finish()]

    def texts(self) -> list[str]:
        return [line.text for line in self.lines()]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "pipe")
    yield made
    os.close(made.descriptor)


def test_a_line_is_out_before_the_write_returns(desk: Desk) -> None:
    desk.stdout.write("one\ntw")

    assert desk.texts() == ["one"]
    desk.stdout.write("o\n")
    assert desk.texts() == ["one", "two"]


def test_what_is_flushed_is_out_and_its_line_goes_on(desk: Desk) -> None:
    desk.stdout.write("load")
    desk.stdout.flush()

    assert desk.texts() == ["load"]
    desk.stdout.write("ing\n")
    assert desk.texts() == ["loading"]


@pytest.mark.parametrize("flush_every", [1, 7, 10**9])
def test_somebody_who_never_ends_a_line_is_heard_all_the_same(desk: Desk, flush_every: int) -> None:
    for number in range(20_000):
        desk.stdout.write("·")
        if number % flush_every == 0:
            desk.stdout.flush()
    desk.stdout.write("x" * 100_000)
    desk.stdout.finish()

    found = desk.texts()
    assert "".join(found) == "·" * 20_000 + "x" * 100_000
    assert not [text for text in found if "\x1e" in text or "\ufffd" in text]


@pytest.mark.parametrize("length", [4_000, 9_000, 70_000, 200_000])
def test_a_long_line_has_no_empty_one_behind_it(desk: Desk, length: int) -> None:
    print("x" * length, file=desk.stdout)
    print("y" * length, file=desk.stdout, flush=True)
    desk.stdout.write("z" * length)
    desk.stdout.flush()
    desk.stdout.write("\nnext\n\nlast\n")

    found = desk.texts()

    assert "".join(found) == "x" * length + "y" * length + "z" * length + "nextlast"
    assert found[-3:] == ["next", "", "last"]
    assert found.count("") == 1


def test_lines_belong_to_the_task_of_their_thread_and_else_to_the_one_that_runs_alone(desk: Desk) -> None:
    def in_thread(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    desk.stdout.write("before\n")
    desk.voice.note(NodeBegan(at=1.0, node="load", nth=1))
    in_thread(lambda: desk.stdout.write("helper of load\n"))
    desk.stdout.write("load itself, unfinished")
    in_thread(lambda: desk.voice.note(NodeBegan(at=1.0, node="save", nth=1)))
    in_thread(lambda: desk.stdout.write("helper of somebody\n"))
    desk.voice.note(NodeSucceeded(at=2.0, node="load", nth=1, output=None))
    desk.stdout.write("between\n")

    assert [(line.text, line.task) for line in desk.lines()] == [
        ("before", None),
        ("helper of load", "load"),
        ("helper of somebody", None),
        ("load itself, unfinished", "load"),
        ("between", "save"),
    ]


def test_a_stream_refuses_what_any_other_refuses(desk: Desk) -> None:
    with pytest.raises(TypeError):
        desk.stdout.write(b"bytes")  # type: ignore[arg-type]
    desk.stdout.close()
    with pytest.raises(ValueError, match="closed"):
        desk.stdout.write("late")


def test_what_cannot_be_encoded_is_written_as_an_escape(desk: Desk) -> None:
    desk.stdout.write("half \ud800 a character\n")

    assert desk.texts() == ["half \\ud800 a character"]
