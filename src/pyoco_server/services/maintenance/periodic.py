"""The background jobs of a gateway. All gateways may run them at once: compare-and-set makes a second try harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.loops import Periodic
from pyoco_server.services.maintenance import cancels, dead_jobs, lost_events, lost_workers, retention, snapshots
from pyoco_server.stores.feed import Feed


def maintenance_jobs(
    stores: Stores,
    index: RunIndex,
    feed: Feed,
    config: NatsBackendConfig,
    fleet: FleetView,
    queued: set[RunId],
    *,
    is_recorded: Callable[[Execution], bool] = retention.always,
) -> Sequence[Periodic]:
    """The table of jobs; `queued` has the runs that this gateway has submitted.

    Retention leaves runs for later that are not `is_recorded` in the audit trail.
    """
    remove_old_runs = partial(retention.remove_old_runs, stores, index, config, is_recorded=is_recorded)
    repairer = snapshots.SnapshotRepairer(stores, index, feed, queued)
    rescuer = lost_workers.LostWorkerRescuer(stores, index, config)
    strays = lost_workers.StrayRequeuer(stores, index, config)
    checker = lost_events.LostEventsChecker(stores, index)
    sweeper = dead_jobs.DeadJobSweeper(stores, index, fleet)
    return (
        Periodic("commits", snapshots.EVERY_SEC, repairer.note_commits),
        Periodic("snapshots", snapshots.EVERY_SEC, repairer.repair),
        Periodic("cancels", cancels.CANCELS_EVERY_SEC, partial(cancels.confirm_cancels, stores, index, config)),
        Periodic("nodes", cancels.NODES_EVERY_SEC, partial(cancels.expire_nodes, stores, index)),
        Periodic("lost workers", lost_workers.CHECK_EVERY_SEC, rescuer.check),
        Periodic("strays", lost_workers.STRAYS_EVERY_SEC, strays.requeue),
        Periodic("dead jobs", dead_jobs.SWEEP_EVERY_SEC, sweeper.sweep, sweeper.wake),
        Periodic("lost events", lost_events.LOOK_EVERY_SEC, checker.check),
        Periodic("retention", retention.RUNS_EVERY_SEC, remove_old_runs),
        Periodic("workers", retention.WORKERS_EVERY_SEC, partial(retention.forget_workers, stores)),
    )
