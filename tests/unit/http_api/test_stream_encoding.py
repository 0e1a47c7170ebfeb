"""Encoding of job streams: event ids that are positions, and unambiguous line breaks."""

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


def batch_of(*texts: str, after: int = 7, sequence: int = 9, first: int = 1) -> LineBatch:
    lines = [LogLine(1_700_000_000.25, None, "stdout", "INFO", text) for text in texts]
    chunk = chunk_of(lines, attempt=2, behind=None, sequence=after)
    return LineBatch(CutChunk(StoredChunk(sequence=sequence, chunk=chunk), after).part_at(first), first, ALL_LINES)


def test_each_line_is_an_event_whose_id_is_the_position_after_it() -> None:
    first, second = stream_encoding.log_events(batch_of("one", "two")).decode().rstrip().split("\n\n")

    assert first == (
        'id: 2.7\nevent: logEntry\ndata: {"timestamp":"2023-11-14T22:13:20.250Z","message":"one","n":1,"task":null,'
        '"level":"INFO","stream":"stdout","attempt":2}'
    )
    assert second.startswith("id: 3.9\n")
    assert stream_encoding.resume_point("2.7") == ResumePoint(LogPosition(2, 7), end=False)


def test_a_resumed_stream_has_the_remaining_lines_with_the_same_ids() -> None:
    whole, rest = (
        stream_encoding.log_events(batch_of("one", "two")),
        stream_encoding.log_events(batch_of("one", "two", first=2)),
    )

    assert whole.endswith(rest)
    assert rest.startswith(b"id: 3.9\n")


def test_unicode_line_separators_are_escaped() -> None:
    text = "a\u2028b\u2029c\x85d\re\nf"

    encoded = stream_encoding.log_events(batch_of(text)).decode()

    assert len(encoded.splitlines()) == 4
    assert orjson.loads(encoded.splitlines()[2].removeprefix("data: "))["message"] == text


def test_the_end_has_its_own_id() -> None:
    assert (
        stream_encoding.end_event("failed", LogPosition(3, 9))
        == b'id: 3.9.end\nevent: end\ndata: {"status":"failed"}\n\n'
    )
    assert stream_encoding.resume_point("3.9.end") == ResumePoint(LogPosition(3, 9), end=True)


@pytest.mark.parametrize("text", [None, "", "1", "0.1", "01.1", "1.01", "-1.1", "1.1.end.end", "1" * 17 + ".1", "²."])
def test_an_invalid_event_id_is_none(text: str | None) -> None:
    assert stream_encoding.resume_point(text) is None


def test_a_frame_of_lines_has_the_token_after_them() -> None:
    run_id = new_run_id()

    frame = orjson.loads(stream_encoding.log_frame([batch_of("zero"), batch_of("one", "two")], run_id))

    assert frame["type"] == "log"
    assert [entry["message"] for entry in frame["entries"]] == ["zero", "one", "two"]
    assert tokens.decode(frame["nextToken"], run_id) == LogPosition(3, 9)


def test_an_error_is_a_frame_with_a_code_and_a_hint() -> None:
    frame = orjson.loads(stream_encoding.error_frame(RunNotFound(run_id="r-1")))

    assert frame == {"type": "error", "code": RunNotFound.code, "detail": frame["detail"], "hint": RunNotFound.hint}
