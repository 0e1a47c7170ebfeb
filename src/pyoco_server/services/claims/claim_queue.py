"""Hands out nodes to those who ask for work: the oldest execution first, each node to one of them, with a lease.

    claim ─▶ anything in the index? ──yes──▶ reserve ─▶ StartNode (attempt + 1) ──▶ taken
               │ no                             └── somebody was faster: the next one
               ▼
             wait in line until the index has something, a lease ends, or the time is over

The index only proposes: StartNode is decided on the log, so no node has two holders, at whichever gateways they asked.
Those who wait do not look for themselves: of a hundred in line for one graph, as many are woken as there are nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyoco_server.domain.queries.steps import ClaimableNode, NodeKey
from pyoco_server.ports import Clock, RunIndex
from pyoco_server.services.maintenance.error_handling import log_and_continue
from pyoco_server.services.projections.indexer import Indexer

# How long the line waits for a change of the index before it looks at the clock again.
LOOK_EVERY_SEC = 1.0
SHORTEST_SEC = 0.05
# How long a node is left alone that could not be taken: whatever the reason, it may be so for a while.
REFUSED_FOR_SEC = 0.5


class _Settled(NamedTuple):
    version: int
    until: float


_SETTLED = _Settled(0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFilter:
    """Work of these graphs, of those that exist for this tenant (None: all)."""

    graph_ids: tuple[str, ...]
    tenant_id: str | None


class ClaimQueue:
    """The line of one gateway. `run` is its whole life."""

    def __init__(self, index: RunIndex, follower: Indexer, clock: Clock) -> None:
        self._index = index
        self._follower = follower
        self._clock = clock
        self._line: dict[ClaimFilter, list[asyncio.Future[None]]] = {}
        # Nodes that somebody here is about to take, and those of which the index does not know yet what came of it.
        self._reserved: dict[NodeKey, _Settled | None] = {}
        self._joined = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait for work, for the metrics."""
        return sum(len(line) for line in self._line.values())

    def reserve(self, wanted: ClaimFilter) -> ClaimableNode | None:
        """The next node, for nobody else here until it is released or settled."""
        node = next(iter(self._free(wanted, 1)), None)
        if node is not None:
            self._reserved[node.key] = None
        return node

    def release(self, node: ClaimableNode) -> None:
        """Nothing came of it; what was settled stays so."""
        if self._reserved.get(node.key, _SETTLED) is None:
            del self._reserved[node.key]

    def settle(self, node: ClaimableNode, version: int, *, for_sec: float = 0.0) -> None:
        """It is taken, or cannot be, as of this version: no proposal until the index knows that, and for so long."""
        self._reserved[node.key] = _Settled(version, self._clock.monotonic() + for_sec)

    def close(self) -> None:
        """Let everybody go who waits in line; from now on nobody waits."""
        self._closed = True
        for line in self._line.values():
            for turn in line:
                if not turn.done():
                    turn.set_result(None)

    async def changed(self, wanted: ClaimFilter, timeout_sec: float) -> bool:
        """Wait in line until there may be something for this one; False when the time is over, or the line closed."""
        if self._closed:
            return False
        turn = asyncio.get_running_loop().create_future()
        line = self._line.setdefault(wanted, [])
        line.append(turn)
        self._joined.set()
        try:
            async with asyncio.timeout(timeout_sec):
                await turn
        except TimeoutError:
            return False
        finally:
            if turn in line:
                line.remove(turn)
            if not line:
                self._line.pop(wanted, None)
        return not self._closed

    async def run(self) -> None:
        """Wake those in line, for ever."""
        while True:
            await self._joined.wait()
            with log_and_continue("claims"):
                await self._serve()
            await asyncio.sleep(SHORTEST_SEC)  # a round that broke would break again at once

    async def _serve(self) -> None:
        while self._line:
            before = self._follower.sequence
            wakes_at = [self._wake(wanted, line) for wanted, line in list(self._line.items())]
            lease_end_sec = min((at - self._clock.now() for at in wakes_at if at is not None), default=LOOK_EVERY_SEC)
            # A lease that is over already is somebody's business by now: ours only if that comes to nothing.
            await self._follower.wait_for_change(before, min(max(lease_end_sec, SHORTEST_SEC), LOOK_EVERY_SEC))
        self._joined.clear()

    def _wake(self, wanted: ClaimFilter, line: list[asyncio.Future[None]]) -> float | None:
        """Wake as many as there are nodes for; when the next lease ends, for those who stay."""
        for _ in self._free(wanted, len(line)):
            turn = line.pop(0)
            if not turn.done():
                turn.set_result(None)
        if not line:
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
            shown = known.get(key[0])
            if shown is None or shown[0] >= version:
                del self._reserved[key]
