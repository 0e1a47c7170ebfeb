"""What a gateway can be asked: take a run, show one, list many. It answers lists from its index, never by a scan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.worker_status import WorkerQuery, WorkerStatus, filter_workers
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.ports import RunIndex
from pyoco_server.services.auth.authenticator import Authenticator
from pyoco_server.services.auth.tickets import Tickets
from pyoco_server.services.claims.claim_queue import ClaimQueue
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.discard import discard
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.execution_service import ExecutionService
from pyoco_server.services.executions.labels import add_label, remove_label
from pyoco_server.services.executions.submit import submit
from pyoco_server.services.executions.workflow import Workflow
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.graphs import Graphs
from pyoco_server.services.maintenance.periodic import Maintenance
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.services.projections.lists import FIRST_FILL_WAIT_SEC, HEAVY_LISTS, Lists
from pyoco_server.services.projections.metrics import Metrics, figures
from pyoco_server.services.streaming.log_stream_hub import LogStreamHub
from pyoco_server.services.streaming.watch_hub import WatchHub
from pyoco_server.services.wheels import UPLOADS, Wheels
from pyoco_server.stores import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The stores and this process's own index of them; `door` where not everybody is let in."""

    stores: Stores
    index: RunIndex
    follower: Indexer
    caretaker: Maintenance
    fleet: FleetView
    watches: WatchHub
    log_feed: LogStreamHub
    live: EventLog
    desk: ExecutionCache
    claims: ClaimQueue
    config: NatsBackendConfig
    door: Authenticator | None = None
    heavy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(HEAVY_LISTS))
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS))

    @property
    def lists(self) -> Lists:
        """Lists of runs, from the index."""
        return Lists(
            stores=self.stores,
            index=self.index,
            follower=self.follower,
            heavy=self.heavy,
            settle=self.desk.settle,
        )

    @property
    def executions(self) -> ExecutionService:
        """Executions as their events, and the commands that bring about more of them."""
        return ExecutionService(
            stores=self.stores,
            desk=self.desk,
            config=self.config,
            flow_of=self._announced_flow,
            mark_submitted=self.caretaker.mark_submitted,
        )

    @property
    def wheels(self) -> Wheels:
        """The wheel registry."""
        return Wheels(self.stores)

    @property
    def graphs(self) -> Graphs:
        """Graphs by name."""
        return Graphs(stores=self.stores, flows=self.fleet.announced_flows)

    @property
    def tickets(self) -> Tickets:
        """Tickets for those who cannot show who they are."""
        return Tickets(store=self.stores.tickets, clock=self.stores.clock, ids=self.stores.ids)

    def let_go(self) -> None:
        """End the answers that would go on for as long as a run does, or wait for work: the process is to stop."""
        self.watches.close()
        self.claims.close()

    async def submit(
        self,
        request: Request,
        labels: tuple[str, ...],
        origin: CommandContext,
        workflow: Workflow | None = None,
        *,
        run_id: RunId | None = None,
    ) -> Execution:
        """Accept a run; when this returns, no kill of any process can lose it."""
        execution = await submit(self.stores, request, labels, origin, workflow, run_id=run_id)
        self.caretaker.mark_submitted(execution.execution_id)
        return execution

    async def get_snapshot(self, run_id: RunId, *, tenant_filter: str | None) -> Mapping[str, Any]:
        """The stored snapshot of a run; a run of another tenant than the one the caller sees is not there.

        What this gateway has answered for is in it.
        """
        await self.desk.settle_one(run_id)
        loaded = await self.stores.snapshots.load(run_id)
        if loaded is None or tenant_filter not in (None, loaded.execution.request.tenant_id):
            raise RunNotFound(run_id=run_id)
        return loaded.plain

    async def cancel(
        self, run_id: RunId, reason: str | None, origin: CommandContext, *, tenant_filter: str | None
    ) -> CommandResult:
        """Ask for a run to stop."""
        await self._check_seen(run_id, tenant_filter)
        return await cancel(self.stores, run_id, reason, origin.actor.id, origin)

    async def discard(self, run_id: RunId, origin: CommandContext, *, tenant_filter: str | None) -> CommandResult:
        """Cancel a run, or take a finished one out of the lists."""
        await self._check_seen(run_id, tenant_filter)
        return await discard(self.stores, run_id, origin)

    async def add_label(
        self, run_id: RunId, label: str, origin: CommandContext, *, tenant_filter: str | None
    ) -> CommandResult:
        """Put a label on a run, also on a finished one."""
        await self._check_seen(run_id, tenant_filter)
        return await add_label(self.stores, run_id, label, origin)

    async def remove_label(
        self, run_id: RunId, label: str, origin: CommandContext, *, tenant_filter: str | None
    ) -> CommandResult:
        """Take a label off a run."""
        await self._check_seen(run_id, tenant_filter)
        return await remove_label(self.stores, run_id, label, origin)

    async def _check_seen(self, run_id: RunId, tenant_filter: str | None) -> None:
        if tenant_filter is not None:
            await self.get_snapshot(run_id, tenant_filter=tenant_filter)

    async def list_workers(self, query: WorkerQuery) -> Sequence[WorkerStatus]:
        """The workers that fit, in order."""
        return filter_workers(await self.whole_fleet(), query)

    async def whole_fleet(self) -> Sequence[WorkerStatus]:
        """Every worker; refused while nobody can tell, because a missing worker would look like a dead one."""
        if not self.stores.broker.connected:
            raise BrokerUnavailable
        if not await self.fleet.wait_caught_up(FIRST_FILL_WAIT_SEC):
            raise BrokerUnavailable("the list of workers is being built after a start; try again in a moment")
        return self.fleet.sightings()

    async def _announced_flow(self, name: str) -> AnnouncedFlow | None:
        await self.whole_fleet()
        return self.fleet.announced_flow(name)

    def runs_of(self, tenant_id: str, among: Sequence[RunId]) -> Set[RunId]:
        """Which of these runs are this tenant's; one that the index does not know yet is nobody's."""
        return {run_id for run_id, owner in self.index.tenants(among).items() if owner == tenant_id}

    async def figures(self, *, tenant_filter: str | None) -> Metrics:
        """The figures of the runs that the caller sees; for one who sees all, those of this process too."""
        await self.lists.fresh()
        return await figures(
            self.stores,
            self.index,
            self.follower,
            tenant_filter=tenant_filter,
            workers_alive=self.fleet.alive(),
            watchers=self.watches.open_count,
            claims_waiting=self.claims.waiting,
        )
