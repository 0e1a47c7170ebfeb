"""What the streams of a job say, as bytes: server-sent events, and frames of a WebSocket. Pure.

An event's id is a place in the log: the number of the line to read next, and the sequence of the last chunk that was
read to its end. Both are the log's own, so an id is good at every gateway and after every restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import PyocoError
from pyoco_server.http_api.api.jobs.log_schemas import entry_out
from pyoco_server.http_api.api.jobs.translate import job_out
from pyoco_server.http_api.responses import streams
from pyoco_server.services.streaming.log_parts import LineBatch
from pyoco_server.services.streaming.watch_channel import View

_ID = re.compile(r"(?P<line>[1-9][0-9]{0,15})\.(?P<sequence>0|[1-9][0-9]{0,15})(?P<end>\.end)?", re.ASCII)


class Heard(NamedTuple):
    """What a reader has: all before a place, and perhaps (`end`) that it was all."""

    place: LogPosition
    end: bool


def heard(event_id: str | None) -> Heard | None:
    """What somebody has who was told the event with this id; None for what is no id of ours, as if none was given."""
    found = _ID.fullmatch(event_id or "")
    if found is None:
        return None
    return Heard(LogPosition(int(found["line"]), int(found["sequence"])), found["end"] is not None)


def log_events(stretch: LineBatch) -> bytes:
    """Lines as events; made once for all who are told the same ones."""
    return stretch.once("events", _log_events)


def place_event(place: LogPosition) -> bytes:
    """An id without an event: a reader notes it, and is told nothing."""
    return b"id: %b\n\n" % _event_id(place).encode()


def end_event(status: str, place: LogPosition) -> bytes:
    """The last event: the job is over, and these were all of its lines."""
    return streams.event("end", orjson.dumps({"status": status}), f"{_event_id(place)}.end")


def log_frame(stretches: Sequence[LineBatch], run_id: RunId) -> str:
    """Lines as one frame; each stretch is made into text once for all who are told it."""
    entries = ",".join([stretch.once("entries", _entries) for stretch in stretches])
    token = tokens.encode(stretches[-1].part.following, run_id)
    return f'{{"type":"log","entries":[{entries}],"nextToken":"{token}"}}'


def status_frame(view: View) -> str:
    """The job as it was seen; made once for all who watch it."""
    return view.once("jobs.status", _status_frame).decode()


def error_frame(error: PyocoError) -> str:
    return frame("error", code=error.code, detail=error.detail, hint=error.hint)


def frame(kind: str, **facts: Any) -> str:
    """One frame as it is sent."""
    return _encoded(kind, facts).decode()


def _entries(stretch: LineBatch) -> str:
    return orjson.dumps([entry_out(line) for line in stretch.lines])[1:-1].decode()


def _encoded(kind: str, facts: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, **facts})


def _status_frame(view: View) -> bytes:
    return _encoded("status", {"job": job_out(view.plain, parameters=False)})


def _log_events(stretch: LineBatch) -> bytes:
    part = stretch.part
    return b"".join(
        streams.event("logEntry", orjson.dumps(entry_out(line)), _event_id(part.behind(line.number)))
        for line in stretch.lines
    )


def _event_id(place: LogPosition) -> str:
    return f"{place.line}.{place.sequence}"
