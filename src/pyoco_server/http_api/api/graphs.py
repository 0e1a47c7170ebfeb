"""`/graphs`: store, show and list graphs by name and version, as JSON or YAML."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.graphs import GraphDocument, to_plain
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, is_path_name
from pyoco_server.errors import GraphNotFound, InvalidGraph, InvalidRequest
from pyoco_server.http_api.api.graph_models import (
    GRAPH_BODY,
    MAX_CURSOR_CHARS,
    MAX_DOCUMENT_BYTES,
    YAML_TYPES,
    GraphList,
    GraphOut,
    GraphPutOut,
    check_graph_id,
    graph_out,
    page_out,
    read_document,
    read_yaml_document,
)
from pyoco_server.http_api.dependencies import CallerDep, GraphsDep, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol import request_parsing
from pyoco_server.http_api.protocol.conditional import is_known
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_value
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import EXECUTIONS
from pyoco_server.ports import StoredGraph
from pyoco_server.services.graphs import ShownGraph

router = APIRouter(prefix="/graphs", tags=["graphs"])

_VERSION_TAG = re.compile(r'"([0-9]{1,18})"', re.ASCII)


GraphIdPath = Annotated[str, Path(alias="graphId", description="The graph's name.", examples=["release"])]


class PutQuery(Strict):
    """The condition of a put."""

    expected_version: int | None = Field(
        default=None,
        alias="expectedVersion",
        ge=0,
        le=2**53,
        description="Reject (409) unless this is the current version; 0: unless there is no such graph.",
    )


class GraphsQuery(Strict):
    q: str = Field(default="", max_length=MAX_NODE_ID_CHARS, description="Only graphs whose id has this prefix.")
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str = Field(
        default="", max_length=MAX_CURSOR_CHARS, description="The `nextCursor` of the page before, with the same q."
    )


@router.put(
    "/{graphId}",
    responses=EXECUTIONS.answers(GraphPutOut, 409, 413, 422, 503)
    | {201: {"model": GraphPutOut, "description": "A new graph"}},
    openapi_extra=GRAPH_BODY,
    dependencies=[given_once(InvalidRequest)],
)
@requires_scope(Scope.GRAPHS_WRITE)
async def put_graph(
    graph_id: GraphIdPath,
    request: Request,
    graphs: GraphsDep,
    caller: CallerDep,
    query: Annotated[PutQuery, Query()],
    if_match: Annotated[str | None, Header(description='The current version in quotes: `"3"`.')] = None,
) -> Response:
    """Store a graph under this name. A change is a new version; an equal graph changes nothing.

    Executions keep the version that they were created from.
    """
    check_graph_id(graph_id)
    expected = _expected_version(query.expected_version, if_match)
    document = await _read(await request.body(), request.headers)

    # JSON and YAML of the same graph under the same condition are the same request.
    digest = of_value({"document": to_plain(document), "expectedVersion": expected})
    async with IdempotentRequest(request, digest) as once:
        if turn := once.attempt:
            put = await graphs.put(
                caller.tenant_id,
                graph_id,
                document,
                context=turn.context,
                expected_version=expected,
            )
            body = graph_out(put.graph) | {"created": put.created}
            once.response = json_response(body, 201 if put.created else 200, _headers(put.graph))
    return once.answer


@router.get("", responses=EXECUTIONS.answers(GraphList, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def list_graphs(graphs: GraphsDep, caller: CallerDep, query: Annotated[GraphsQuery, Query()]) -> Response:
    """Stored graphs and announced flows, by id."""
    page = await graphs.page(caller.tenant_id, prefix=query.q, limit=query.limit, cursor=query.cursor)
    return json_response(page_out(page))


@router.get(
    "/{graphId}",
    responses=EXECUTIONS.answers(GraphOut, 404, 422, 503)
    | {304: {"description": "The version in If-None-Match is current"}},
)
@requires_scope(Scope.RUNS_READ)
async def get_graph(
    graph_id: GraphIdPath,
    graphs: GraphsDep,
    caller: CallerDep,
    if_none_match: Annotated[str | None, Header(description="ETags of known versions.")] = None,
) -> Response:
    """A graph in its current version."""
    if not is_path_name(graph_id):
        raise GraphNotFound(graph_id=graph_id[:MAX_NODE_ID_CHARS])
    shown = await graphs.get(caller.tenant_id, graph_id)
    headers = _headers(shown)
    if "ETag" in headers and is_known(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return json_response(graph_out(shown), headers=headers)


async def _read(body: bytes, headers: Mapping[str, str]) -> GraphDocument:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    # The largest graph takes tenths of a second, which would block all other requests.
    return await asyncio.to_thread(read_yaml_document if kind in YAML_TYPES else _read_json, body)


def _read_json(body: bytes) -> GraphDocument:
    try:
        # Each mark is a byte of the stored document, so a body with more of them is too large in any case.
        value = request_parsing.parse_json(body, MAX_DOCUMENT_BYTES)
    except InvalidRequest as error:
        # Often YAML without its content type: `curl --data-binary @graph.yaml` sends another one.
        raise InvalidGraph(f"{error.detail}; for YAML send Content-Type: {YAML_TYPES[0]}") from error
    return read_document(value)


def _expected_version(asked: int | None, if_match: str | None) -> int | None:
    """The version that must be the current one, from the query or from If-Match."""
    if if_match is None:
        return asked
    tag = _VERSION_TAG.fullmatch(if_match.strip())
    if tag is None:
        raise InvalidRequest('If-Match must be one version in quotes, as the ETag of a graph has it: "3"')
    version = int(tag[1])
    if asked not in (None, version):
        raise InvalidRequest("If-Match and expectedVersion name different versions")
    return version


def _headers(shown: ShownGraph) -> dict[str, str]:
    return {"ETag": f'"{shown.version}"'} if isinstance(shown, StoredGraph) else {}
