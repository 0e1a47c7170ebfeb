"""`/gui/artifacts`: links to the files of batches, and the files."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.pdca.outcome import MEDIA_TYPES
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.pdca import recheck_schemas as schemas
from pyoco_server.http_api.api.pdca.recheck_routes import in_time
from pyoco_server.http_api.dependencies import ArtifactsDep, CallerDep, given_once
from pyoco_server.http_api.middleware.authentication import public_route, requires_scope
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.protocol.times import rfc3339
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import PDCA
from pyoco_server.services.pdca.artifacts import ArtifactLink

router = APIRouter(prefix="/gui/artifacts", tags=["pdca"])

IdPath = Annotated[str, Path(alias="id", max_length=64, description="The artifact's id, as its request lists it.")]

# What a browser saves it as.
_ENDINGS = {"text/markdown": ".md", "text/csv": ".csv", "text/plain": ".txt", "application/json": ".json"}
# Of what no engine can report.
_OTHER = "application/octet-stream"
_URL_EXAMPLE = {
    "url": f"/gui/artifacts/{schemas.ARTIFACT_ID}?expires=1756006796&key=5f3a9c1e&signature=kq3v",
    "expires_at": "2025-08-24T03:39:56.000Z",
}
_URL: dict[int | str, dict[str, Any]] = {
    200: {"model": schemas.ArtifactUrl, "content": {"application/json": {"example": _URL_EXAMPLE}}},
    **PDCA.failures(400, 404, 429, 500),
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, as it was stored",
        "content": {
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in (*MEDIA_TYPES, _OTHER)},
            "application/json": {"schema": {}, "example": {"health": "healthy"}},
        },
    },
    **PDCA.failures(400, 403, 404, 429, 500),
}


class LinkQuery(Strict):
    """The signed part of a link."""

    expires: int = Field(ge=0, le=2**53)
    key: str = Field(min_length=1, max_length=64)
    signature: str = Field(min_length=1, max_length=64)


@router.get("/{id}/url", responses=_URL)
@requires_scope(Scope.PDCA_DOWNLOAD)
async def get_artifact_url(
    artifact_id: IdPath, request: Request, artifacts: ArtifactsDep, caller: CallerDep
) -> Response:
    """A link to the file that works for 300 seconds without credentials, at any gateway."""
    async with in_time():
        link = await artifacts.link(artifact_id, tenant_filter=caller.tenant_filter)
    query = urlencode({"expires": link.expires, "key": link.key_id, "signature": link.signature})
    root = request.scope.get("root_path", "")
    url = f"{root}/gui/artifacts/{link.artifact_id}?{query}"
    return json_response({"url": url, "expires_at": rfc3339(link.expires)})


@router.get("/{id}", response_class=Response, responses=_BYTES, dependencies=[given_once(InvalidRequest)])
@public_route
async def get_artifact(artifact_id: IdPath, artifacts: ArtifactsDep, query: Annotated[LinkQuery, Query()]) -> Response:
    """The file of a link, which needs no credentials until it expires."""
    link = ArtifactLink(artifact_id=artifact_id, expires=query.expires, key_id=query.key, signature=query.signature)
    async with in_time():
        found = await artifacts.follow(link)
    headers = {
        "Content-Disposition": f'attachment; filename="{artifact_id}{_ENDINGS.get(found.media_type, "")}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        "Cache-Control": "private, no-store",
        "Referrer-Policy": "no-referrer",
    }
    media_type = found.media_type if found.media_type in MEDIA_TYPES else _OTHER
    return Response(found.data, headers=headers, media_type=media_type)
