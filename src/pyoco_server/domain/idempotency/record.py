"""The stored record of a request with an idempotency key: its holder, its state and, when finished, its response.

    {"schemaVersion": 1, "idempotencyKey", "endpoint", "requestHash", "holder", "leaseUntil", "commitId", "resourceId",
     "status"?, "mediaType"?, "responsePayload"? | "responsePayloadBase64"?, "headers"?, "emittedEventIds"?}

The last row exists when the request is finished. A body that is UTF-8 is stored as text, any other as base64.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.ids import CommitId

SCHEMA_VERSION = 1
# An expired lease: the next attempt continues at once.
ENDED = 0.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The response, to be repeated unchanged; `event_ids` are the events of the request."""

    status: int
    body: bytes
    media_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    event_ids: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One request and its current holder, which has a lease; each attempt to continue is a new holder.

    `commit_id` and `resource_id` stay the same for all holders, so the work is done once.
    """

    idempotency_key: str
    endpoint: str
    request_hash: str
    holder: str
    lease_until: float
    commit_id: CommitId
    resource_id: str
    answer: Answer | None = None


class _StoredAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    status: int
    media_type: str | None
    response_payload: str | None = None
    response_payload_base64: bytes | None = None
    headers: tuple[tuple[str, str], ...]
    emitted_event_ids: tuple[str, ...]


def to_plain(record: Record) -> dict[str, Any]:
    plain: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION} | msgspec.to_builtins(replace(record, answer=None))
    answer = record.answer
    if answer is None:
        return plain
    try:
        body = {"responsePayload": answer.body.decode()}
    except UnicodeDecodeError:
        body = {"responsePayloadBase64": b64encode(answer.body).decode()}
    rest = {"mediaType": answer.media_type, "headers": answer.headers, "emittedEventIds": answer.event_ids}
    return plain | {"status": answer.status} | body | rest


def from_plain(plain: Any) -> Record | None:
    """The inverse of `to_plain`; None for anything else."""
    try:
        if plain["schemaVersion"] != SCHEMA_VERSION:
            return None
        record = msgspec.convert(plain, Record)
        return replace(record, answer=_answer(msgspec.convert(plain, _StoredAnswer))) if "status" in plain else record
    except (LookupError, TypeError, ValueError):
        return None


def _answer(stored: _StoredAnswer) -> Answer:
    body = stored.response_payload_base64 if stored.response_payload is None else stored.response_payload.encode()
    if body is None:
        raise ValueError("an answer needs a body")
    return Answer(
        status=stored.status,
        body=body,
        media_type=stored.media_type,
        headers=stored.headers,
        event_ids=stored.emitted_event_ids,
    )
