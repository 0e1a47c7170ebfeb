"""`GET /jobs/{id}/logs`: the log of a job, as JSON or as plain text; by token, by range, or conditional."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.domain.run_logs import tokens
from pyoco_server.domain.run_logs.lines import text_of
from pyoco_server.errors import InvalidLogQuery
from pyoco_server.http_api.api.jobs.log_schemas import ANSWERS, HEADERS, LogsQuery, entry_out
from pyoco_server.http_api.api.jobs.routes import JobIdPath
from pyoco_server.http_api.dependencies import CallerDep, HolderDep, RunLogsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol import conditional
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import MEDIA_TYPE, text_headers, wants_text
from pyoco_server.http_api.responses.streams import Download
from pyoco_server.services.run_logs.read import LogEnd, LogPage, LogQuery, RunLogService
from pyoco_server.services.run_logs.search import text_between

router = APIRouter(prefix="/jobs", tags=["jobs"])

# A new number when the same log is encoded differently: it invalidates cached responses.
FORM = 1
# Encoding more lines takes more than a few milliseconds and is done in a thread.
QUICK_LINES = 1000
CACHED = {"Cache-Control": "private, no-cache", "Vary": "Accept"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The headers of a request."""

    is_head: bool
    as_text: bool
    if_none_match: str | None
    range: str | None
    if_range: str | None

    @classmethod
    def by(cls, request: Request) -> _Asked:
        def said(name: str) -> str | None:
            # RFC 9110: a repeated header is one list.
            return ", ".join(request.headers.getlist(name)) if name in request.headers else None

        is_head = request.method == "HEAD"
        return cls(
            is_head=is_head,
            as_text=wants_text(request.headers.get("accept", "")),
            if_none_match=said("if-none-match"),
            range=None if is_head else said("range"),
            if_range=said("if-range"),
        )

    def has(self, tag: str) -> bool:
        return conditional.is_known(self.if_none_match, tag)


@router.head("/{id}/logs", response_class=Response, include_in_schema=False, dependencies=[given_once(InvalidLogQuery)])
@router.get(
    "/{id}/logs",
    response_class=Response,
    responses=ANSWERS,
    openapi_extra={"parameters": HEADERS},
    dependencies=[given_once(InvalidLogQuery)],
)
@requires_scope(Scope.RUNS_READ)
async def get_job_logs(
    job_id: JobIdPath,
    request: Request,
    logs: RunLogsDep,
    caller: CallerDep,
    holder: HolderDep,
    query: Annotated[LogsQuery, Query()],
) -> Response:
    """The log of a job over all its attempts. Tokens and ranges stay valid while it grows."""
    run_id, asked = parse_run_id(job_id), _Asked.by(request)
    wanted = query.asked(run_id)
    is_whole = asked.as_text and not request.query_params
    if asked.as_text and not is_whole and conditional.is_range(asked.range):
        raise InvalidLogQuery("Range counts the bytes of the whole log: leave out the query, or the Range")
    end = await logs.end(run_id, tenant_filter=caller.tenant_filter)
    if is_whole:
        return await _whole(logs, run_id, end, asked)
    if not wanted.wait_sec and asked.has(tag := _tag(run_id, wanted, end, asked)):
        return _not_modified(tag)
    # Ten thousand lines take some megabytes: a few such pages at a time, except for requests that wait. With a filter
    # the page itself takes turns.
    is_large = wanted.only.takes_all and max(wanted.limit, wanted.tail or 0) > QUICK_LINES and not wanted.wait_sec
    async with logs.heavy if is_large else nullcontext():
        page, end = await logs.page(run_id, wanted, end, caller=caller, holder=holder)
        if asked.has(tag := _tag(run_id, wanted, end, asked)):
            return _not_modified(tag)
        if len(page.lines) <= QUICK_LINES:
            return _lines(page, run_id, tag, asked)
        return await asyncio.to_thread(_lines, page, run_id, tag, asked)


def _tag(run_id: RunId, query: LogQuery, end: LogEnd, asked: _Asked) -> str:
    """The end of the log and the query determine the response."""
    which = (*query.place, query.limit, query.tail, query.only.task, query.only.level)
    return conditional.strong_tag(FORM, run_id, asked.as_text, *which, *end.place, end.size_bytes, end.is_over)


async def _whole(logs: RunLogService, run_id: RunId, end: LogEnd, asked: _Asked) -> Response:
    # Lines are only appended, so the length of a log determines its bytes.
    size, tag = end.size_bytes, conditional.strong_tag(FORM, run_id, "whole", end.size_bytes)
    if asked.has(tag):
        return _not_modified(tag)
    wished = asked.range if conditional.may_be_partial(asked.if_range, tag) else None
    part = conditional.choose_range(wished, size)
    span = part or conditional.Span(0, size)
    headers = text_headers(run_id, end.place, complete=end.is_over) | {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(span.stop - span.start),
        "Accept-Ranges": conditional.UNIT,
        "Content-Disposition": f'attachment; filename="{run_id}.log"',
        **_cached(tag),
    }
    if part is not None:
        headers["Content-Range"] = part.content_range(size)
    if asked.is_head or end.last is None:
        return Response(headers=headers)
    pieces = text_between(logs.executions.stores.run_logs, run_id, *span, last=end.last)
    return await Download.begun(pieces, headers, 200 if part is None else 206)


def _lines(page: LogPage, run_id: RunId, tag: str, asked: _Asked) -> Response:
    headers = _cached(tag)
    if asked.as_text:
        headers |= text_headers(run_id, page.following, complete=page.complete) | {"Content-Type": MEDIA_TYPE}
        return Response(text_of([line for _, _, line in page.lines]), headers=headers)
    body = {
        "entries": [entry_out(line) for line in page.lines],
        "nextToken": tokens.encode(page.following, run_id),
        "complete": page.complete,
    }
    return json_response(body, headers=headers)


def _not_modified(tag: str) -> Response:
    return Response(status_code=304, headers=_cached(tag))


def _cached(tag: str) -> dict[str, str]:
    return {"ETag": tag, **CACHED}
