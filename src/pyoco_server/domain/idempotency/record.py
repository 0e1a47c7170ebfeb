"""The stored record of a request with an idempotency key: its holder, its state and, when finished, its response.

    {"schemaVersion": 1, "idempotencyKey", "endpoint", "requestHash", "holder", "leaseUntil", "commitId", "resourceId",
     "status"?, "mediaType"?, "responsePayload"? | "responsePayloadBase64"?, "headers"?, "emittedEventIds"?}

The last row exists when the request is finished. A body that is UTF-8 is stored as text, any other as base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.ids import CommitId

SCHEMA_VERSION = 1
# An expired lease: the next attempt continues at once.
ENDED = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response, to be repeated unchanged; `event_ids` are the events of the request."""

    status: int
    body: bytes
    media_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    event_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
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


def to_plain(record: Record) -> dict[str, Any]:
    """The record as JSON values."""
    plain: dict[str, Any] = {
        "schemaVersion": SCHEMA_VERSION,
        "idempotencyKey": record.idempotency_key,
        "endpoint": record.endpoint,
        "requestHash": record.request_hash,
        "holder": record.holder,
        "leaseUntil": record.lease_until,
        "commitId": record.commit_id,
        "resourceId": record.resource_id,
    }
    return plain if record.answer is None else plain | _answer_to_plain(record.answer)


def from_plain(plain: Any) -> Record | None:
    """The inverse of `to_plain`; None for anything else."""
    try:
        return _record(plain) if plain["schemaVersion"] == SCHEMA_VERSION else None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _record(plain: Mapping[str, Any]) -> Record:
    return Record(
        idempotency_key=_text(plain["idempotencyKey"]),
        endpoint=_text(plain["endpoint"]),
        request_hash=_text(plain["requestHash"]),
        holder=_text(plain["holder"]),
        lease_until=float(plain["leaseUntil"]),
        commit_id=CommitId(_text(plain["commitId"])),
        resource_id=_text(plain["resourceId"]),
        answer=_answer(plain) if "status" in plain else None,
    )


def _answer_to_plain(answer: Answer) -> dict[str, Any]:
    try:
        body = {"responsePayload": answer.body.decode()}
    except UnicodeDecodeError:
        body = {"responsePayloadBase64": base64.b64encode(answer.body).decode()}
    return {
        "status": answer.status,
        "mediaType": answer.media_type,
        **body,
        "headers": [list(pair) for pair in answer.headers],
        "emittedEventIds": list(answer.event_ids),
    }


def _answer(plain: Mapping[str, Any]) -> Answer:
    media_type = plain["mediaType"]
    return Answer(
        status=int(plain["status"]),
        body=_body(plain),
        media_type=None if media_type is None else _text(media_type),
        headers=tuple((_text(name), _text(value)) for name, value in plain["headers"]),
        event_ids=tuple(_text(event_id) for event_id in plain["emittedEventIds"]),
    )


def _body(plain: Mapping[str, Any]) -> bytes:
    if "responsePayload" in plain:
        return _text(plain["responsePayload"]).encode()
    try:
        return base64.b64decode(_text(plain["responsePayloadBase64"]), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
