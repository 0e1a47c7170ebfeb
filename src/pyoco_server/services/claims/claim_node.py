"""One claim, from the proposal to the lease: take the node that the line proposes, or the next one, and tell what for.

The chosen node is written into the claim's record before it is taken, so that whoever repeats a claim after a crash
gets the node that was taken, and not a second one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.execution.commands import StartNode
from pyoco_server.domain.execution.events import NodeStarted
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import NodeId, RunId, WorkerId
from pyoco_server.domain.queries.steps import ClaimableNode
from pyoco_server.services.claims.claim_queue import REFUSED_FOR_SEC, ClaimFilter, ClaimQueue
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.execution_service import ExecutionService
from pyoco_server.services.idempotency import IdempotentAttempt


class NothingToClaim(Exception):
    """Whatever was proposed was gone: the claim waits in line again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who asks for work, of which graphs, and for how long they may be silent."""

    wanted: ClaimFilter
    worker_id: WorkerId
    lease_sec: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A node in somebody's hands, and what they need for it.

    `started` is how they took it: who carries on with a claim after a crash may come when the next one has the node,
    and must not be told that one's attempt for his.
    """

    handled: CommandResult
    started: NodeStarted
    params: Mapping[str, Any] | None
    before: Mapping[NodeId, Any]

    @property
    def execution(self) -> Execution:
        return self.handled.execution


async def take(
    executions: ExecutionService, claims: ClaimQueue, claim: Claim, proposed: ClaimableNode, turn: IdempotentAttempt
) -> Claimed:
    """Take the proposed node (for one who carries on: the one that was chosen then), or the next that can be taken.

    `proposed` is reserved by the caller, and released by it.
    """
    chosen = named(turn.resource_id, claim)
    if chosen is None or name_of(chosen) == name_of(proposed):
        node, following = proposed, None
    else:
        # It may have been tried before and be gone: then the turn is the proposed one's, which nobody else can reserve.
        node, following = chosen, proposed
    with ExitStack() as reserved:
        while True:
            handled = await _start(executions, claim, node, turn)
            # Without an event of ours another claim of the same worker has it, and its work is not to be done twice.
            if handled.refused is None and handled.events:
                claims.settle(node, handled.execution.version)
                return await _claimed(executions, handled, node)
            claims.settle(node, handled.execution.version, for_sec=REFUSED_FOR_SEC)
            if following is None:
                following = claims.reserve(claim.wanted)
                if following is None:
                    raise NothingToClaim
                reserved.callback(claims.release, following)
            node, following = named(await turn.choose(name_of(following)), claim) or following, None


def name_of(node: ClaimableNode) -> str:
    """The node as the resource of a claim; node ids have no slash, nor have graph ids."""
    return f"{node.run_id}/{node.attempt}/{node.node_id}"


def named(name: str, claim: Claim) -> ClaimableNode | None:
    """The node that a claim's record names."""
    run_id, _, rest = name.partition("/")
    attempt, _, node_id = rest.partition("/")
    if not attempt.isdigit() or not node_id:
        return None
    return ClaimableNode(
        run_id=RunId(run_id), node_id=NodeId(node_id), attempt=int(attempt), graph_id=claim.wanted.graph_ids[0]
    )


async def _start(
    executions: ExecutionService, claim: Claim, node: ClaimableNode, turn: IdempotentAttempt
) -> CommandResult:
    now = executions.stores.clock.now()
    command = StartNode(
        at=now,
        node_id=node.node_id,
        attempt=node.attempt + 1,
        worker_id=claim.worker_id,
        lease_until=now + claim.lease_sec,
        from_outside=True,
    )
    return await executions.command(node.run_id, command, turn.origin)


async def _claimed(executions: ExecutionService, handled: CommandResult, node: ClaimableNode) -> Claimed:
    execution = handled.execution
    graph = execution.graph
    sources = graph.before(node.node_id) if graph else ()
    drawn = graph.node(node.node_id) if graph else None
    whole = await executions.whole(execution) if sources else execution
    return Claimed(
        handled=handled,
        started=next(event for event in handled.events if isinstance(event, NodeStarted)),
        params=drawn.params if drawn else None,
        before={source: whole.nodes[source].output for source in sources},
    )
