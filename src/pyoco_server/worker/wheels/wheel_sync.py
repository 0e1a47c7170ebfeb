"""Keeps a worker's runners in step with the wheel registry, between runs. A bad wheel never stops a worker.

    registry ─▶ needed ─▶ files (sha256 checked) ─▶ new environment ─▶ pool.switch ─▶ manifest, collection
                               │ a wheel fails: the others, and its next older version   │ no warm runner: the old
                               ▼                                                         ▼ environment stays
                          ERR-PYOCO-0024 in `wheel_sync` of the worker and in the log; retried with backoff

The worker's own environment is never changed, nor any environment that a run may use. Tenants with wheels of their own
get an environment with those and the shared ones, unless runners are shared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs
from packaging.tags import sys_tags

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.wheels.requirements import LeftOut, Need, needed
from pyoco_server.domain.wheels.sync_state import InstalledSet, Result, SyncReport, WheelSyncState, report_to_plain
from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.errors import InvalidUsage, PyocoError, WheelSyncFailed
from pyoco_server.ports import Clock, WheelStore
from pyoco_server.worker.backoff import Backoff
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.wheels.environments import PreparedEnvironment
from pyoco_server.worker.wheels.venv_builder import own_packages
from pyoco_server.worker.wheels.wheel_installer import WheelInstaller

# Reports of tenants in the worker's record, which is read with every list of workers.
MOST_TENANTS = 50
# A failed sync is retried after one interval, then two, four …, so that pip does not use up the machine.
LONGEST_WAIT_SEC = 300.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastSync:
    """What was needed at the last sync, and its report; a failed one is retried after `retry_at`."""

    need: Need
    report: SyncReport
    backoff: Backoff | None = None
    retry_at: float = 0.0


class WheelSync:
    """The sync of one worker. It starts the pool, because a resolver may come in a wheel.

    With a `tenant_id` it is the part for that tenant, which the whole one starts and runs.
    """

    def __init__(
        self,
        store: WheelStore,
        pool: RunnerPool,
        config: NatsBackendConfig,
        tags: Sequence[str],
        clock: Clock,
        tenant_id: str | None = None,
    ) -> None:
        self._store = store
        self._pool = pool
        self._config = config
        self._tags = tuple(sorted(set(tags)))
        self._clock = clock
        self._installer = WheelInstaller(
            store, Path(config.wheel_sync_dir).resolve(), config.wheel_install_timeout_sec, pool.user
        )
        self._supported = tuple(sys_tags())
        self._own = own_packages()
        self._last_sync: _LastSync | None = None
        self._tenant_id = tenant_id
        self._tenants: dict[str, WheelSync] = {}
        self._in_use = self._nothing = InstalledSet(tags=self._tags, environment=None, wheels=(), tenant_id=tenant_id)
        self._plain_report: Mapping[str, Any] | None = None

    @property
    def wheel_sync(self) -> Mapping[str, Any] | None:
        """The report; those of tenants by tenant, failed ones first. Callers of a tenant are shown their own only."""
        if self._plain_report is None or not self._tenants:
            return self._plain_report
        reports = {tenant_id: one.wheel_sync for tenant_id, one in self._tenants.items() if one.wheel_sync is not None}
        failed_first = sorted(reports.items(), key=lambda item: (item[1]["last_result"] == "ok", item[0]))
        return {**self._plain_report, "tenants": dict(failed_first[:MOST_TENANTS])}

    async def start(self) -> None:
        """Starts the pool with the registry's wheels, else with those used last, else without any.

        Neither an unavailable registry nor a broken wheel keeps the worker from starting.
        """
        await self._start_pool()
        try:
            async with asyncio.timeout(self._config.wheel_install_timeout_sec):
                await self._sync_tenants(await self._store.all())
        except TimeoutError:
            logger.warning("wheels of tenants are not installed yet; it continues while the worker runs")
        except (PyocoError, OSError) as error:
            self._fail(_reason(error))

    async def _start_pool(self) -> None:
        need, prepared = await self._prepare_at_start()
        if prepared is None:
            await self._start_with_last()
            return
        try:
            await self._pool.start(prepared.lease)
        except InvalidUsage as error:
            if prepared.lease.environment.folder is None:
                raise
            self._report_refused(need, error)
            await self._start_with_last(refused=prepared.lease.environment.key)
            return
        self._report_switched(need, prepared)
        try:
            await self._clean_up()
        except (PyocoError, OSError) as error:
            self._fail(_reason(error))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._config.wheel_sync_interval_sec)
            try:
                await self.sync()
            except (PyocoError, OSError) as error:
                self._fail(_reason(error))
            except Exception as error:
                # The outermost loop: whatever is wrong with wheels, the worker continues with what it has.
                logger.exception("wheel sync failed", extra=WheelSyncFailed.ids())
                self._fail(_reason(error))

    async def sync(self) -> None:
        """Switches environments if the registry has changed or a retry is due."""
        wheels = await self._store.all()
        await self._sync_set(wheels)
        await self._sync_tenants(wheels)

    async def _sync_tenants(self, wheels: Sequence[Wheel]) -> None:
        if self._pool.isolation == "shared":
            return
        tags = frozenset(self._tags)
        present = {wheel.tenant_id for wheel in wheels if wheel.tenant_id is not None and wheel.is_for(tags)}
        for tenant_id in sorted(self._tenants.keys() - present):
            # Its environment and the entry in the manifest are removed when none of its runs is left.
            await self._pool.forget_tenant(tenant_id)
            await self._installer.record(self._tenants.pop(tenant_id)._nothing)
        for tenant_id in sorted(present):
            if tenant_id not in self._tenants:
                self._tenants[tenant_id] = WheelSync(
                    self._store, self._pool, self._config, self._tags, self._clock, tenant_id
                )
            tenant = self._tenants[tenant_id]
            try:
                await tenant._sync_set(wheels)
            except (PyocoError, OSError) as error:
                tenant._fail(_reason(error))
            except Exception as error:
                # Whatever is wrong with the wheels of one tenant, the others and the worker continue.
                logger.exception("wheel sync failed", extra=WheelSyncFailed.ids() | tenant._log_fields())
                tenant._fail(_reason(error))

    async def _sync_set(self, wheels: Sequence[Wheel]) -> None:
        need = await self._need(wheels)
        last = self._last_sync
        if last is not None and last.need.packages == need.packages:
            if last.backoff is None:
                await self._installer.record(self._in_use)
                if await self._installer.has_leftovers():
                    await self._clean_up()
                self._publish(replace(last.report, at=self._clock.now(), skipped=need.skipped))
                return
            if self._clock.monotonic() < last.retry_at:
                self._publish(self._with_current(last.report))
                return
        prepared = await self._installer.prepare(need, self._in_use)
        if prepared.lease.environment.key == (self._in_use.environment or ""):
            prepared.lease.release()
        else:
            try:
                # What this worker recorded has started once; after a restart many tenants would take long to try.
                recorded = self._installer.recorded(self._in_use)
                is_tried = recorded is not None and recorded.environment == prepared.lease.environment.key
                await self._pool.switch(prepared.lease, self._tenant_id, is_tried=is_tried)
            except InvalidUsage as error:
                self._report_refused(need, error)
                return
        self._report_switched(need, prepared)
        await self._clean_up()

    # --- preparing ----------------------------------------------------------------------------------------------------

    async def _need(self, all_wheels: Sequence[Wheel]) -> Need:
        wheels = [wheel for wheel in all_wheels if wheel.tenant_id in (None, self._tenant_id)]
        # In a thread: a registry of some thousand wheels is no reason to be late with heartbeats.
        judge = partial(needed, wheels, tags=set(self._tags), supported=self._supported, own=self._own)
        return await asyncio.to_thread(judge)

    async def _prepare_at_start(self) -> tuple[Need, PreparedEnvironment | None]:
        need = Need(packages={}, skipped=())
        patience_sec = self._config.wheel_install_timeout_sec
        try:
            async with asyncio.timeout(patience_sec):
                need = await self._need(await self._store.all())
                return need, await self._installer.prepare(need, self._in_use)
        except TimeoutError:
            self._fail(f"not done within {patience_sec:g} s; it continues while the worker runs")
        except (PyocoError, OSError) as error:
            self._fail(_reason(error))
        return need, None

    # --- switching ----------------------------------------------------------------------------------------------------

    def _report_switched(self, need: Need, prepared: PreparedEnvironment) -> None:
        if prepared.lease.environment.key != (self._in_use.environment or ""):
            names = [one.name for one in prepared.installed]
            facts = {"environment": prepared.lease.environment.key, "wheels": names, **self._log_fields()}
            logger.info("wheels changed", extra=facts)
        recorded = self._installer.recorded(self._in_use) or self._in_use
        before = {state.nuid: state for state in (*recorded.wheels, *self._in_use.wheels)}
        now = self._clock.now()
        states = (before.get(one.wheel.nuid) or WheelSyncState.of(one, now) for one in prepared.installed)
        self._in_use = structs.replace(
            self._in_use, environment=prepared.lease.environment.key or None, wheels=tuple(states)
        )
        for one in prepared.failed:
            fields = {"wheel_name": one.wheel_name, "reason": one.reason}
            logger.warning(WheelSyncFailed.message(), extra=fields | WheelSyncFailed.ids() | self._log_fields())
        for one in need.skipped:
            logger.info("wheel skipped", extra={"wheel_name": one.wheel_name, "reason": one.reason})
        result: Result = "partial" if prepared.failed else "ok"
        self._record_sync(need, self._report(result, skipped=need.skipped, failed=prepared.failed))

    def _report_refused(self, need: Need, error: InvalidUsage) -> None:
        reason = f"no runner can start with the latest wheels, so the worker continues without them: {error.detail}"
        logger.warning(WheelSyncFailed.message(), extra={"reason": reason} | WheelSyncFailed.ids() | self._log_fields())
        self._record_sync(need, self._report("failed", skipped=need.skipped, error=reason))

    async def _start_with_last(self, refused: str = "") -> None:
        recorded = self._installer.recorded(self._in_use) or self._in_use
        lease = self._installer.lease(recorded) if recorded.environment != refused else None
        if lease is not None:
            try:
                await self._pool.start(lease)
            except InvalidUsage as error:
                self._fail(f"no runner could start with the last wheels: {error.detail}")
            else:
                self._in_use = recorded
                self._publish(self._with_current(self._published))
                return
        await self._pool.start()

    def _record_sync(self, need: Need, report: SyncReport) -> None:
        """Publishes the report and schedules the retry of a failed sync."""
        self._publish(report)
        last, interval_sec = self._last_sync, self._config.wheel_sync_interval_sec
        self._last_sync = _LastSync(need=need, report=report)
        if report.result == "ok":
            return
        is_repeated = last is not None and last.need.packages == need.packages
        known = last.backoff if last is not None and is_repeated else None
        backoff = known or Backoff(interval_sec, LONGEST_WAIT_SEC)
        # A little early, so that the sync right after the wait retries, not the one after that.
        retry_at = self._clock.monotonic() + backoff.next_sec() - interval_sec / 2
        self._last_sync = _LastSync(need=need, report=report, backoff=backoff, retry_at=retry_at)

    # --- cleaning up --------------------------------------------------------------------------------------------------

    async def _clean_up(self) -> None:
        """Records what is in use in the manifest, and removes what is unused."""
        await self._installer.record(self._in_use)
        removed = await self._installer.collect()
        if removed:
            logger.info("old environments removed", extra={"environments": removed})

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        logger.warning(WheelSyncFailed.message(), extra={"reason": reason} | WheelSyncFailed.ids() | self._log_fields())
        self._publish(self._report("failed", error=reason))

    def _report(
        self,
        result: Result,
        *,
        skipped: Sequence[LeftOut] = (),
        failed: Sequence[LeftOut] = (),
        error: str | None = None,
    ) -> SyncReport:
        return SyncReport(
            at=self._clock.now(),
            result=result,
            environment=self._in_use.environment,
            installed=self._in_use.wheels,
            skipped=skipped,
            failed=failed,
            error=error,
            err_id=None if result == "ok" else WheelSyncFailed.err_id,
        )

    def _with_current(self, report: SyncReport) -> SyncReport:
        return replace(report, environment=self._in_use.environment, installed=self._in_use.wheels)

    def _log_fields(self) -> dict[str, str]:
        return {} if self._tenant_id is None else {"tenant_id": self._tenant_id}

    def _publish(self, report: SyncReport) -> None:
        self._published = report
        self._plain_report = report_to_plain(report)


def _reason(error: Exception) -> str:
    return error.detail if isinstance(error, PyocoError) else f"{type(error).__name__}: {error}"
