"""One claim, carried on by whoever sends it again: the node that was given then, as it was given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyoco_server.application.claiming import Claim, Claimed, name_of, take
from pyoco_server.application.claims import Claims, Wanted
from pyoco_server.application.idempotency import Turn
from pyoco_server.application.indexing import IndexFollower
from pyoco_server.execution.commands import StartNode
from pyoco_server.execution.graph import Graph, GraphNode
from pyoco_server.execution.ids import CommitId, RunId, WorkerId
from pyoco_server.readmodel.steps import ClaimableNode
from support.executions_in_memory import A, begun, executions_of
from support.world import USER, World

ONE = Graph(nodes=(GraphNode(node_id=A),), edges=())
CLAIM = Claim(wanted=Wanted(graph_ids=("g",), tenant_id=None), worker_id=WorkerId("ann"), lease_sec=2.0)


@pytest.fixture
def world() -> World:
    return World()


async def claimed(world: World, run_id: RunId, *, resumed: bool) -> Claimed:
    """The claim, sent to a gateway that has nothing at hand."""
    claims = Claims(world.index, IndexFollower(world.live_feed, world.index, world.truth.clock), world.truth.clock)
    node = ClaimableNode(run_id=run_id, node_id=A, attempt=0, graph_id="g")
    origin = replace(USER, idempotency_key="k", commit_id=CommitId("ours"), resumed=resumed)
    executions = executions_of(world)
    found = await take(executions, claims, CLAIM, node, Turn(origin, name_of(node)))
    await executions.desk.settle()
    return found


async def test_who_carries_on_when_another_has_the_node_is_told_of_its_own_attempt(world: World) -> None:
    run_id = await begun(world, ONE)
    first = await claimed(world, run_id, resumed=False)
    late = (first.started.lease_until or 0.0) + 1
    other = StartNode(at=late, node_id=A, attempt=2, worker_id=WorkerId("bob"), lease_until=late + 9, from_outside=True)
    (await world.handle(run_id, other)).accepted()

    again = await claimed(world, run_id, resumed=True)

    assert again.started == first.started
    assert (again.started.attempt, again.handled.version) == (1, first.handled.version)
    assert again.handled.execution.nodes[A].attempt == 2
