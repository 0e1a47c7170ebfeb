"""Requests with an idempotency key: the work is done once, and its answer is stored and replayed."""

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
from pyoco_server.services.idempotency import Asked, IdempotentAttempt, Unfinished, begin, find_earlier

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


class IdempotentRequest:
    """Runs the block of a route once per idempotency key:

        async with IdempotentRequest(request, of_json(body)) as once:
            if once.attempt is not None:
                execution = await executions.submit(…, once.attempt.context)
                once.response = json_response(…)
        return once.answer

    `attempt` is None when an earlier request was answered. `digest` distinguishes requests with the same key. Its
    rejections are rendered and stored. `new_id` makes the id of a new resource (default: of a run);
    `replay_status` is the status of a stored success, where it differs.
    """

    def __init__(
        self,
        request: Request,
        digest: Digest,
        *,
        required: bool = False,
        replay_status: int | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request = request
        self._digest = digest
        self._required = required
        self._replay_status = replay_status
        self._new_id = new_id
        self.attempt: IdempotentAttempt | None = None
        self.response: Response | None = None

    @property
    def answer(self) -> Response:
        """The response of the block, or the stored one."""
        if self.response is None:
            raise RuntimeError("the block has set no response")
        return self.response

    async def __aenter__(self) -> IdempotentRequest:
        request, key = self._request, _key_of(self._request)
        stores = services_of(request).stores
        new_id = self._new_id or stores.ids.run_id
        if key is None:
            if self._required:
                raise IdempotencyKeyRequired
            self.attempt = IdempotentAttempt(context_of(request), new_id())
            return self
        asked = Asked(
            record_key=_record_key(request, key),
            key=key,
            endpoint=f"{request.method} {_concrete_path(request)}",
            request_hash=await self._digest(),
            context=context_of(request),
        )
        begun = await begin(stores, asked, new_id)
        if isinstance(begun, Answer):
            self.response = _replayed(begun, self._replay_status)
        else:
            self.attempt = begun
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if self.attempt is None or _key_of(self._request) is None:
            return False
        is_stored = isinstance(error, PyocoError) and _is_answer(error)
        if isinstance(error, PyocoError) and is_stored:
            self.response = response_for(self._request, error)
        elif error is not None:
            await self.attempt.abandon()
            return False
        answered = await self.attempt.finish(_stored(self.answer))
        if answered.replayed:
            self.response = _replayed(answered.answer, self._replay_status)
        return is_stored


async def run_once(request: Request, digest: Digest, work: Work, **options: Any) -> Response:
    """The response of a function, called once per key; see `IdempotentRequest`."""
    async with IdempotentRequest(request, digest, **options) as once:
        if once.attempt is not None:
            once.response = await work(once.attempt)
    return once.answer


async def earlier_answer(request: Request, digest: Digest) -> Response | Unfinished | None:
    """The stored answer to this request, or its unfinished attempt; None for a new one. See `find_earlier`."""
    key = _key_of(request)
    if key is None:
        raise IdempotencyKeyRequired
    found = await find_earlier(services_of(request).stores, _record_key(request, key), await digest())
    return _replayed(found, None) if isinstance(found, Answer) else found


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


def _is_answer(rejection: PyocoError) -> bool:
    """A rejection because of the present state is an answer, and stored; a missing resource is none."""
    return rejection.kind is Kind.CONFLICT or isinstance(rejection, NodeNotFound)


def _stored(response: Response) -> Answer:
    return Answer(
        status=response.status_code,
        body=bytes(response.body),
        media_type=response.headers.get("content-type"),
        headers=tuple((name, response.headers[name]) for name in KEPT_HEADERS if name in response.headers),
    )


def _replayed(answer: Answer, replay_status: int | None) -> Response:
    headers = dict(answer.headers) | {REPLAYED: "true"}
    if answer.media_type is not None:
        headers["content-type"] = answer.media_type
    is_success = answer.status < 400
    status = replay_status if replay_status is not None and is_success else answer.status
    return Response(answer.body, status_code=status, headers=headers)
