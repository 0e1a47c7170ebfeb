"""`POST /executions:claim` and `GET /waits`: work for programs that have no SDK, and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import empty_execution
from pyoco_server.domain.ids import NodeId, RunId, WorkerId, parse_run_id
from pyoco_server.domain.queries.steps import ClaimableNode, WaitingNode, WaitQuery
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas, translate
from pyoco_server.http_api.api.executions.openapi import describe
from pyoco_server.http_api.api.executions.routes import json_response, shown
from pyoco_server.http_api.dependencies import CallerDep, GatewayDep, RawRoute, gateway_of, given_once
from pyoco_server.http_api.middleware.authentication import caller_of, requires_scope
from pyoco_server.http_api.protocol.idempotency import of_json, replayed, run_once
from pyoco_server.services.claims.claim_node import Claim, NothingToClaim, name_of, named, take
from pyoco_server.services.claims.claim_queue import ClaimFilter
from pyoco_server.services.gateway import Gateway
from pyoco_server.services.idempotency import IdempotentAttempt

router = APIRouter(tags=["executions"])

_CLAIMED = shown(schemas.Claimed, 409, 413, 422, 503)
_CLAIMED[204] = {"description": "Nothing was to be had within the time: ask again."}


@requires_scope(Scope.NODES_WORK)
async def claim_node(request: Request) -> Response:
    """Take the next READY node of these graphs, of the oldest execution first, with a lease.

    `progress` renews the lease; whoever is silent for longer loses the node to the next one, with `attempt + 1`.
    Repeated with the same key it is the same node.
    """
    gateway, caller, body = gateway_of(request), caller_of(request), await request.body()
    asked = translate.read(schemas.ClaimBody, body)
    claim = Claim(
        wanted=ClaimFilter(graph_ids=tuple(sorted(set(asked.graph_ids))), tenant_id=caller.tenant_filter),
        worker_id=WorkerId(asked.worker_id),
        lease_sec=asked.lease_sec,
    )
    return await _in_line(request, gateway, claim, asked.wait_sec, body)


async def _in_line(request: Request, gateway: Gateway, claim: Claim, wait_sec: float, body: bytes) -> Response:
    give_up_at = gateway.stores.clock.monotonic() + wait_sec
    node = gateway.claims.reserve(claim.wanted)
    if node is None:
        # One who gets a node at once asks for nothing here: the record that is made then tells the same.
        before = await replayed(request, gateway, of_json(body))
        if isinstance(before, Response):
            return before
        # What was begun is carried on, whether or not there is more to be had: the node may be its own by now.
        node = named(before.resource_id, claim) if before else await _looked_for(gateway, claim)
    while True:
        if node is not None:
            try:
                return await _take(request, gateway, claim, node, body)
            except NothingToClaim:
                pass
            finally:
                gateway.claims.release(node)
        left_sec = give_up_at - gateway.stores.clock.monotonic()
        if left_sec <= 0 or not await gateway.claims.changed(claim.wanted, left_sec):
            await gateway.lists.fresh()  # while the broker is away nobody can tell that there is nothing
            return Response(status_code=204)
        if await request.is_disconnected():
            return Response(status_code=204)  # a node for somebody who has gone would lie there until its lease ends
        node = gateway.claims.reserve(claim.wanted)


async def _looked_for(gateway: Gateway, claim: Claim) -> ClaimableNode | None:
    await gateway.lists.fresh()
    return gateway.claims.reserve(claim.wanted)


async def _take(request: Request, gateway: Gateway, claim: Claim, node: ClaimableNode, body: bytes) -> Response:
    async def work(turn: IdempotentAttempt) -> Response:
        claimed = await take(gateway.executions, gateway.claims, claim, node, turn)
        return json_response(translate.claimed_out(claimed, claim.lease_sec, turn.origin))

    return await run_once(request, gateway, of_json(body), work, required=True, resource_id=lambda: name_of(node))


router.add_api_route(
    "/executions:claim",
    claim_node,
    methods=["POST"],
    name="ClaimNode",
    operation_id="ClaimNode",
    summary="Take the next READY node",
    description=claim_node.__doc__ or "",
    route_class_override=RawRoute,
    responses=_CLAIMED,
    openapi_extra=describe(schemas.ClaimBody, required=True),
)


# --- what waits for a person ------------------------------------------------------------------------------------------


class WaitsQuery(BaseModel):
    """Which waits. A name that is not here is refused: a misspelled filter would give a wrong list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    graph_id: str | None = Field(default=None, alias="graphId", min_length=1, max_length=256)
    execution_id: str | None = Field(default=None, alias="executionId", max_length=64)
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str = Field(default="", max_length=256, description="The `nextCursor` of the page before.")


@router.get("/waits", responses=shown(schemas.WaitList, 404, 422, 503), dependencies=[given_once(InvalidRequest)])
@requires_scope(Scope.RUNS_READ)
async def list_waits(gateway: GatewayDep, caller: CallerDep, query: Annotated[WaitsQuery, Query()]) -> Response:
    """The nodes that wait for somebody, with prompt and key, the longest waiting first.

    `POST /executions/{executionId}/nodes/{nodeId}/resume` with the key lets one go on; `…/fail` gives it up.
    """
    asked = WaitQuery(
        limit=query.limit + 1,
        tenant_id=caller.tenant_filter,
        graph_id=query.graph_id,
        run_id=None if query.execution_id is None else parse_run_id(query.execution_id),
        after=_after(query.cursor),
    )
    await gateway.lists.fresh()
    found = gateway.index.waits(asked)
    some, more = found[: query.limit], len(found) > query.limit
    asks = await _prompts(gateway, some)
    items = [translate.wait_out(wait, prompt) for wait, prompt in zip(some, asks, strict=True)]
    return json_response(translate.page_out(items, _cursor(some[-1]) if more else None))


async def _prompts(gateway: Gateway, waits: Sequence[WaitingNode]) -> list[Any]:
    """What the nodes ask; read from the log, once per execution, where its snapshot had to give them up."""
    given_up: dict[RunId, dict[NodeId, Any]] = {wait.run_id: {} for wait in waits if wait.prompt == b""}
    for run_id in given_up:
        whole = fold_commits(await gateway.stores.events.read(run_id), empty_execution(run_id))
        given_up[run_id] = {node_id: node.prompt for node_id, node in whole.nodes.items()}
    return [
        given_up[wait.run_id].get(wait.node_id) if wait.prompt == b"" else orjson.loads(wait.prompt or b"null")
        for wait in waits
    ]


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
