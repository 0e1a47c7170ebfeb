"""Query parameters and response models of job logs."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, RunId
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.lines import Level, LineFilter, Stream
from pyoco_server.domain.run_logs.tokens import START, LogPosition
from pyoco_server.errors import InvalidLogQuery
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.times import rfc3339
from pyoco_server.http_api.responses.negotiation import COMPLETE, DESCRIBED_CONTENT, DESCRIBED_HEADERS, NEXT_TOKEN
from pyoco_server.http_api.responses.problems import job_failures
from pyoco_server.services.run_logs.read import LogQuery
from pyoco_server.services.streaming.chunks import NumberedLine


class PlaceQuery(Strict):
    """A position in a log."""

    since_token: str | None = Field(
        default=None, alias="sinceToken", description="A `nextToken` of this log. Absent: from the start."
    )
    tail: int | None = Field(default=None, ge=1, le=10_000, description="Begin with this many last lines instead.")

    def place(self, run_id: RunId) -> LogPosition:
        """The position to begin at, without a tail."""
        if self.tail is not None and self.since_token is not None:
            raise InvalidLogQuery("tail and sinceToken exclude each other; continue a tail with its nextToken")
        return tokens.decode(self.since_token, run_id) if self.since_token else START


class LinesQuery(PlaceQuery):
    """Filters of lines."""

    task: str | None = Field(
        default=None, min_length=1, max_length=MAX_NODE_ID_CHARS, description="Only lines of this task."
    )
    level: Level | None = Field(default=None, description="Only lines of this level or a more severe one.")

    @property
    def only(self) -> LineFilter:
        return LineFilter(task=self.task, level=self.level)


class LogsQuery(LinesQuery):
    """Filters of lines and the size of a page."""

    limit: int = Field(default=1000, ge=1, le=10_000, description="Most lines of a page.")
    wait_sec: float = Field(
        default=0.0,
        alias="waitSec",
        ge=0,
        le=30,
        allow_inf_nan=False,
        description="How long to wait for lines, or for the end of the job.",
    )

    def asked(self, run_id: RunId) -> LogQuery:
        return LogQuery(
            place=self.place(run_id), limit=self.limit, tail=self.tail, only=self.only, wait_sec=self.wait_sec
        )


class JobLogEntry(Open):
    """One line of a log."""

    timestamp: str = Field(
        description="RFC 3339, UTC, by the clock of the worker.", examples=["2026-02-18T12:00:01.250Z"]
    )
    message: str = Field(examples=["Start analysis."])
    n: int = Field(ge=1)
    task: str | None = Field(description="null when unknown.", examples=["load"])
    level: Level = Field(examples=["INFO"])
    stream: Stream = Field(
        description="`output` was written past Python, by C code or a program; `pyoco` by this server, about the job.",
        examples=["stdout"],
    )
    attempt: int = Field(ge=1)


class JobLogs(Open):
    """Lines in order. `nextToken` continues behind them; `complete`: the job has ended and these are its last lines.

    With `task` or `level` a page may have fewer lines than the limit, even none, before the end: continue with
    `nextToken`.
    """

    entries: list[JobLogEntry]
    next_token: str = Field(alias="nextToken", examples=["3kRb0-Y1WzEsMF0"])
    complete: bool


def entry_out(numbered: NumberedLine) -> dict[str, Any]:
    line = numbered.line
    return {
        "timestamp": rfc3339(line.at),
        "message": line.text,
        "n": numbered.number,
        "task": line.task,
        "level": line.level,
        "stream": line.stream,
        "attempt": numbered.attempt,
    }


def _text(description: str, example: str | None = None) -> dict[str, Any]:
    return {"schema": {"type": "string"}, "description": description} | ({"example": example} if example else {})


_CACHED: dict[str, Any] = {
    "ETag": _text("Strong; changes with every line.", '"gT3qf0Zb1kXw9s2L"'),
    "Cache-Control": _text("Revalidate each time; a 304 is cheap.", "private, no-cache"),
    "Vary": _text("JSON and text share one address.", "Accept"),
}
_RANGES = {
    "Accept-Ranges": _text("With text/plain and without a query only.", "bytes"),
    "Content-Disposition": _text(
        "A file name; with text/plain and without a query only.",
        'attachment; filename="019c709f-1a18-7000-93d3-66effa317ac0.log"',
    ),
}
HEADERS: list[dict[str, Any]] = [
    {"name": name, "in": "header", "required": False, **_text(description, example)}
    for name, description, example in (
        ("If-None-Match", "ETags of the caller's copies, or `*`: 304 when one of them matches.", '"gT3qf0Zb1kXw9s2L"'),
        ("Range", "With text/plain and without a query: a range; several get the whole log.", "bytes=-500"),
        ("If-Range", "The ETag of the log whose range is wanted; any other gets the whole log.", '"gT3qf0Zb1kXw9s2L"'),
    )
]
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": JobLogs,
        "description": (
            "JSON, or with `Accept: text/plain` the lines as written, each with its newline: without a query "
            f"the whole log, else the requested lines. The next position is then in `{NEXT_TOKEN}` and `{COMPLETE}`."
        ),
        "content": DESCRIBED_CONTENT,
        "headers": _CACHED | _RANGES | DESCRIBED_HEADERS,
    },
    206: {
        "description": "The requested range of bytes.",
        "content": DESCRIBED_CONTENT,
        "headers": _CACHED
        | _RANGES
        | DESCRIBED_HEADERS
        | {"Content-Range": _text("Which bytes, of how many.", "bytes 0-499/48213")},
    },
    304: {"description": "The caller's copy is current.", "headers": _CACHED},
    **job_failures(404, 416, 422, 503),
}
ANSWERS[416]["headers"] = {"Content-Range": _text("How many bytes there are.", "bytes */48213")}
