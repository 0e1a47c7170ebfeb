"""`GET /runs/{run_id}/logs`: the log of a run, as JSON or as plain text, from a token on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.lines import Level, Stream, text_of
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
from pyoco_server.services.run_logs.read import LogQuery

router = APIRouter(prefix="/runs", tags=["runs"])


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
    """Lines in order. `next_token` continues behind them; `complete`: the run is over and these are its last lines."""

    run_id: str
    items: list[LogEntry]
    next_token: str
    complete: bool


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
    since_token: Annotated[
        str | None, Query(description="The `next_token` of an earlier response. Absent: from the start.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most lines of a page.")] = 1000,
    tail: Annotated[int | None, Query(ge=1, le=10_000, description="Begin with this many last lines instead.")] = None,
    wait_sec: Annotated[
        float,
        Query(ge=0, le=30, allow_inf_nan=False, description="How long to wait for lines, or for the end of the run."),
    ] = 0.0,
) -> Response:
    """The log of a run over all its attempts. A token stays valid while it grows."""
    parsed = parse_run_id(run_id)
    if tail is not None and since_token is not None:
        raise InvalidLogQuery("tail and since_token exclude each other; continue a tail with its next_token")
    place = tokens.START if not since_token else tokens.decode(since_token, parsed)
    query = LogQuery(place=place, limit=limit, tail=tail, wait_sec=wait_sec)
    end = await logs.end(parsed, tenant_filter=caller.tenant_filter)
    page, _ = await logs.page(parsed, query, end, caller=caller, holder=holder)
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
    return json_response({"run_id": parsed, "items": items, "next_token": token, "complete": page.complete})
