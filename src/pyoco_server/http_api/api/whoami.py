"""`GET /whoami`: whom the gateway takes the caller for."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pyoco_server.domain.auth.scopes import scope_names
from pyoco_server.http_api.dependencies import CallerDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers

router = APIRouter(tags=["access"])


class WhoAmI(BaseModel):
    """The caller, as the credentials of this request show it."""

    client_id: str = Field(
        description="The id of the API key, the subject of the token, or `anonymous`.", examples=["0123456789abcdef"]
    )
    kind: Literal["anonymous", "api_key", "jwt"] = Field(
        description="`anonymous`: the gateway has no access control, and everything is permitted."
    )
    tenant_id: str | None = Field(description="The tenant of the runs it submits.", examples=["team-a"])
    scopes: list[str] = Field(
        description="What it may do; `admin` is all of it, for every tenant.", examples=[["runs:read", "runs:write"]]
    )
    audiences: list[str] | None = Field(
        description="Of a token: those of PYOCO_JWT_AUDIENCE that it is for; null: it is for all APIs.",
        examples=[["pdca"]],
    )
    expires_at: float | None = Field(
        description="Unix seconds; null: the credentials do not expire.", examples=[1767225600.0]
    )


@router.get("/whoami", responses=answers(WhoAmI, 503))
@requires_scope()
async def who_am_i(caller: CallerDep) -> Response:
    """The caller's name, tenant and scopes, and when its credentials expire; for any caller, whatever its scopes."""
    kind = "api_key" if caller.api_key_id else "jwt" if caller.name else "anonymous"
    return json_response(
        {
            "client_id": caller.client_id,
            "kind": kind,
            "tenant_id": caller.tenant_id,
            "scopes": scope_names(caller.scopes),
            "audiences": None if caller.audiences is None else sorted(caller.audiences),
            "expires_at": caller.valid_until,
        }
    )
