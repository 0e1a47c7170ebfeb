"""Removes finished runs after their retention time, and workers that were not seen for a month."""

from __future__ import annotations

import asyncio
import logging

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.worker_status import expired_workers
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores

logger = logging.getLogger(__name__)

RUNS_EVERY_SEC = 10.0
WORKERS_EVERY_SEC = 600.0
BATCH = 200
# Subject purges halve the append rate while they run, so they are spread out.
PAUSE_SEC = 0.02


async def remove_old_runs(stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
    """Remove what has outlived its retention time."""
    if config.run_retention_sec == 0:
        return
    ended_before = stores.clock.now() - config.run_retention_sec
    removed = 0
    # The index may show a run that is gone already, or one that cannot be read: neither may block those behind it.
    tried: set[RunId] = set()
    while old := [run_id for run_id in index.finished_before(ended_before, BATCH + len(tried)) if run_id not in tried]:
        for run_id in old:
            removed += await _remove(stores, run_id)
            await asyncio.sleep(PAUSE_SEC)
        tried.update(old)
    if removed:
        logger.info("removed old runs", extra={"runs": removed})


async def _remove(stores: Stores, run_id: RunId) -> bool:
    """Artifacts, logs and events first, then the snapshot: a crash in between is found again by the snapshot."""
    loaded = await stores.snapshots.load(run_id)
    if loaded is None or not loaded.execution.status.is_terminal:
        return False
    if loaded.execution.request.flow_name == REQUEST_FLOW:
        await stores.artifacts.delete_of(run_id)
    await stores.run_logs.purge(run_id)
    await stores.events.purge(run_id)
    return await stores.snapshots.remove(run_id, loaded.revision)


async def forget_workers(stores: Stores) -> None:
    """Remove workers that were not seen for long; one that reports meanwhile stays."""
    removed = 0
    for record in expired_workers(await stores.registry.all(), stores.clock.now()):
        removed += await stores.registry.remove(record)
        await asyncio.sleep(PAUSE_SEC)
    if removed:
        logger.info("removed old workers", extra={"workers": removed})
