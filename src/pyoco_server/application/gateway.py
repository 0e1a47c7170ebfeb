"""What a gateway can be asked: take a run, show one, list many. It answers lists from its index, never by a scan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco_server.application.cancel import cancel
from pyoco_server.application.caretaker import Caretaker
from pyoco_server.application.figures import Figures, figures
from pyoco_server.application.handle import Handled
from pyoco_server.application.indexing import IndexFollower
from pyoco_server.application.ports import RunIndex, RunQuery
from pyoco_server.application.stores import Origin, Stores
from pyoco_server.application.submit import submit
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable, RunNotFound
from pyoco_server.execution.ids import RunId
from pyoco_server.execution.state import Execution, Request

# How long a list waits until the index shows what this gateway itself has just written.
OWN_WRITE_WAIT_SEC = 0.05
# How long a list waits for an index that is being built.
FIRST_FILL_WAIT_SEC = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The stores and this process's own index of them."""

    stores: Stores
    index: RunIndex
    follower: IndexFollower
    caretaker: Caretaker
    config: NatsBackendConfig

    async def submit(self, request: Request, labels: tuple[str, ...], origin: Origin) -> Execution:
        """Accept a run; when this returns, no kill of any process can lose it."""
        execution = await submit(self.stores, request, labels, origin)
        self.caretaker.vouch(execution.execution_id)
        return execution

    async def get_snapshot(self, run_id: RunId, *, sees: str | None) -> Mapping[str, Any]:
        """The stored snapshot of a run; a run of another tenant than the one the caller sees is not there."""
        loaded = await self.stores.snapshots.load(run_id)
        if loaded is None or sees not in (None, loaded.execution.request.tenant_id):
            raise RunNotFound(run_id=run_id)
        return loaded.plain

    async def cancel(self, run_id: RunId, reason: str | None, origin: Origin, *, sees: str | None) -> Handled:
        """Ask for a run to stop."""
        if sees is not None:
            await self.get_snapshot(run_id, sees=sees)
        return await cancel(self.stores, run_id, reason, origin.actor.id, origin)

    async def list_summaries(self, query: RunQuery) -> Sequence[bytes]:
        """The runs that fit, as JSON."""
        await self._fresh()
        return self.index.summaries(query)

    async def list_snapshots(self, query: RunQuery) -> Sequence[Mapping[str, Any]]:
        """The runs that fit, whole; one that was removed meanwhile is left out."""
        await self._fresh()
        found = await asyncio.gather(*(self.stores.snapshots.load(run_id) for run_id in self.index.run_ids(query)))
        return [loaded.plain for loaded in found if loaded is not None]

    async def figures(self, *, sees: str | None) -> Figures:
        """The figures of the runs that the caller sees; for one who sees all, those of this process too."""
        await self._fresh()
        alive_within_sec = self.config.workers_kv_ttl_sec
        return await figures(self.stores, self.index, self.follower, sees=sees, alive_within_sec=alive_within_sec)

    async def _fresh(self) -> None:
        """A stale list would look true: refuse it while the broker is away or the index is not filled."""
        if not self.stores.broker.connected:
            raise NatsUnavailable
        if not await self.follower.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise NatsUnavailable("the list is being built after a start; try again in a moment")
        await self.follower.reached(self.stores.snapshots.last_revision, OWN_WRITE_WAIT_SEC)
