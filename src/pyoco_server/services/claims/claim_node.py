"""Claim a node: find one or wait for one, take it with a lease, and return what its holder needs.

The chosen node is written into the claim's idempotency record before it is taken. A claim that is repeated after a
crash gets the node that was taken, not a second one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec

from pyoco_server.domain.execution.commands import StartNode
from pyoco_server.domain.execution.events import NodeStarted
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import NodeId, RunId, WorkerId
from pyoco_server.domain.queries.steps import ClaimableNode
from pyoco_server.services.claims.claim_queue import REFUSED_FOR_SEC, ClaimFilter, ClaimQueue
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.services.projections.lists import ListService


class NothingToClaim(Exception):
    """Every proposed node was taken by others: the claim waits again."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Which worker asks for nodes of which graphs, for how long at most, and the lease it wants."""

    wanted: ClaimFilter
    worker_id: WorkerId
    lease_sec: float
    wait_sec: float = 0.0


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed node and the input for its work.

    `started` is the event of this claim: a claim that is continued after a crash may run when the node already has the
    next holder, and must not return that holder's attempt.
    """

    handled: CommandResult
    started: NodeStarted
    params: Mapping[str, Any] | None
    before: Mapping[NodeId, Any]

    @property
    def execution(self) -> Execution:
        return self.handled.execution


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimService:
    """Claims of one gateway."""

    executions: ExecutionService
    lists: ListService
    queue: ClaimQueue

    async def proposals(
        self, claim: Claim, first: ClaimableNode | None, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[ClaimableNode, None]:
        """Nodes to take, each reserved until the next one; ends when the time is over or the caller disconnects."""
        clock = self.executions.stores.clock
        give_up_at = clock.monotonic() + claim.wait_sec
        node = first
        if node is None:
            await self.lists.fresh()
            node = self.queue.reserve(claim.wanted)
        while True:
            if node is not None:
                try:
                    yield node
                finally:
                    self.queue.release(node)
            left_sec = give_up_at - clock.monotonic()
            if left_sec <= 0 or not await self.queue.changed(claim.wanted, left_sec):
                await self.lists.fresh()  # without the broker it is unknown whether there is a node
                return
            if await is_disconnected():
                return  # a node for this caller would be blocked until its lease ends
            node = self.queue.reserve(claim.wanted)


async def take(
    executions: ExecutionService, claims: ClaimQueue, claim: Claim, proposed: ClaimableNode, attempt: IdempotentAttempt
) -> Claimed:
    """Take the proposed node, or the one that an earlier attempt chose, or else the next one.

    The caller reserves and releases `proposed`. `NothingToClaim` when others have taken all nodes.
    """
    chosen = named(attempt.resource_id, claim)
    if chosen is None or name_of(chosen) == name_of(proposed):
        node, following = proposed, None
    else:
        # The earlier choice may be gone by now: then the proposed node is next, which is reserved for this claim.
        node, following = chosen, proposed
    with ExitStack() as reserved:
        while True:
            handled = await _start(executions, claim, node, attempt)
            # Without an event of ours another claim of the same worker has the node: its work must not be done twice.
            if handled.refused is None and handled.events:
                claims.hide(node, handled.execution.version)
                return await _claimed(executions, handled, node)
            claims.hide(node, handled.execution.version, for_sec=REFUSED_FOR_SEC)
            if following is None:
                following = claims.reserve(claim.wanted)
                if following is None:
                    raise NothingToClaim
                reserved.callback(claims.release, following)
            node, following = named(await attempt.choose(name_of(following)), claim) or following, None


def name_of(node: ClaimableNode) -> str:
    """The node as the resource of a claim; node ids have no slash, nor have graph ids."""
    return f"{node.run_id}/{node.attempt}/{node.node_id}"


def named(name: str, claim: Claim) -> ClaimableNode | None:
    """The node that the idempotency record of a claim names."""
    run_id, _, rest = name.partition("/")
    attempt, _, node_id = rest.partition("/")
    if not attempt.isdigit() or not node_id:
        return None
    return ClaimableNode(
        run_id=RunId(run_id), node_id=NodeId(node_id), attempt=int(attempt), graph_id=claim.wanted.graph_ids[0]
    )


async def _start(
    executions: ExecutionService, claim: Claim, node: ClaimableNode, attempt: IdempotentAttempt
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
    return await executions.command(node.run_id, command, attempt.context)


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
        before={source: whole.nodes[source].output for source in sources if not whole.nodes[source].is_skipped},
    )
