"""`GET /runs/{run_id}/explain`: why a run is not running, or why it ended as it did, in words to act on."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.domain.queries.explain_texts import render_reason
from pyoco_server.http_api.api.runs.routes import RunIdPath
from pyoco_server.http_api.api.runs.schemas import RunStatus
from pyoco_server.http_api.dependencies import CallerDep, ExplanationsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses.problems import answers, preferred_language
from pyoco_server.services.projections.explain import Explanation

router = APIRouter(prefix="/runs", tags=["runs"])


class ReasonOut(BaseModel):
    """One reason: a code for programs, words for people, and the facts they were made of."""

    code: str = Field(examples=["no_worker_for_tag"])
    message: str = Field(examples=["No worker serves the tag gpu."])
    hint: str = Field(examples=["Start one: pyoco-worker --tags gpu …"])
    facts: dict[str, Any]


class QueueOut(BaseModel):
    """The queue of the run's tag: jobs never handed out, handed out, and handed out more than once."""

    tag: str
    waiting_sec: float | None
    ahead: int | None = Field(description="Runs of the tag that wait longer.")
    ahead_is_a_minimum: bool
    waiting: int
    in_work: int
    redelivered: int


class HolderOut(BaseModel):
    """The worker that has or had the run; `state` is null when that life of it is not known any more."""

    worker_id: str
    instance_id: str | None
    attempt: int
    alive: bool
    state: str | None
    silent_sec: float | None
    last_seen_at: float | None


class ServedTag(BaseModel):
    """A tag that is served now."""

    tag: str
    workers: int
    slots: int
    slots_busy: int


class ExplanationOut(BaseModel):
    """Why; the most telling reason first. More fields, facts and codes may be added at any time."""

    model_config = ConfigDict(extra="allow")

    run_id: str
    status: RunStatus
    summary: str
    reasons: list[ReasonOut]
    queue: QueueOut | None
    worker: HolderOut | None
    served_tags: list[ServedTag]
    dead_letter: dict[str, Any] | None


@router.get("/{run_id}/explain", responses=answers(ExplanationOut, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_explanation(
    run_id: RunIdPath, request: Request, explanations: ExplanationsDep, caller: CallerDep
) -> Response:
    """Why the run is not running, or ended so; in English, or in Japanese by `Accept-Language`."""
    explanation = await explanations.explain(parse_run_id(run_id), tenant_filter=caller.tenant_filter)
    return Response(_told(explanation, preferred_language(request)), media_type="application/json")


def _told(explanation: Explanation, language: str) -> bytes:
    reasons = []
    for reason in explanation.reasons:
        message, hint = render_reason(reason, language)
        facts = {name: _rounded(value) for name, value in reason.facts.items()}
        reasons.append({"code": reason.code, "message": message, "hint": hint, "facts": facts})
    return orjson.dumps(
        {
            "run_id": explanation.run_id,
            "status": explanation.status,
            "summary": reasons[0]["message"],
            "reasons": reasons,
            "queue": explanation.queue,
            "worker": explanation.worker,
            "served_tags": explanation.served_tags,
            "dead_letter": explanation.dead_letter,
        }
    )


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value
