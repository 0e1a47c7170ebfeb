"""`GET /runs/{run_id}/explain`: why a run is not running, or why it ended as it did, in words to act on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.domain.queries.explain import Reason, ServedTag
from pyoco_server.domain.queries.explain_texts import render_reason
from pyoco_server.http_api.api.runs.routes import RunIdPath
from pyoco_server.http_api.api.runs.schemas import RunStatus
from pyoco_server.http_api.dependencies import CallerDep, ExplanationsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses.problems import answers, preferred_language
from pyoco_server.services.projections.explain import RunHolder, RunQueue

router = APIRouter(prefix="/runs", tags=["runs"])


class ReasonOut(BaseModel):
    """One reason: a code for programs, words for people, and the facts they were made of."""

    code: str = Field(examples=["no_worker_for_tag"])
    message: str = Field(examples=["No worker serves the tag gpu."])
    hint: str = Field(examples=["Start one: pyoco-worker --tags gpu …"])
    facts: dict[str, Any]


class ExplanationOut(BaseModel):
    """Why; the most telling reason first. More fields, facts and codes may be added at any time."""

    model_config = ConfigDict(extra="allow")

    run_id: str
    status: RunStatus
    summary: str
    reasons: list[ReasonOut]
    queue: RunQueue | None
    worker: RunHolder | None
    served_tags: list[ServedTag]
    dead_letter: dict[str, Any] | None


@router.get("/{run_id}/explain", responses=answers(ExplanationOut, 404, 422, 503))
@requires_scope(Scope.RUNS_READ)
async def get_explanation(
    run_id: RunIdPath, request: Request, explanations: ExplanationsDep, caller: CallerDep
) -> Response:
    """Why the run is not running, or ended so; in English, or in Japanese by `Accept-Language`."""
    explanation = await explanations.explain(parse_run_id(run_id), tenant_filter=caller.tenant_filter)
    reasons = [_reason_out(reason, preferred_language(request)) for reason in explanation.reasons]
    body = asdict(explanation) | {"summary": reasons[0]["message"], "reasons": reasons}
    return Response(orjson.dumps(body), media_type="application/json")


def _reason_out(reason: Reason, language: str) -> dict[str, Any]:
    message, hint = render_reason(reason, language)
    facts = {name: round(value, 3) if isinstance(value, float) else value for name, value in reason.facts.items()}
    return {"code": reason.code, "message": message, "hint": hint, "facts": facts}
