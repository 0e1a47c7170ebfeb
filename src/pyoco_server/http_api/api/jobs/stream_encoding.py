"""Encodes the streams of a job as server-sent events and WebSocket frames. Pure.

The id of an event is a position in the log: the number of the next line and the sequence of the last chunk read
completely. Both belong to the log, so an id is valid at every gateway and after every restart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.api.jobs.log_schemas import entry_out
from pyoco_server.http_api.api.jobs.translate import job_out
from pyoco_server.http_api.responses import streams
from pyoco_server.services.streaming.chunks import LineBatch
from pyoco_server.services.streaming.topics import View

_ID = re.compile(r"(?P<line>[1-9][0-9]{0,15})\.(?P<sequence>0|[1-9][0-9]{0,15})(?P<end>\.end)?", re.ASCII)


class ResumePoint(NamedTuple):
    """What a reader has: everything before a position, and perhaps (`end`) the end event."""

    place: LogPosition
    end: bool


def resume_point(event_id: str | None) -> ResumePoint | None:
    """The resume point of a Last-Event-ID; None for anything else."""
    found = _ID.fullmatch(event_id or "")
    if found is None:
        return None
    return ResumePoint(LogPosition(int(found["line"]), int(found["sequence"])), found["end"] is not None)


def log_events(batch: LineBatch) -> bytes:
    """Lines as events, encoded once for all readers."""
    return batch.once("events", _log_events)


def place_event(place: LogPosition) -> bytes:
    """An id without an event: moves the resume point of a reader."""
    return b"id: %b\n\n" % _event_id(place).encode()


def end_event(status: str, place: LogPosition) -> bytes:
    """The last event: the job has ended and all lines were sent."""
    return streams.event("end", orjson.dumps({"status": status}), f"{_event_id(place)}.end")


def log_frame(batches: Sequence[LineBatch], run_id: RunId) -> str:
    """Lines as one frame; each batch is encoded once for all readers."""
    entries = ",".join([batch.once("entries", _entries) for batch in batches])
    token = tokens.encode(batches[-1].part.following, run_id)
    return f'{{"type":"log","entries":[{entries}],"nextToken":"{token}"}}'


def status_frame(view: View) -> str:
    """The state of the job, encoded once for all readers."""
    return view.encoded("jobs.status", lambda: frame("status", job=job_out(view.plain, parameters=False)))


def error_frame(error: PyocoError) -> str:
    return frame("error", code=error.code, detail=error.detail, hint=error.hint)


def frame(kind: str, **facts: Any) -> str:
    return orjson.dumps({"type": kind, **facts}).decode()


def _entries(batch: LineBatch) -> str:
    return orjson.dumps([entry_out(line) for line in batch.lines])[1:-1].decode()


def _log_events(batch: LineBatch) -> bytes:
    part = batch.part
    return b"".join(
        streams.event("logEntry", orjson.dumps(entry_out(line)), _event_id(part.behind(line.number)))
        for line in batch.lines
    )


def _event_id(place: LogPosition) -> str:
    return f"{place.line}.{place.sequence}"
