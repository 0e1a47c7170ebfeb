"""`/dlq`: list and replay dead letters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec.structs import asdict
from pydantic import BaseModel, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_tag
from pyoco_server.errors import DeadLetterNotFound, InvalidRequest, PyocoError
from pyoco_server.http_api.dependencies import CallerDep, DeadLettersDep, StoresDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.fields import Queue, Queued, Strict
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.stores import StoredDeadLetter
from pyoco_server.stores.dead_letters import MAX_TEXT_CHARS

router = APIRouter(prefix="/dlq", tags=["dlq"])

MAX_SEQ_DIGITS = 18


class DeadLetterOut(BaseModel):
    """A failed job. Unknown fields are null."""

    seq: int = Field(description="Its number, for a replay.", examples=[42])
    timestamp: float = Field(description="Unix seconds.", examples=[1767225600.0])
    reason: str = Field(
        description="`invalid_job`, `flow_not_found`, `execution_error`, `max_deliver`.", examples=["execution_error"]
    )
    error: str | None
    run_id: str | None
    flow_name: str | None
    tag: str | None
    tags: list[str] | None
    worker_id: str | None
    num_delivered: int | None
    subject: str | None


class DeadLetterList(BaseModel):
    """One page, newest first; it may be short or even empty. Only the last one has no `next_cursor`."""

    items: list[DeadLetterOut]
    next_cursor: str | None


class LettersQuery(Strict, Queued):
    reason: str | None = Field(default=None, max_length=64, description="Only letters of this reason.")
    tag: str | None = Field(default=None, max_length=128, description="Only jobs with this routing tag.")
    queue: Queue = None
    flow: str | None = Field(default=None, max_length=256, description="Only jobs of this flow.")
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(default=None, max_length=64, description="The `next_cursor` of the page before.")
    error_chars: int | None = Field(
        default=None, ge=1, le=MAX_TEXT_CHARS, description="Only this many characters of each `error`."
    )


class ReplayOf(BaseModel):
    """The dead letter and its run."""

    seq: int
    run_id: str


class Replayed(BaseModel):
    """The new run. Its snapshot has the old one's id as `replay_of`."""

    run_id: str
    status: str = Field(examples=["PENDING"])
    durability: str
    replay_of: ReplayOf


@router.get("", responses=answers(DeadLetterList, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.DLQ_READ)
async def list_dead_letters(
    dead_letters: DeadLettersDep, caller: CallerDep, query: Annotated[LettersQuery, Query()]
) -> Response:
    """The dead letters, newest first; of the runs that the caller may see."""
    refusal = InvalidRequest("cursor: it is not the next_cursor of a page of dead letters")
    found, before = await dead_letters.page(
        query.limit,
        _number(query.cursor, refusal) if query.cursor else None,
        reason=query.reason,
        tag=None if query.routing_tag is None else parse_tag(query.routing_tag),
        flow=query.flow,
        tenant_filter=caller.tenant_filter,
    )
    items = [_letter_out(stored, query.error_chars) for stored in found]
    return json_response({"items": items, "next_cursor": None if before is None else str(before)})


@router.post("/{seq}/replay", responses=answers(Replayed, 404, 409, 413, 422, 503))
@requires_scope(Scope.DLQ_WRITE)
async def replay_dead_letter(
    seq: Annotated[str, Path(description="The letter's number.", examples=["42"])],
    request: Request,
    dead_letters: DeadLettersDep,
    stores: StoresDep,
    caller: CallerDep,
) -> Response:
    """Run the job again: a new run with the same flow, params, tag, labels and YAML. The old run stays as it is."""
    number = _number(seq, DeadLetterNotFound(f"{seq[:40]!r} is not the number of a letter"))
    async with IdempotentRequest(request, of_json(), new_id=stores.ids.run_id) as once:
        if turn := once.attempt:
            again = await dead_letters.replay(
                number, turn, tenant_filter=caller.tenant_filter, api_key_id=caller.api_key_id
            )
            once.response = json_response(
                {
                    "run_id": again.execution_id,
                    "status": "PENDING",
                    "durability": stores.durability,
                    "replay_of": {"seq": number, "run_id": again.request.replay_of},
                }
            )
    return once.answer


def _letter_out(stored: StoredDeadLetter, error_chars: int | None) -> dict[str, Any]:
    letter = stored.letter
    return {"seq": stored.seq, **asdict(letter), "error": letter.error and letter.error[:error_chars]}


def _number(text: str, refusal: PyocoError) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_SEQ_DIGITS and int(text) > 0):
        raise refusal
    return int(text)
