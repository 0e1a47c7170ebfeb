"""`GET /runs/{run_id}/logs` and `/logs/matches`: the lines of a run, and the numbers of those that a search finds."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, RunId, parse_run_id
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.lines import Level, Stream, line_filter, text_of
from pyoco_server.errors import InvalidLogQuery
from pyoco_server.http_api.api.runs.routes import RunIdPath
from pyoco_server.http_api.dependencies import CallerDep, HolderDep, RunLogsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.fields import Open
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import (
    COMPLETE,
    DESCRIBED_CONTENT,
    DESCRIBED_HEADERS,
    NEXT_TOKEN,
    text_headers,
    wants_text,
)
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.run_logs.read import LogPage, LogQuery

router = APIRouter(prefix="/runs", tags=["runs"])

SinceToken = Annotated[
    str | None, Query(description="The `next_token` of an earlier response. Absent: from the start.")
]
FromLine = Annotated[int | None, Query(ge=1, le=2**53, description="Begin with this line, counted from 1, instead.")]
Text = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="Only lines with this text. A text without an upper-case letter is found in any case.",
    ),
]
CaseSensitive = Annotated[
    bool | None, Query(description="Whether the case of `q` counts. Absent: if it has an upper-case letter.")
]
Task = Annotated[str | None, Query(min_length=1, max_length=MAX_NODE_ID_CHARS, description="Only lines of this task.")]
AtLeast = Annotated[Level | None, Query(description="Only lines of this level or a more severe one.")]


class LogEntry(Open):
    """One line of a log."""

    n: int = Field(ge=1)
    ts: float = Field(description="Unix seconds, by the clock of the worker.")
    task: str | None = Field(description="null when unknown.")
    level: Level
    stream: Stream = Field(
        description="`output` was written past Python, by C code or a program; `pyoco` by this server, about the run."
    )
    message: str
    attempt: int = Field(ge=1)


class RunLogs(Open):
    """Lines in order. `next_token` continues behind them; `complete`: the run is over and these are its last lines.

    With `q`, `task` or `level` a page may have fewer lines than the limit, even none, before the end: continue with
    `next_token`.
    """

    run_id: str
    items: list[LogEntry]
    next_token: str
    complete: bool
    scanned_to: int = Field(ge=0, description="The number of the last line that was looked at.")
    lines: int = Field(ge=0, description="How many lines are stored.")
    bytes: int = Field(ge=0, description="Their size as text in bytes.")


class LogMatches(Open):
    """Numbers of lines in order, of a bounded part of the log.

    Continue with `next_token` until `complete`, or, while the run is not over, until `scanned_to` reaches `lines`.
    """

    run_id: str
    numbers: list[int] = Field(description="`from_line` of the log begins with such a line.")
    next_token: str
    complete: bool
    scanned_to: int = Field(ge=0, description="The number of the last line that was searched.")
    lines: int = Field(ge=0, description="How many lines are stored.")


ANSWERS: dict[int | str, dict[str, Any]] = answers(RunLogs, 404, 422, 503)
ANSWERS[200] |= {
    "description": (
        "JSON, or with `Accept: text/plain` the lines as written, each with its newline; the next position is then in "
        f"`{NEXT_TOKEN}` and `{COMPLETE}`."
    ),
    "content": DESCRIBED_CONTENT,
    "headers": DESCRIBED_HEADERS,
}


@router.get("/{run_id}/logs", response_class=Response, responses=ANSWERS, dependencies=[given_once(InvalidLogQuery)])
@requires_scope(Scope.RUNS_READ)
async def get_run_logs(
    run_id: RunIdPath,
    request: Request,
    logs: RunLogsDep,
    caller: CallerDep,
    holder: HolderDep,
    since_token: SinceToken = None,
    from_line: FromLine = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most lines of a page.")] = 1000,
    tail: Annotated[int | None, Query(ge=1, le=10_000, description="Begin with this many last lines instead.")] = None,
    wait_sec: Annotated[
        float,
        Query(ge=0, le=30, allow_inf_nan=False, description="How long to wait for lines, or for the end of the run."),
    ] = 0.0,
    q: Text = None,
    case_sensitive: CaseSensitive = None,
    task: Task = None,
    level: AtLeast = None,
) -> Response:
    """The log of a run over all its attempts. A token stays valid while it grows."""
    parsed = parse_run_id(run_id)
    if tail is not None and since_token is not None:
        raise InvalidLogQuery("tail and since_token exclude each other; continue a tail with its next_token")
    if tail is not None and from_line is not None:
        raise InvalidLogQuery("tail and from_line exclude each other")
    only = line_filter(task=task, level=level, text=q, case_sensitive=case_sensitive)
    place = _place(parsed, since_token, from_line)
    query = LogQuery(place=place, limit=limit, tail=tail, only=only, wait_sec=wait_sec)
    end = await logs.end(parsed, tenant_filter=caller.tenant_filter)
    page, end = await logs.page(parsed, query, end, caller=caller, holder=holder)
    if wants_text(request.headers.get("accept", "")):
        headers = text_headers(parsed, page.following, complete=page.complete)
        return Response(text_of([line for _, _, line in page.lines]), media_type="text/plain", headers=headers)
    items = [
        {
            "n": number,
            "ts": line.at,
            "task": line.task,
            "level": line.level,
            "stream": line.stream,
            "message": line.text,
            "attempt": attempt,
        }
        for number, attempt, line in page.lines
    ]
    token = tokens.encode(page.following, parsed)
    return json_response(
        {
            "run_id": parsed,
            "items": items,
            "next_token": token,
            "complete": page.complete,
            "scanned_to": _scanned_to(page, end.lines),
            "lines": end.lines,
            "bytes": end.size_bytes,
        }
    )


@router.get(
    "/{run_id}/logs/matches",
    response_class=Response,
    responses=answers(LogMatches, 404, 422, 503),
    dependencies=[given_once(InvalidLogQuery)],
)
@requires_scope(Scope.RUNS_READ)
async def search_run_log(
    run_id: RunIdPath,
    logs: RunLogsDep,
    caller: CallerDep,
    q: Text = None,
    case_sensitive: CaseSensitive = None,
    task: Task = None,
    level: AtLeast = None,
    since_token: SinceToken = None,
    from_line: FromLine = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="Most numbers of a response.")] = 10_000,
) -> Response:
    """The numbers of the lines that match, without the lines. Each request searches about 4 MiB of the log."""
    parsed = parse_run_id(run_id)
    only = line_filter(task=task, level=level, text=q, case_sensitive=case_sensitive)
    query = LogQuery(place=_place(parsed, since_token, from_line), limit=limit, only=only)
    end = await logs.end(parsed, tenant_filter=caller.tenant_filter)
    if only.takes_all:
        raise InvalidLogQuery("a search needs q, task or level")
    page, end = await logs.page(parsed, query, end, caller=caller)
    return json_response(
        {
            "run_id": parsed,
            "numbers": [number for number, _, _ in page.lines],
            "next_token": tokens.encode(page.following, parsed),
            "complete": page.complete,
            "scanned_to": _scanned_to(page, end.lines),
            "lines": end.lines,
        }
    )


def _place(run_id: RunId, since_token: str | None, from_line: int | None) -> tokens.LogPosition:
    if since_token and from_line is not None:
        raise InvalidLogQuery("since_token and from_line exclude each other")
    if from_line is not None:
        return tokens.LogPosition(from_line)
    return tokens.decode(since_token, run_id) if since_token else tokens.START


def _scanned_to(page: LogPage, lines: int) -> int:
    return min(page.following.line - 1, lines)
