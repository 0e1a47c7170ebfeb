"""A claim that is resumed after a crash returns its original result, whatever has happened since."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import CreateExecution, StartExecution
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.ids import CommitId, NodeId, RunId, WorkerId
from pyoco_server.domain.queries.steps import ClaimableNode
from pyoco_server.http_api.api.executions.translate import claimed_out
from pyoco_server.services.claims.claim_node import Claim, Claimed, name_of, take
from pyoco_server.services.claims.claim_queue import ClaimFilter, ClaimQueue
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.services.projections.indexer import Indexer
from support.world import USER, World

LEASE_SEC = 10.0
NODE = NodeId("a")


async def no_flow(name: str) -> AnnouncedFlow | None:
    return None


@dataclass
class ClaimedNode:
    """A gateway with one claimed node."""

    world: World
    run_id: RunId
    executions: ExecutionService
    claims: ClaimQueue

    async def claim(self, worker: str, attempt: int, *, resumed: bool = False) -> tuple[Claimed, CommandContext]:
        node = ClaimableNode(run_id=self.run_id, node_id=NODE, attempt=attempt - 1, graph_id="g")
        origin = replace(USER, commit_id=CommitId(f"of-{worker}"), idempotency_key=worker, resumed=resumed)
        claim = Claim(
            wanted=ClaimFilter(graph_ids=("g",), tenant_id=None), worker_id=WorkerId(worker), lease_sec=LEASE_SEC
        )
        return await take(self.executions, self.claims, claim, node, IdempotentAttempt(origin, name_of(node))), origin


@pytest_asyncio.fixture
async def claimed_node() -> AsyncIterator[ClaimedNode]:
    world, run_id = World(), RunId("00000000-0000-7000-8000-000000000001")
    graph = Graph(nodes=(GraphNode(node_id=NODE),), edges=())
    create = CreateExecution(at=world.now(), request=Request(flow_name="g", work=Work.NODES), graph=graph)
    for command in (create, StartExecution(at=world.now(), from_outside=True)):
        await world.handle(run_id, command)
    executions = ExecutionService(
        stores=world.stores,
        cache=ExecutionCache(world.stores),
        config=world.config,
        find_flow=no_flow,
    )
    follower = Indexer(world.feed, world.index, world.clock)
    yield ClaimedNode(world, run_id, executions, ClaimQueue(world.index, follower, world.clock))


@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_resumed_claim_returns_the_attempt_that_it_began(claimed_node: ClaimedNode, taken_over: bool) -> None:
    first, origin = await claimed_node.claim("w-1", 1)
    claimed_node.world.clock.pass_time(LEASE_SEC)
    if taken_over:
        second, _ = await claimed_node.claim("w-2", 2)
        assert second.started.attempt == 2

    again, _ = await claimed_node.claim("w-1", 1, resumed=True)

    assert (again.started.attempt, again.started.worker_id) == (1, "w-1")
    assert claimed_out(again, LEASE_SEC, origin) == claimed_out(first, LEASE_SEC, origin)
