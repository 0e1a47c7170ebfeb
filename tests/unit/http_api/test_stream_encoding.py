"""What the streams of a job say: event ids that stand for places, and bytes that no reader takes for something else."""

from __future__ import annotations

import orjson
import pytest

from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.lines import ALL_LINES, LogLine, chunk_of
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import RunNotFound
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.stream_encoding import ResumePoint
from pyoco_server.services.streaming.chunks import CutChunk, LineBatch
from pyoco_server.stores import StoredChunk
from support.samples import new_run_id


def stretch_of(*texts: str, after: int = 7, sequence: int = 9, first: int = 1) -> LineBatch:
    lines = [LogLine(1_700_000_000.25, None, "stdout", "INFO", text) for text in texts]
    chunk = chunk_of(lines, attempt=2, behind=None, sequence=after)
    return LineBatch(CutChunk(StoredChunk(sequence=sequence, chunk=chunk), after).part_at(first), first, ALL_LINES)


def test_each_line_is_an_event_whose_id_is_the_place_behind_it() -> None:
    first, second = stream_encoding.log_events(stretch_of("one", "two")).decode().rstrip().split("\n\n")

    assert first == (
        'id: 2.7\nevent: logEntry\ndata: {"timestamp":"2023-11-14T22:13:20.250Z","message":"one","n":1,"task":null,'
        '"level":"INFO","stream":"stdout","attempt":2}'
    )
    assert second.startswith("id: 3.9\n")
    assert stream_encoding.resume_point("2.7") == ResumePoint(LogPosition(2, 7), end=False)


def test_whoever_goes_on_in_the_middle_is_told_the_rest_with_the_same_ids() -> None:
    whole, rest = (
        stream_encoding.log_events(stretch_of("one", "two")),
        stream_encoding.log_events(stretch_of("one", "two", first=2)),
    )

    assert whole.endswith(rest)
    assert rest.startswith(b"id: 3.9\n")


def test_what_some_readers_take_for_a_line_break_is_escaped() -> None:
    text = "a\u2028b\u2029c\x85d\re\nf"

    told = stream_encoding.log_events(stretch_of(text)).decode()

    assert len(told.splitlines()) == 4
    assert orjson.loads(told.splitlines()[2].removeprefix("data: "))["message"] == text


def test_the_end_has_an_id_of_its_own() -> None:
    assert (
        stream_encoding.end_event("failed", LogPosition(3, 9))
        == b'id: 3.9.end\nevent: end\ndata: {"status":"failed"}\n\n'
    )
    assert stream_encoding.resume_point("3.9.end") == ResumePoint(LogPosition(3, 9), end=True)


@pytest.mark.parametrize("text", [None, "", "1", "0.1", "01.1", "1.01", "-1.1", "1.1.end.end", "1" * 17 + ".1", "²."])
def test_what_is_no_id_of_ours_is_none(text: str | None) -> None:
    assert stream_encoding.resume_point(text) is None


def test_lines_as_a_frame_come_with_the_token_behind_them() -> None:
    run_id = new_run_id()

    frame = orjson.loads(stream_encoding.log_frame([stretch_of("zero"), stretch_of("one", "two")], run_id))

    assert frame["type"] == "log"
    assert [entry["message"] for entry in frame["entries"]] == ["zero", "one", "two"]
    assert tokens.decode(frame["nextToken"], run_id) == LogPosition(3, 9)


def test_an_error_is_a_frame_with_a_code_and_a_hint() -> None:
    frame = orjson.loads(stream_encoding.error_frame(RunNotFound(run_id="r-1")))

    assert frame == {"type": "error", "code": RunNotFound.code, "detail": frame["detail"], "hint": RunNotFound.hint}
