"""`POST /executions:claim` and `GET /waits`: work for programs that have no SDK, and for people."""

from __future__ import annotations

from contextlib import aclosing, suppress
from functools import partial
from inspect import cleandoc
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.ids import RunId, WorkerId, parse_run_id
from pyoco_server.domain.queries.steps import WaitingNode, WaitQuery
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.routes import shown
from pyoco_server.http_api.dependencies import CallerDep, ListsDep, RawRoute, given_once
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import command_request
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, earlier_answer, of_json
from pyoco_server.http_api.protocol.request_parsing import caller_of, read_optional, services_of
from pyoco_server.http_api.responses import json_response
from pyoco_server.services.claims.claim_node import Claim, NothingToClaim, name_of, named, take
from pyoco_server.services.claims.claim_queue import ClaimFilter

router = APIRouter(tags=["executions"])

_CLAIMED = shown(schemas.Claimed, 409, 413, 422, 503)
_CLAIMED[204] = {"description": "No node was ready within the time: claim again."}


@requires_scope(Scope.NODES_WORK)
async def claim_node(request: Request) -> Response:
    """Take the next READY node of these graphs, of the oldest execution first, with a lease.

    `progress` renews the lease. After its end the next claim takes the node, with `attempt + 1`. A claim that is
    repeated with the same key returns the same node.
    """
    claims, caller, body = services_of(request).claims, caller_of(request), await request.body()
    asked = read_optional(schemas.ClaimBody, body)
    claim = Claim(
        wanted=ClaimFilter(graph_ids=tuple(sorted(set(asked.graph_ids))), tenant_id=caller.tenant_filter),
        worker_id=WorkerId(asked.worker_id),
        lease_sec=asked.lease_sec,
        wait_sec=asked.wait_sec,
    )
    digest = of_json(body)

    first = claims.queue.reserve(claim.wanted)
    if first is None:
        # With a reserved node this read is not needed: creating the record has the same effect.
        earlier = await earlier_answer(request, digest)
        if isinstance(earlier, Response):
            return earlier
        # An unfinished attempt may have taken its node: it is continued whether or not there are others.
        first = None if earlier is None else named(earlier.resource_id, claim)
    async with aclosing(claims.proposals(claim, first, request.is_disconnected)) as proposals:
        async for node in proposals:
            with suppress(NothingToClaim):
                async with IdempotentRequest(request, digest, required=True, new_id=partial(name_of, node)) as once:
                    if turn := once.attempt:
                        claimed = await take(claims.executions, claims.queue, claim, node, turn)
                        once.response = json_response(translate.claimed_out(claimed, claim.lease_sec, turn.context))
                return once.answer
    return Response(status_code=204)


router.add_api_route(
    "/executions:claim",
    claim_node,
    methods=["POST"],
    name="ClaimNode",
    operation_id="ClaimNode",
    summary="Take the next READY node",
    description=cleandoc(claim_node.__doc__ or ""),
    route_class_override=RawRoute,
    responses=_CLAIMED,
    openapi_extra=command_request(schemas.ClaimBody),
)


class WaitsQuery(Strict):
    graph_id: str | None = Field(default=None, alias="graphId", min_length=1, max_length=256)
    execution_id: str | None = Field(default=None, alias="executionId", max_length=64)
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str = Field(default="", max_length=256, description="The `nextCursor` of the page before.")


@router.get("/waits", responses=shown(schemas.WaitList, 404, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def list_waits(lists: ListsDep, caller: CallerDep, query: Annotated[WaitsQuery, Query()]) -> Response:
    """The nodes that wait to be resumed, with prompt and key, the longest waiting first.

    `POST /executions/{executionId}/nodes/{nodeId}/resume` with the key resumes one; `…/fail` fails it.
    """
    asked = WaitQuery(
        limit=query.limit,
        tenant_id=caller.tenant_filter,
        graph_id=query.graph_id,
        run_id=None if query.execution_id is None else parse_run_id(query.execution_id),
        after=_after(query.cursor),
    )
    found, has_more = await lists.waits(asked)
    items = [translate.wait_out(wait, prompt) for wait, prompt in found]
    return json_response(translate.page_out(items, _cursor(found[-1][0]) if has_more else None))


def _cursor(wait: WaitingNode) -> str:
    since, run_id, place = wait.key
    return f"{since!r}~{run_id}~{place}"


def _after(cursor: str) -> tuple[float, str, int] | None:
    if not cursor:
        return None
    try:
        since, run_id, place = cursor.split("~")
        return float(since), RunId(run_id), int(place[:9])
    except ValueError as error:
        raise InvalidRequest("cursor: it is not the nextCursor of a page of waits; leave it out to begin") from error
