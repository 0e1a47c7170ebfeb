"""Brings wheels from the registry into an environment on this machine, under the lock of the sync folder.

It moves nobody: what is prepared is held for whoever wants to live there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyoco_server.domain.wheels.requirements import Candidate, LeftOut, Need, in_order_of_need
from pyoco_server.domain.wheels.sync_state import InstalledSet
from pyoco_server.errors import InvalidRequest, WheelCorrupt, WheelNotFound
from pyoco_server.ports import WheelStore
from pyoco_server.worker.environment import Lodging
from pyoco_server.worker.environments import Built, Environments, Fetched
from pyoco_server.worker.sync_folder import SyncFolder
from pyoco_server.worker.wheel_files import WheelFiles, required_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An environment that is ready to be moved into, what is in it, and what is not."""

    lodging: Lodging
    installed: tuple[Candidate, ...]
    failed: tuple[LeftOut, ...]


class WheelInstall:
    """The sync folder as one worker uses it."""

    def __init__(self, store: WheelStore, folder: Path, timeout_sec: float) -> None:
        self._store = store
        self._timeout_sec = timeout_sec
        self._folder = SyncFolder(folder)
        self._files = WheelFiles(self._folder.files, store)
        self._environments = Environments(self._folder.environments, timeout_sec)

    async def prepare(self, need: Need, in_use: InstalledSet) -> Prepared:
        """An environment with what is needed, held for the caller, who must move in or leave."""
        async with self._folder.locked(self._timeout_sec):
            built = await self._install(need, in_use)
            environment = built.environment
            lodging = Lodging() if environment is None else self._environments.enter(environment)
        return Prepared(lodging=lodging, installed=tuple(one.candidate for one in built.installed), failed=built.failed)

    async def _install(self, need: Need, in_use: InstalledSet) -> Built:
        """As many packages as can be had, each in the latest version that can."""
        failed: list[LeftOut] = []
        while True:
            hopeless = {one.wheel_name for one in failed}
            hopeful = [[one for one in candidates if one.name not in hopeless] for candidates in need.packages.values()]
            latest = [candidates[0] for candidates in hopeful if candidates]
            files = await self._fetch(latest, failed)
            if len(files) < len(latest):
                continue
            built = await self._environments.build(*await asyncio.to_thread(_known_first, latest, files, in_use))
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
                failed.append(LeftOut(wheel_name=candidate.name, reason=error.detail))
        return files

    # --- what is there ------------------------------------------------------------------------------------------------

    def recorded(self, tags: tuple[str, ...]) -> InstalledSet | None:
        """What the workers with these tags used last."""
        return self._folder.manifest().sets.get(tags)

    def lodging(self, installed: InstalledSet) -> Lodging | None:
        """A place in the environment of that set, if it is still there; what the manifest names is not collected."""
        environment = self._environments.find(installed.environment) if installed.environment else None
        return None if environment is None else self._environments.enter(environment)

    async def record(self, tags: tuple[str, ...], installed: InstalledSet) -> None:
        """See to it that the manifest says so; somebody may have damaged it."""
        if await asyncio.to_thread(self.recorded, tags) == installed:
            return
        async with self._folder.locked(self._timeout_sec):
            manifest = self._folder.manifest().with_set(tags, installed)
            await asyncio.to_thread(self._folder.write, manifest)

    async def has_leftovers(self) -> bool:
        """Whether an environment has become free since the last collection: its last run may have ended later."""
        return await asyncio.to_thread(lambda: self._environments.has_unused(self._folder.manifest().environments()))

    async def collect(self) -> list[str]:
        """Remove what neither a living worker nor the manifest needs, and the files that left the registry."""
        sums = {wheel.sha256_hex for wheel in await self._store.all() if wheel.sha256_hex is not None}
        async with self._folder.locked(self._timeout_sec):
            keep = self._folder.manifest().environments()
            gone = await asyncio.to_thread(self._environments.collect, keep)
            await asyncio.to_thread(self._files.collect, sums)
        return gone


def _known_first(
    candidates: Sequence[Candidate], files: Mapping[str, Path], installed: InstalledSet
) -> tuple[list[Fetched], int]:
    """What is in use before what is new, and what is required before what requires it; how many are in use."""
    in_use = {(state.wheel_name, state.sha256_hex) for state in installed.wheels}
    known = [one for one in candidates if (one.name, one.sha256_hex) in in_use]
    new = [one for one in candidates if (one.name, one.sha256_hex) not in in_use]
    requires = {one.name: required_by(files[one.name]) for one in new}
    ordered = (*known, *in_order_of_need(new, requires))
    return [Fetched(candidate=one, file=files[one.name]) for one in ordered], len(known)
