"""Proposes claimable nodes to pending claims: the oldest execution first, each node to one claim.

    claim ─▶ claimable node in the index? ──yes──▶ reserve ─▶ StartNode (attempt + 1) ──▶ taken
               │ no                                   └── taken by another gateway: the next one
               ▼
             wait until the index has one, a lease ends, or the time is over

The index only proposes. StartNode is decided on the event log, so no node has two holders, at any gateway. Pending
claims do not query the index themselves: of a hundred claims for one graph, as many are woken as there are nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyoco_server.domain.queries.steps import ClaimableNode, NodeKey
from pyoco_server.ports import Clock, RunIndex
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.services.projections.indexer import Indexer

# How long to wait for a change of the index before leases are checked again.
CHECK_EVERY_SEC = 1.0
MIN_WAIT_SEC = 0.05
# How long a node is not proposed after a refused claim: the reason may last for a while.
REFUSED_FOR_SEC = 0.5


class _Hidden(NamedTuple):
    """Not proposed until the index has this version, and not before this time."""

    version: int
    until: float


_NOT_RESERVED = _Hidden(0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFilter:
    """Nodes of these graphs that the tenant may see (None: all)."""

    graph_ids: tuple[str, ...]
    tenant_id: str | None


class ClaimQueue:
    """The pending claims of one gateway; `run` wakes them."""

    def __init__(self, index: RunIndex, indexer: Indexer, clock: Clock) -> None:
        self._index = index
        self._indexer = indexer
        self._clock = clock
        self._pending: dict[ClaimFilter, list[asyncio.Event]] = {}
        # Nodes that a claim here is about to take (None), and nodes of which the index does not know the result yet.
        self._reserved: dict[NodeKey, _Hidden | None] = {}
        self._added = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many claims are pending, for the metrics."""
        return sum(len(waiting) for waiting in self._pending.values())

    def reserve(self, wanted: ClaimFilter) -> ClaimableNode | None:
        """The next node, reserved for one claim until it is released or hidden."""
        node = next(iter(self._free(wanted, 1)), None)
        if node is not None:
            self._reserved[node.key] = None
        return node

    def release(self, node: ClaimableNode) -> None:
        """Give a reservation up; a hidden node stays hidden."""
        if self._reserved.get(node.key, _NOT_RESERVED) is None:
            del self._reserved[node.key]

    def hide(self, node: ClaimableNode, version: int, *, for_sec: float = 0.0) -> None:
        """Do not propose a node that is taken, or cannot be, until the index has this version, and for so long."""
        self._reserved[node.key] = _Hidden(version, self._clock.monotonic() + for_sec)

    def close(self) -> None:
        """Release all pending claims; new ones do not wait."""
        self._closed = True
        for waiting in self._pending.values():
            _wake(waiting)

    async def changed(self, wanted: ClaimFilter, timeout_sec: float) -> bool:
        """Wait until there may be a node for this claim; False when the time is over or the queue is closed."""
        if self._closed:
            return False
        woken = asyncio.Event()
        waiting = self._pending.setdefault(wanted, [])
        waiting.append(woken)
        self._added.set()
        try:
            return await wait_event(woken, timeout_sec) and not self._closed
        finally:
            if woken in waiting:
                waiting.remove(woken)
            if not waiting:
                self._pending.pop(wanted, None)

    async def run(self) -> None:
        """Wake pending claims until cancelled."""
        while True:
            await self._added.wait()
            with log_and_continue("claims"):
                await self._serve()
            await asyncio.sleep(MIN_WAIT_SEC)  # a failed iteration would fail again at once

    async def _serve(self) -> None:
        while self._pending:
            before = self._indexer.sequence
            wake_at = [self._wake_for_nodes(wanted, waiting) for wanted, waiting in list(self._pending.items())]
            lease_end_sec = min((at - self._clock.now() for at in wake_at if at is not None), default=CHECK_EVERY_SEC)
            # A lease that has ended already was offered before: it is checked again only after the pause.
            await self._indexer.wait_for_change(before, min(max(lease_end_sec, MIN_WAIT_SEC), CHECK_EVERY_SEC))
        self._added.clear()

    def _wake_for_nodes(self, wanted: ClaimFilter, waiting: list[asyncio.Event]) -> float | None:
        """Wake as many claims as there are nodes; returns when the next lease ends, for the remaining ones."""
        _wake(waiting, len(self._free(wanted, len(waiting))))
        if not waiting:
            return None
        return self._index.next_lease_end(wanted.graph_ids, tenant_id=wanted.tenant_id)

    def _free(self, wanted: ClaimFilter, limit: int) -> Sequence[ClaimableNode]:
        self._forget_known()
        found = self._index.claimable(
            wanted.graph_ids, tenant_id=wanted.tenant_id, now=self._clock.now(), limit=limit + len(self._reserved)
        )
        return [node for node in found if node.key not in self._reserved][:limit]

    def _forget_known(self) -> None:
        now = self._clock.monotonic()
        over = [(key, one.version) for key, one in self._reserved.items() if one is not None and one.until <= now]
        if not over:
            return
        known = self._index.known([run_id for (run_id, _), _ in over])
        for key, version in over:
            run = known.get(key[0])
            if run is None or run.version >= version:
                del self._reserved[key]


def _wake(waiting: list[asyncio.Event], count: int | None = None) -> None:
    """Wake the first `count` claims (None: all)."""
    for woken in waiting[:count]:
        woken.set()
    del waiting[:count]
