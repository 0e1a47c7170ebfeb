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
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags

from pyoco_server.application.ports import Clock, WheelStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidRequest, InvalidUsage, PyocoError, WheelCorrupt, WheelNotFound, WheelSyncFailed
from pyoco_server.wheelhouse.needed import Candidate, LeftOut, Need, in_order_of_need, needed
from pyoco_server.wheelhouse.synced import InstalledSet, Result, SyncReport, WheelSyncState, report_to_plain
from pyoco_server.worker.environment import Lodging
from pyoco_server.worker.environments import Built, Environments, Fetched
from pyoco_server.worker.installer import own_packages
from pyoco_server.worker.runner_pool import RunnerPool
from pyoco_server.worker.sync_folder import SyncFolder
from pyoco_server.worker.wheel_files import WheelFiles, required_by

# What failed is tried again after one interval, then two, four …: the machine has other things to do than to run pip.
LONGEST_WAIT_SEC = 300.0

IDS = {"err_id": WheelSyncFailed.err_id, "msg_id": WheelSyncFailed.msg_id}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An environment that is ready to be moved into, what is in it, and what is not."""

    lodging: Lodging
    installed: tuple[Candidate, ...]
    failed: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the registry held for us when we last acted on it, how often that failed, and when to act on it again."""

    need: Need
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
        self._folder = SyncFolder(Path(config.wheel_sync_dir).resolve())
        self._files = WheelFiles(self._folder.files, store)
        self._environments = Environments(self._folder.environments, config.wheel_install_timeout_sec)
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
                self._note_failure(need)
                self._fail(f"no runner could start with the latest wheels: {error.detail}")
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
            if seen.failures and self._clock.monotonic() < seen.again_at:
                return
            if not seen.failures:
                await self._keep_manifest()
                self._tell(need, "ok", ())
                return
        prepared = await self._prepare(need)
        if prepared.lodging.key == (self._in_use.environment or ""):
            prepared.lodging.leave()
        else:
            await self._switch(need, prepared)
        self._moved(need, prepared)
        await self._tidy()

    # --- preparing ----------------------------------------------------------------------------------------------------

    async def _need(self) -> Need:
        wheels = await self._store.all()
        return needed(wheels, tags=set(self._tags), supported=self._supported, own=self._own)

    async def _prepare_at_start(self) -> tuple[Need, Prepared | None]:
        need = Need(packages={}, skipped=())
        patience_sec = self._config.wheel_install_timeout_sec
        try:
            async with asyncio.timeout(patience_sec):
                need = await self._need()
                return need, await self._prepare(need)
        except TimeoutError:
            self._fail(f"not done within {patience_sec:g} s; it goes on while the worker works")
        except (PyocoError, OSError) as error:
            self._fail(_words(error))
        return need, None

    async def _prepare(self, need: Need) -> Prepared:
        async with self._folder.locked(self._config.wheel_install_timeout_sec):
            built = await self._install(need)
            environment = built.environment
            lodging = Lodging() if environment is None else self._environments.enter(environment)
        return Prepared(lodging=lodging, installed=tuple(one.candidate for one in built.installed), failed=built.failed)

    async def _install(self, need: Need) -> Built:
        """As many packages as can be had, each in the latest version that can."""
        failed: list[LeftOut] = []
        while True:
            hopeless = {one.wheel_name for one in failed}
            hopeful = [[one for one in candidates if one.name not in hopeless] for candidates in need.packages.values()]
            latest = [candidates[0] for candidates in hopeful if candidates]
            files = await self._fetch(latest, failed)
            if len(files) < len(latest):
                continue
            built = await self._environments.build(*await asyncio.to_thread(self._known_first, latest, files))
            if not built.failed:
                return replace(built, failed=tuple(failed))
            failed += built.failed

    async def _fetch(self, candidates: Sequence[Candidate], failed: list[LeftOut]) -> dict[str, Path]:
        """The files by their names; what cannot be had is added to `failed`."""
        files: dict[str, Path] = {}
        for candidate in candidates:
            try:
                files[candidate.name] = await self._files.fetch(candidate)
            except (WheelNotFound, WheelCorrupt, InvalidRequest) as error:
                failed.append(LeftOut(wheel_name=candidate.name, reason=_words(error)))
        return files

    def _known_first(self, candidates: Sequence[Candidate], files: Mapping[str, Path]) -> tuple[list[Fetched], int]:
        """What is in use before what is new, and what is required before what requires it; how many are in use."""
        in_use = {(state.wheel_name, state.sha256_hex) for state in self._in_use.wheels}
        known = [one for one in candidates if (one.name, one.sha256_hex) in in_use]
        new = [one for one in candidates if (one.name, one.sha256_hex) not in in_use]
        requires = {one.name: required_by(files[one.name]) for one in new}
        ordered = (*known, *in_order_of_need(new, requires))
        return [Fetched(candidate=one, file=files[one.name]) for one in ordered], len(known)

    # --- moving -------------------------------------------------------------------------------------------------------

    async def _switch(self, need: Need, prepared: Prepared) -> None:
        try:
            await self._pool.switch(prepared.lodging)
        except InvalidUsage as error:
            self._note_failure(need)
            raise WheelSyncFailed(
                f"no runner could start with these wheels, the present ones stay: {error.detail}"
            ) from error
        logger.info(
            "wheels changed",
            extra={"environment": prepared.lodging.key, "wheels": [candidate.name for candidate in prepared.installed]},
        )

    def _moved(self, need: Need, prepared: Prepared) -> None:
        """The pool is there: say how it went."""
        recorded = self._recorded() or self._in_use
        before = {state.nuid: state for state in (*recorded.wheels, *self._in_use.wheels)}
        now = self._clock.now()
        states = (before.get(one.wheel.nuid) or WheelSyncState.of(one, now) for one in prepared.installed)
        self._in_use = InstalledSet(environment=prepared.lodging.key or None, wheels=tuple(states))
        if prepared.failed:
            self._note_failure(need)
            for one in prepared.failed:
                facts = {"wheel_name": one.wheel_name, "reason": one.reason}
                logger.warning(WheelSyncFailed.message(), extra=facts | IDS)
        else:
            self._seen = _Seen(need=need)
        for one in need.skipped:
            logger.info("a wheel is skipped", extra={"wheel_name": one.wheel_name, "reason": one.reason})
        self._tell(need, "partial" if prepared.failed else "ok", prepared.failed)

    async def _start_with_the_last(self, refused: str) -> None:
        recorded = self._recorded() or self._in_use
        environment = self._environments.find(recorded.environment) if recorded.environment else None
        if environment is not None and environment.key != refused:
            try:
                await self._pool.start(self._environments.enter(environment))
            except InvalidUsage as error:
                self._fail(f"no runner could start with the last wheels: {error.detail}")
            else:
                self._in_use = recorded
                self._retell()
                return
        await self._pool.start()

    def _note_failure(self, need: Need) -> None:
        failures = 1
        if self._seen is not None and self._seen.need.packages == need.packages:
            failures += self._seen.failures
        wait_sec = min(self._config.wheel_sync_interval_sec * 2 ** (failures - 1), LONGEST_WAIT_SEC)
        # A little early: the next look that comes after the wait is meant, not the one after that.
        again_at = self._clock.monotonic() + wait_sec - self._config.wheel_sync_interval_sec / 2
        self._seen = _Seen(need=need, failures=failures, again_at=again_at)

    # --- keeping order ------------------------------------------------------------------------------------------------

    def _recorded(self) -> InstalledSet | None:
        return self._folder.manifest().sets.get(self._tags)

    async def _keep_manifest(self) -> None:
        """See to it that the manifest says what is so; somebody may have damaged it."""
        if await asyncio.to_thread(self._recorded) == self._in_use:
            return
        async with self._folder.locked(self._config.wheel_install_timeout_sec):
            manifest = self._folder.manifest().with_set(self._tags, self._in_use)
            await asyncio.to_thread(self._folder.write, manifest)

    async def _tidy_at_start(self) -> None:
        try:
            await self._tidy()
        except (PyocoError, OSError) as error:
            self._fail(_words(error))

    async def _tidy(self) -> None:
        """Put what is in use into the manifest, and clear away what nobody needs."""
        await self._keep_manifest()
        sums = {wheel.sha256_hex for wheel in await self._store.all() if wheel.sha256_hex is not None}
        async with self._folder.locked(self._config.wheel_install_timeout_sec):
            keep = self._folder.manifest().environments()
            gone = await asyncio.to_thread(self._environments.collect, keep)
            await asyncio.to_thread(self._files.collect, sums)
        if gone:
            logger.info("old environments removed", extra={"environments": gone})

    # --- telling ------------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        logger.warning(WheelSyncFailed.message(), extra={"reason": reason} | IDS)
        self._say(
            SyncReport(
                at=self._clock.now(),
                result="failed",
                environment=self._in_use.environment,
                installed=self._in_use.wheels,
                error=reason,
                err_id=WheelSyncFailed.err_id,
            )
        )

    def _tell(self, need: Need, result: Result, failed: Sequence[LeftOut]) -> None:
        self._say(
            SyncReport(
                at=self._clock.now(),
                result=result,
                environment=self._in_use.environment,
                installed=self._in_use.wheels,
                skipped=need.skipped,
                failed=failed,
                err_id=WheelSyncFailed.err_id if failed else None,
            )
        )

    def _retell(self) -> None:
        """The same report, with what is in use by now."""
        self._say(replace(self._report, environment=self._in_use.environment, installed=self._in_use.wheels))

    def _say(self, report: SyncReport) -> None:
        self._report = report
        self._told = report_to_plain(report)


def _words(error: Exception) -> str:
    return error.detail if isinstance(error, PyocoError) else f"{type(error).__name__}: {error}"
