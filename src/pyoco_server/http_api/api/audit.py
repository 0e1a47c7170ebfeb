"""`/audit`: who did what."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pyoco_server.domain.audit import AuditQuery, AuditRecord
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.dependencies import AuditDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.times import QueryTime
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers

router = APIRouter(prefix="/audit", tags=["audit"])

MAX_TEXT_CHARS = 256


class AuditActor(BaseModel):
    """Who: a `user` of the API or an `operator` of `pyoco-server-admin`."""

    kind: str = Field(examples=["user"])
    id: str | None = Field(
        description="The id of the API key, the subject of the token, `user@host` of an operator; null: anonymous.",
        examples=["0123456789abcdef"],
    )


class AuditResource(BaseModel):
    """What was changed."""

    kind: str = Field(description="`run`, `api_key`, `wheel`, `graph`, `worker`, `strategy`.", examples=["run"])
    id: str = Field(examples=["0190b8a0-7c00-7000-8000-000000000001"])


class AuditItem(Open):
    """One change by one request. More fields may be added at any time."""

    at: float = Field(description="Unix seconds.", examples=[1767225600.0])
    action: str = Field(examples=["run.create"])
    actor: AuditActor
    resource: AuditResource
    outcome: str = Field(
        description="`made`, or `attempted`: the gateway was killed before it could say.", examples=["made"]
    )
    tenant_id: str | None = Field(description="The tenant of the resource, where the change names it.")
    address: str | None = Field(description="Where the request came from.", examples=["192.0.2.7"])
    request_id: str | None = Field(description="Its X-Request-Id.", examples=["01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"])
    correlation_id: str | None
    detail: dict[str, Any] = Field(description="Facts of the action: flow, node, tag, version, scopes.")


class AuditList(BaseModel):
    """One page, newest first. Only the last one has no `next_cursor`."""

    items: list[AuditItem]
    next_cursor: str | None


class AuditListQuery(Strict):
    actor: str | None = Field(
        default=None, max_length=MAX_TEXT_CHARS, description="Only of this key, subject or operator; `anonymous`."
    )
    action: str | None = Field(default=None, max_length=64, description="Only this action.", examples=["run.cancel"])
    resource: str | None = Field(
        default=None, max_length=MAX_TEXT_CHARS, description="Only of this run, key, wheel, graph, worker or strategy."
    )
    request_id: str | None = Field(default=None, max_length=64, description="Only of this X-Request-Id.")
    since: QueryTime | None = Field(
        default=None, description="At this time or later: unix seconds, a date, or RFC 3339 (UTC without an offset)."
    )
    until: QueryTime | None = Field(default=None, description="Earlier than this time.")
    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(
        default=None,
        max_length=MAX_TOKEN_CHARS,
        description="The `next_cursor` of the page before, with the same filters.",
    )

    def asked(self) -> AuditQuery:
        """The filters."""
        request_id = None if self.request_id is None else self.request_id.upper()
        return AuditQuery(
            actor=self.actor,
            action=self.action,
            resource=self.resource,
            request_id=request_id,
            since=self.since,
            until=self.until,
        )


@router.get("", responses=answers(AuditList, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.ADMIN)
async def list_audit(audit: AuditDep, query: Annotated[AuditListQuery, Query()]) -> Response:
    """Who changed what, from where and by which request, newest first; of all tenants.

    Kept for PYOCO_AUDIT_RETENTION_SEC, longer than runs.
    """
    page = await audit.page(query.asked(), limit=query.limit, cursor=query.cursor)
    return json_response({"items": [_out(record) for record in page.records], "next_cursor": page.next_cursor})


def _out(record: AuditRecord) -> dict[str, Any]:
    return {
        "at": record.at,
        "action": record.action,
        "actor": {"kind": record.actor.kind, "id": record.actor.id},
        "resource": {"kind": record.resource_kind, "id": record.resource_id},
        "outcome": record.outcome,
        "tenant_id": record.tenant_id,
        "address": record.address,
        "request_id": record.request_id,
        "correlation_id": record.correlation_id,
        "detail": record.detail,
    }
