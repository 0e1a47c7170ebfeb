"""Requests that carry an idempotency key: read it, have the work done once, answer with what came of it.

A route validates and authorises as ever, then hands its work over:

    return await run_once(request, of_json(body), work)

where `work(turn)` does it and returns the response. Without a key the work is simply done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response

from pyoco_server.domain.idempotency.keys import (
    FormPart,
    IdempotencyKey,
    RecordKey,
    form_digest,
    json_digest,
    parse_key,
    record_key,
)
from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.errors import (
    IdempotencyKeyRequired,
    InvalidRequest,
    Kind,
    NodeNotFound,
    PyocoError,
)
from pyoco_server.http_api.dependencies import context_of, services_of
from pyoco_server.http_api.middleware.authentication import caller_of
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.services.idempotency import Answered, Asked, IdempotentAttempt, Unfinished, find_earlier, once

Digest = Callable[[], Awaitable[str]]
Work = Callable[[IdempotentAttempt], Awaitable[Response]]
F = TypeVar("F", bound=Callable[..., Any])

HEADERS = ("Idempotency-Key", "X-Idempotency-Key")
REPLAYED = "Idempotency-Replayed"
# What an answer needs beside its type to be the same answer again.
KEPT_HEADERS = ("location", "etag")
# A body of this size is digested within a millisecond; what takes longer must not keep all others waiting.
QUICK_BYTES = 16 * 1024

_ANEW = "__pyoco_answered_anew__"
_NAMES = frozenset(name.lower().encode() for name in HEADERS)


async def run_once(
    request: Request,
    digest: Digest,
    work: Work,
    *,
    required: bool = False,
    replay_status: int | None = None,
    resource_id: Callable[[], str] | None = None,
) -> Response:
    """The response of the work, done once per key. `digest` tells this request from others with the same key.

    `resource_id` makes the id for a new resource (a run's, unless told otherwise); `replay_status` is the status of a
    success that is told again, where that is another one. A refusal that the work raises is rendered and kept.
    """
    key = _key_of(request)
    stores = services_of(request).stores
    new_id = resource_id or stores.ids.run_id
    if key is None:
        if required:
            raise IdempotencyKeyRequired
        return await work(IdempotentAttempt(context_of(request), new_id()))
    asked = Asked(
        record_key=_record_key(request, key),
        key=key,
        endpoint=f"{request.method} {_concrete_path(request)}",
        request_hash=await digest(),
        context=context_of(request),
    )
    made: Response | None = None

    async def answer(turn: IdempotentAttempt) -> Answer:
        nonlocal made
        made = await _response_of(request, work, turn)
        return _kept(made)

    answered = await once(stores, asked, new_id, answer)
    return _told(answered, replay_status) if made is None or answered.replayed else made


async def earlier_answer(request: Request, digest: Digest) -> Response | Unfinished | None:
    """The stored answer to this request, or its unfinished attempt; None for a new one. See `find_earlier`."""
    key = _key_of(request)
    if key is None:
        raise IdempotencyKeyRequired
    found = await find_earlier(services_of(request).stores, _record_key(request, key), await digest())
    return _told(Answered(answer=found, replayed=True), None) if isinstance(found, Answer) else found


async def was_asked_before(request: Request) -> bool:
    """Whether there is a record of a request with the same key: then only the whole of this one tells what it is."""
    key = _key_of(request)
    return key is not None and await services_of(request).stores.idempotency.get(_record_key(request, key)) is not None


def of_json(body: bytes = b"", *, leave_out: Collection[str] = ()) -> Digest:
    """The digest of a JSON body that was accepted, or of none."""
    return partial(_json_digest, body, leave_out)


def of_value(value: Any) -> Digest:
    """The digest of a value that was read already, from a body in whatever form."""

    async def aside() -> str:
        return await asyncio.to_thread(json_digest, value)

    return aside


def of_form(parts: Iterable[FormPart]) -> Digest:
    """The digest of a form."""
    return partial(_form_digest, parts)


def no_id() -> str:
    """For work that makes nothing new."""
    return ""


def answered_anew(endpoint: F) -> F:
    """The endpoint has no use for a key: it changes nothing, and what it gives out must not be kept."""
    setattr(endpoint, _ANEW, True)
    return endpoint


def is_answered_anew(endpoint: object) -> bool:
    return hasattr(endpoint, _ANEW)


def parameters(*, required: bool = False) -> list[dict[str, Any]]:
    """Both headers, for the OpenAPI document."""
    about = (
        "Sent again with the same key, the request is answered as before and done once; with the same key and another "
        "body it is a 409. Kept for PYOCO_IDEMPOTENCY_TTL_SEC."
    )
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"}
    other = "The same as Idempotency-Key; of both, if they are given, the value must be the same."
    return [
        {"name": HEADERS[0], "in": "header", "required": required, "description": about, "schema": schema},
        {"name": HEADERS[1], "in": "header", "required": False, "description": other, "schema": schema},
    ]


async def _json_digest(body: bytes, leave_out: Collection[str]) -> str:
    if len(body) <= QUICK_BYTES:
        return _digest_of(body, leave_out)
    return await asyncio.to_thread(_digest_of, body, leave_out)


def _digest_of(body: bytes, leave_out: Collection[str]) -> str:
    return json_digest(orjson.loads(body) if body.strip() else None, leave_out=leave_out)


async def _form_digest(parts: Iterable[FormPart]) -> str:
    return form_digest(parts)


def _key_of(request: Request) -> IdempotencyKey | None:
    given = [value for name, value in request.scope["headers"] if name in _NAMES]
    if not given:
        return None
    if len(set(given)) > 1:
        raise InvalidRequest("more than one idempotency key is given, and they are not the same")
    return parse_key(given[0].decode("latin-1"))


def _record_key(request: Request, key: IdempotencyKey) -> RecordKey:
    tenant_id = caller_of(request).tenant_id
    return record_key(tenant_id=tenant_id, method=request.method, path=_concrete_path(request), key=key)


def _concrete_path(request: Request) -> str:
    path: str = request.scope["path"]
    query: bytes = request.scope["query_string"]
    return f"{path}?{query.decode('latin-1')}" if query else path


async def _response_of(request: Request, work: Work, turn: IdempotentAttempt) -> Response:
    try:
        return await work(turn)
    except PyocoError as refusal:
        # What is refused because of the state of things is an answer, and kept; what is not there at all is none.
        if refusal.kind is not Kind.CONFLICT and not isinstance(refusal, NodeNotFound):
            raise
        return response_for(request, refusal)


def _kept(response: Response) -> Answer:
    return Answer(
        status=response.status_code,
        body=bytes(response.body),
        media_type=response.headers.get("content-type"),
        headers=tuple((name, response.headers[name]) for name in KEPT_HEADERS if name in response.headers),
    )


def _told(answered: Answered, replay_status: int | None) -> Response:
    answer = answered.answer
    headers = dict(answer.headers) | {REPLAYED: "true"}
    if answer.media_type is not None:
        headers["content-type"] = answer.media_type
    is_success = answer.status < 400
    status = replay_status if replay_status is not None and is_success else answer.status
    return Response(answer.body, status_code=status, headers=headers)
