"""Requests with an idempotency key: the work is done once, and its response is stored and replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response

from pyoco_server.domain.idempotency.keys import (
    MAX_KEY_CHARS,
    FormPart,
    IdempotencyKey,
    RecordKey,
    form_digest,
    json_digest,
    parse_key,
    record_key,
)
from pyoco_server.domain.idempotency.record import Answer, Record
from pyoco_server.errors import IdempotencyKeyRequired, InvalidRequest, Kind, NodeNotFound, NotAChoice, PyocoError
from pyoco_server.http_api.protocol.request_parsing import caller_of, context_of, services_of
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.services.idempotency import Asked, IdempotentAttempt, begin, find_earlier

Digest = Callable[[], Awaitable[str]]
F = TypeVar("F", bound=Callable[..., Any])

HEADERS = ("Idempotency-Key", "X-Idempotency-Key")
REPLAYED = "Idempotency-Replayed"
# Stored beside the media type of a response.
KEPT_HEADERS = ("location", "etag")
# Digested within a millisecond; a larger body is digested in a thread.
QUICK_BYTES = 16 * 1024
ANY_KEY = (1, MAX_KEY_CHARS)

_ANEW = "__pyoco_answered_anew__"
_NAMES = frozenset(name.lower().encode() for name in HEADERS)


class IdempotentRequest:
    """Runs the block of a route once per idempotency key:

        async with IdempotentRequest(request, of_json(body)) as once:
            if turn := once.attempt:
                execution = await executions.cancel(…, turn.context)
                once.response = json_response(…)
        return once.answer

    `attempt` is None when an earlier request was answered. `digest` distinguishes requests with the same key. The
    block's rejections are rendered and stored. `new_id` makes the id of a new resource; `replay_status` is the status
    of a replayed success, where it differs.
    """

    def __init__(
        self,
        request: Request,
        digest: Digest,
        *,
        required: bool = False,
        replay_status: int | None = None,
        new_id: Callable[[], str] = str,
        key_chars: tuple[int, int] = ANY_KEY,
    ) -> None:
        self._request = request
        self._digest = digest
        self._key = _key_of(request)
        if required and self._key is None:
            raise IdempotencyKeyRequired(None if key_chars == ANY_KEY else _wanted(key_chars))
        if self._key is not None and not key_chars[0] <= len(self._key) <= key_chars[1]:
            raise InvalidRequest(_wanted(key_chars))
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
        request, context = self._request, context_of(self._request)
        if self._key is None:
            self.attempt = IdempotentAttempt(context, self._new_id())
            return self
        asked = Asked(
            record_key=_record_key(request, self._key),
            key=self._key,
            endpoint=f"{request.method} {_concrete_path(request)}",
            request_hash=await self._digest(),
            context=context,
        )
        begun = await begin(services_of(request).stores, asked, self._new_id)
        if isinstance(begun, Answer):
            self.response = _replayed(begun, self._replay_status)
        else:
            self.attempt = begun
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if self.attempt is None or self._key is None:
            return False
        # A rejection because of the present state is an answer, and stored; a missing resource is none.
        if isinstance(error, NodeNotFound | NotAChoice) or (
            isinstance(error, PyocoError) and error.kind is Kind.CONFLICT
        ):
            self.response = response_for(self._request, error)
        elif error is not None:
            await self.attempt.abandon()
            return False
        answered = await self.attempt.finish(_stored(self.answer))
        if answered.replayed:
            self.response = _replayed(answered.answer, self._replay_status)
        return error is not None


async def earlier_answer(request: Request, digest: Digest) -> Response | Record | None:
    """The stored answer to this request, or the record of its unfinished attempt; None for a new request."""
    key = _key_of(request)
    if key is None:
        raise IdempotencyKeyRequired
    found = await find_earlier(services_of(request).stores, _record_key(request, key), await digest())
    return found if found is None or found.answer is None else _replayed(found.answer, None)


def of_json(body: bytes = b"", *, leave_out: Collection[str] = ()) -> Digest:
    """The digest of an accepted JSON body, or of none; `leave_out` names fields that identify nothing."""

    async def digest() -> str:
        if len(body) <= QUICK_BYTES:
            return _digest_of(body, leave_out)
        return await asyncio.to_thread(_digest_of, body, leave_out)

    return digest


def of_value(value: Any) -> Digest:
    """The digest of a parsed value, whatever its form in the body."""
    return partial(asyncio.to_thread, json_digest, value)


def of_form(parts: Iterable[FormPart]) -> Digest:
    return partial(asyncio.to_thread, form_digest, parts)


def answered_anew(endpoint: F) -> F:
    """The endpoint ignores idempotency keys: it changes nothing, and its response must not be stored."""
    setattr(endpoint, _ANEW, True)
    return endpoint


def is_answered_anew(endpoint: object) -> bool:
    return hasattr(endpoint, _ANEW)


def parameters(*, required: bool = False, key_chars: tuple[int, int] = ANY_KEY) -> list[dict[str, Any]]:
    """Both headers, for the OpenAPI document."""
    about = (
        "Sent again with the same key, the request is answered as before and done once; with the same key and another "
        "body it is a 409. Kept for PYOCO_IDEMPOTENCY_TTL_SEC."
    )
    least, most = key_chars
    schema = {"type": "string", "minLength": least, "maxLength": most, "pattern": "^[!-~]([ -~]*[!-~])?$"}
    other = "The same as Idempotency-Key; of both, if they are given, the value must be the same."
    return [
        {"name": HEADERS[0], "in": "header", "required": required, "description": about, "schema": schema},
        {"name": HEADERS[1], "in": "header", "required": False, "description": other, "schema": schema},
    ]


def _wanted(key_chars: tuple[int, int]) -> str:
    least, most = key_chars
    return f"the header Idempotency-Key needs {least} to {most} characters, for example a ULID or a UUID"


def _digest_of(body: bytes, leave_out: Collection[str]) -> str:
    return json_digest(orjson.loads(body) if body.strip() else None, leave_out=leave_out)


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
