"""Keeps a worker's runners in step with the wheels of the registry: between runs, and never at a good worker's cost.

    registry ─▶ needed ─▶ files (sha256 checked) ─▶ an environment of its own ─▶ pool.switch ─▶ manifest, collection
                                      │ a wheel fails: the others, and its next older version     │ no runner gets warm:
                                      ▼                                                           ▼ the old one stays
                                 wheel_sync of the worker says so, ERR-PYOCO-0024 is logged, and it is tried again

The worker's own environment is never written to, and no environment is changed once a run may be in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.wheels.requirements import LeftOut, Need, needed
from pyoco_server.domain.wheels.sync_state import InstalledSet, Result, SyncReport, WheelSyncState, report_to_plain
from pyoco_server.errors import InvalidUsage, PyocoError, WheelSyncFailed
from pyoco_server.ports import Clock, WheelStore
from pyoco_server.worker.installer import own_packages
from pyoco_server.worker.runner_pool import RunnerPool
from pyoco_server.worker.wheel_install import Prepared, WheelInstall

# What failed is tried again after one interval, then two, four …: the machine has other things to do than to run pip.
LONGEST_WAIT_SEC = 300.0

IDS = {"err_id": WheelSyncFailed.err_id, "msg_id": WheelSyncFailed.msg_id}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the registry held for us when we last acted on it, and what came of it.

    `failures` counts how often it went wrong; then it is acted on again, but not before `again_at`.
    """

    need: Need
    report: SyncReport
    failures: int = 0
    again_at: float = 0.0


class WheelSync:
    """One worker's sync; it owns the start of the pool, because a resolver may come in a wheel."""

    def __init__(
        self, store: WheelStore, pool: RunnerPool, config: NatsBackendConfig, tags: Sequence[str], clock: Clock
    ) -> None:
        self._store = store
        self._pool = pool
        self._config = config
        self._tags = tuple(sorted(set(tags)))
        self._clock = clock
        self._install = WheelInstall(store, Path(config.wheel_sync_dir).resolve(), config.wheel_install_timeout_sec)
        self._supported = tuple(sys_tags())
        self._own = own_packages()
        self._seen: _Seen | None = None
        self._in_use = InstalledSet(environment=None)
        self._told: Mapping[str, Any] | None = None

    @property
    def wheel_sync(self) -> Mapping[str, Any] | None:
        """What the worker says of it to the fleet."""
        return self._told

    async def start(self) -> None:
        """Start the pool: with what the registry has, else with what was there last, else with nothing but the worker's
        own; a registry that is away or a wheel that is broken must not keep a worker from its work.
        """
        need, prepared = await self._prepare_at_start()
        refused = ""
        if prepared is not None:
            try:
                await self._pool.start(prepared.lodging)
            except InvalidUsage as error:
                if prepared.lodging.environment is None:
                    raise
                self._refused(need, error)
                refused = prepared.lodging.key
            else:
                self._moved(need, prepared)
                await self._tidy_at_start()
                return
        await self._start_with_the_last(refused)

    async def run(self) -> None:
        """Look every interval, for ever."""
        while True:
            await asyncio.sleep(self._config.wheel_sync_interval_sec)
            try:
                await self.look()
            except (PyocoError, OSError) as error:
                self._fail(_words(error))
            except Exception as error:
                # The outer loop of the sync: whatever is wrong with wheels, the worker goes on with what it has.
                logger.exception("a sync of wheels broke", extra=IDS)
                self._fail(_words(error))

    async def look(self) -> None:
        """Compare with the registry and move, when something has changed or it is time to try again."""
        need = await self._need()
        seen = self._seen
        if seen is not None and seen.need.packages == need.packages:
            if not seen.failures:
                await self._install.record(self._tags, self._in_use)
                if await self._install.has_leftovers():
                    await self._tidy()
                self._say(replace(seen.report, at=self._clock.now(), skipped=need.skipped))
                return
            if self._clock.monotonic() < seen.again_at:
                self._say(self._still(seen.report))
                return
        prepared = await self._install.prepare(need, self._in_use)
        if prepared.lodging.key == (self._in_use.environment or ""):
            prepared.lodging.leave()
        elif not await self._switch(need, prepared):
            return
        self._moved(need, prepared)
        await self._tidy()

    # --- preparing ----------------------------------------------------------------------------------------------------

    async def _need(self) -> Need:
        wheels = await self._store.all()
        # In a thread: a registry of some thousand wheels is no reason to be late with heartbeats.
        judge = partial(needed, wheels, tags=set(self._tags), supported=self._supported, own=self._own)
        return await asyncio.to_thread(judge)

    async def _prepare_at_start(self) -> tuple[Need, Prepared | None]:
        need = Need(packages={}, skipped=())
        patience_sec = self._config.wheel_install_timeout_sec
        try:
            async with asyncio.timeout(patience_sec):
                need = await self._need()
                return need, await self._install.prepare(need, self._in_use)
        except TimeoutError:
            self._fail(f"not done within {patience_sec:g} s; it goes on while the worker works")
        except (PyocoError, OSError) as error:
            self._fail(_words(error))
        return need, None

    # --- moving -------------------------------------------------------------------------------------------------------

    async def _switch(self, need: Need, prepared: Prepared) -> bool:
        """Whether the pool has moved; otherwise it is where it was, and that has been told."""
        try:
            await self._pool.switch(prepared.lodging)
        except InvalidUsage as error:
            self._refused(need, error)
            return False
        return True

    def _moved(self, need: Need, prepared: Prepared) -> None:
        """The pool is there: say how it went."""
        if prepared.lodging.key != (self._in_use.environment or ""):
            facts = {"environment": prepared.lodging.key, "wheels": [one.name for one in prepared.installed]}
            logger.info("wheels changed", extra=facts)
        recorded = self._install.recorded(self._tags) or self._in_use
        before = {state.nuid: state for state in (*recorded.wheels, *self._in_use.wheels)}
        now = self._clock.now()
        states = (before.get(one.wheel.nuid) or WheelSyncState.of(one, now) for one in prepared.installed)
        self._in_use = InstalledSet(environment=prepared.lodging.key or None, wheels=tuple(states))
        for one in prepared.failed:
            why = {"wheel_name": one.wheel_name, "reason": one.reason}
            logger.warning(WheelSyncFailed.message(), extra=why | IDS)
        for one in need.skipped:
            logger.info("a wheel is skipped", extra={"wheel_name": one.wheel_name, "reason": one.reason})
        result: Result = "partial" if prepared.failed else "ok"
        self._acted(need, self._report(result, skipped=need.skipped, failed=prepared.failed))

    def _refused(self, need: Need, error: InvalidUsage) -> None:
        reason = f"no runner can start with the latest wheels, so it goes on without them: {error.detail}"
        logger.warning(WheelSyncFailed.message(), extra={"reason": reason} | IDS)
        self._acted(need, self._report("failed", skipped=need.skipped, error=reason))

    async def _start_with_the_last(self, refused: str) -> None:
        recorded = self._install.recorded(self._tags) or self._in_use
        lodging = self._install.lodging(recorded) if recorded.environment != refused else None
        if lodging is not None:
            try:
                await self._pool.start(lodging)
            except InvalidUsage as error:
                self._fail(f"no runner could start with the last wheels: {error.detail}")
            else:
                self._in_use = recorded
                self._say(self._still(self._said))
                return
        await self._pool.start()

    def _acted(self, need: Need, report: SyncReport) -> None:
        """Remember what we acted on and what came of it, and say so."""
        self._say(report)
        if report.result == "ok":
            self._seen = _Seen(need=need, report=report)
            return
        failures = 1
        if self._seen is not None and self._seen.need.packages == need.packages:
            failures += self._seen.failures
        interval_sec = self._config.wheel_sync_interval_sec
        wait_sec = min(interval_sec * 2 ** (failures - 1), LONGEST_WAIT_SEC)
        # A little early: the look that comes after the wait is meant, not the one after that.
        again_at = self._clock.monotonic() + wait_sec - interval_sec / 2
        self._seen = _Seen(need=need, report=report, failures=failures, again_at=again_at)

    # --- keeping order ------------------------------------------------------------------------------------------------

    async def _tidy_at_start(self) -> None:
        try:
            await self._tidy()
        except (PyocoError, OSError) as error:
            self._fail(_words(error))

    async def _tidy(self) -> None:
        """Put what is in use into the manifest, and clear away what nobody needs."""
        await self._install.record(self._tags, self._in_use)
        gone = await self._install.collect()
        if gone:
            logger.info("old environments removed", extra={"environments": gone})

    # --- telling ------------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        logger.warning(WheelSyncFailed.message(), extra={"reason": reason} | IDS)
        self._say(self._report("failed", error=reason))

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

    def _still(self, report: SyncReport) -> SyncReport:
        """The same news, with what is in use by now."""
        return replace(report, environment=self._in_use.environment, installed=self._in_use.wheels)

    def _say(self, report: SyncReport) -> None:
        self._said = report
        self._told = report_to_plain(report)


def _words(error: Exception) -> str:
    return error.detail if isinstance(error, PyocoError) else f"{type(error).__name__}: {error}"
