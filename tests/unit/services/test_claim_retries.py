"""A repeated claim: it returns its own start of the node or the next claimable node."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyoco_server.domain.execution.commands import StartNode, SucceedNode
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.domain.ids import WorkerId
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.claims.claim_node import Claim, Claimed, NothingToClaim, name_of, take
from pyoco_server.services.claims.claim_queue import ClaimFilter, ClaimQueue
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.idempotency import Answered, IdempotentAttempt
from pyoco_server.services.projections.indexer import Indexer
from support.attempts import once
from support.executions_in_memory import A, B, begun, executions_of
from support.keyed import crash, keyed_request
from support.world import World

LEASE_SEC = 10.0
CLAIM = Claim(wanted=ClaimFilter(graph_ids=("g",), tenant_id=None), worker_id=WorkerId("ann"), lease_sec=LEASE_SEC)


@dataclass
class Claimer:
    """A client that repeats a claim with one idempotency key."""

    world: World
    executions: ExecutionService
    claims: ClaimQueue
    claimed: Claimed | None = None

    async def claim(self) -> Answered:
        node = self.claims.reserve(CLAIM.wanted)
        assert node is not None

        async def work(turn: IdempotentAttempt) -> Answer:
            self.claimed = await take(self.executions, self.claims, CLAIM, node, turn)
            return Answer(status=200, body=b"")

        try:
            return await once(self.world.stores, keyed_request(), lambda: name_of(node), work)
        finally:
            self.claims.release(node)


async def test_a_claim_resumed_after_a_take_over_returns_its_own_attempt() -> None:
    world = World()
    run_id = await begun(world)
    await world.catch_up()
    claims = ClaimQueue(world.index, Indexer(world.feed, world.index, world.truth.clock), world.truth.clock)
    ann = Claimer(world, executions_of(world), claims)
    world.faults.after("events.append", crash(world))
    with pytest.raises(BrokerUnavailable):
        await ann.claim()
    lease_until = (await world.execution(run_id)).nodes[A].lease_until
    world.faults.is_offline = False
    world.clock.pass_time(LEASE_SEC + 1)
    theirs = StartNode(
        at=world.now(), node_id=A, attempt=2, worker_id=WorkerId("bob"), lease_until=world.now() + 60, from_outside=True
    )
    (await world.handle(run_id, theirs)).accepted()

    await ann.claim()

    assert ann.claimed is not None
    assert ann.claimed.execution.nodes[A].attempt == 2
    started = ann.claimed.started
    assert (started.node_id, started.attempt, started.worker_id) == (A, 1, "ann")
    assert started.lease_until == lease_until


@pytest.mark.parametrize("succeeded", [False, True])
async def test_a_claim_whose_first_node_is_taken_claims_the_next_one(succeeded: bool) -> None:
    world = World()
    graph = Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=((A, B),))
    run_id = await begun(world, graph)
    await world.catch_up()
    follower = Indexer(world.feed, world.index, world.truth.clock)
    ann = Claimer(world, executions_of(world), ClaimQueue(world.index, follower, world.truth.clock))
    # The index does not yet show that another worker holds the node.
    theirs = StartNode(
        at=world.now(), node_id=A, attempt=1, worker_id=WorkerId("bob"), lease_until=world.now() + 60, from_outside=True
    )
    (await world.handle(run_id, theirs)).accepted()
    if succeeded:
        success = SucceedNode(at=world.now(), node_id=A, attempt=1, from_outside=True)
        (await world.handle(run_id, success)).accepted()
    with pytest.raises(NothingToClaim):
        await ann.claim()

    await world.catch_up()
    world.clock.pass_time(61)
    await ann.claim()

    assert ann.claimed is not None
    started = ann.claimed.started
    assert (started.node_id, started.attempt, started.worker_id) == ((B, 1, "ann") if succeeded else (A, 2, "ann"))
