"""Installs wheels from the registry into an environment, in a sync folder that the workers of a machine share.

The folder holds wheels, environments and the manifest of what each set of tags uses; its lock serialises changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.parser
import hashlib
import logging
import os
import shutil
import zipfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from pyoco_server.domain.wheels.contents import MAX_LOADED_BYTES, check_contents
from pyoco_server.domain.wheels.requirements import Candidate, LeftOut, Need, in_order_of_need
from pyoco_server.domain.wheels.sync_state import NOTHING_INSTALLED, InstalledSet, Manifest
from pyoco_server.domain.wheels.wheel import parse_wheel_name
from pyoco_server.errors import InvalidRequest, WheelCorrupt, WheelNotFound
from pyoco_server.ports import WheelStore
from pyoco_server.worker.runner_process.runner_user import RunnerUser
from pyoco_server.worker.wheels.environments import (
    EnvironmentLease,
    Environments,
    PreparedEnvironment,
    WheelFile,
    acquire,
    try_lock,
    write_atomically,
)

LOCK = ".lock"
MANIFEST = ".installed.json"
POLL_SEC = 0.1
UNFINISHED = ".part"

logger = logging.getLogger(__name__)


class SyncFolder:
    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.environments = folder / "envs"
        self.files = folder / "files"
        self._manifest = folder / MANIFEST

    @contextlib.asynccontextmanager
    async def locked(self, patience_sec: float) -> AsyncIterator[None]:
        """Holds the lock of the folder within the block; `OSError` if another worker holds it for too long.

        The kernel releases the lock of a worker that was killed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                async with asyncio.timeout(patience_sec):
                    while not try_lock(descriptor):  # noqa: ASYNC110 - there is no notification for a file lock
                        await asyncio.sleep(POLL_SEC)
            except TimeoutError:
                raise OSError("another worker has held the sync folder for too long") from None
            yield
        finally:
            os.close(descriptor)

    def manifest(self) -> Manifest:
        """What is installed; a damaged manifest counts as empty and is rewritten by the next sync."""
        try:
            return msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return NOTHING_INSTALLED
        except (OSError, ValueError) as error:
            logger.warning(
                "manifest of installed wheels is damaged", extra={"path": str(self._manifest), "reason": str(error)}
            )
            return NOTHING_INSTALLED

    def record(self, installed: InstalledSet) -> None:
        manifest = self.manifest().with_set(installed)
        write_atomically(self._manifest, msgspec.json.format(msgspec.json.encode(manifest)))


class WheelFiles:
    """Downloaded wheels in `<folder>/<sha256>/<file name>`; the sum is verified before each use.

    pip requires the name, and two uploads may share it.
    """

    def __init__(self, folder: Path, store: WheelStore) -> None:
        self._folder = folder
        self._store = store

    async def fetch(self, candidate: Candidate) -> Path:
        """The local file with the registry's sha256; `WheelCorrupt` if the download differs.

        `InvalidRequest` if the content is not a wheel of that name: the registry may have been filled unchecked.
        """
        file = self._folder / candidate.sha256_hex / candidate.name
        if await asyncio.to_thread(_sha256_of, file) != candidate.sha256_hex:
            await self._get(candidate, file)
        await asyncio.to_thread(_check, file)
        return file

    async def _get(self, candidate: Candidate, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}{UNFINISHED}")
        try:
            digest = hashlib.sha256()
            with temporary.open("wb") as target:
                async for piece in self._store.read(candidate.wheel):
                    digest.update(piece)
                    await asyncio.to_thread(target.write, piece)
            if digest.hexdigest() != candidate.sha256_hex:
                raise WheelCorrupt(
                    f"{candidate.name} has sha256 {digest.hexdigest()}, and the registry says {candidate.sha256_hex}",
                    wheel_name=candidate.name,
                )
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)

    def collect(self, keep: Collection[str]) -> None:
        """Removes all wheels except those with these sums; the caller holds the lock of the folder."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in keep:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                for unfinished in folder.glob(f"*{UNFINISHED}"):  # left by a worker that was killed
                    unfinished.unlink(missing_ok=True)


class WheelInstaller:
    def __init__(self, store: WheelStore, folder: Path, timeout_sec: float, user: RunnerUser | None = None) -> None:
        self._store = store
        self._timeout_sec = timeout_sec
        self._folder = SyncFolder(folder)
        self._files = WheelFiles(self._folder.files, store)
        self._environments = Environments(self._folder.environments, timeout_sec, user)

    async def prepare(self, need: Need, in_use: InstalledSet) -> PreparedEnvironment:
        """Prepares an environment with the needed wheels; the caller must use or release its lease."""
        async with self._folder.locked(self._timeout_sec):
            prepared = await self._install(need, in_use)
            return replace(prepared, lease=acquire(prepared.lease.environment))

    async def _install(self, need: Need, in_use: InstalledSet) -> PreparedEnvironment:
        """Installs as many packages as possible, each in the latest version possible."""
        failed: list[LeftOut] = []
        while True:
            excluded = {one.wheel_name for one in failed}
            usable = [[one for one in candidates if one.name not in excluded] for candidates in need.packages.values()]
            latest = [candidates[0] for candidates in usable if candidates]
            files = await self._fetch(latest, failed)
            if len(files) < len(latest):
                continue
            built = await self._environments.build(*await asyncio.to_thread(_known_first, latest, files, in_use))
            if not built.failed:
                return replace(built, failed=tuple(failed))
            failed += built.failed

    async def _fetch(self, candidates: Sequence[Candidate], failed: list[LeftOut]) -> dict[str, Path]:
        """The files by name; what cannot be fetched is added to `failed`."""
        files: dict[str, Path] = {}
        for candidate in candidates:
            try:
                files[candidate.name] = await self._files.fetch(candidate)
            except (WheelNotFound, WheelCorrupt, InvalidRequest) as error:
                failed.append(LeftOut(wheel_name=candidate.name, reason=error.detail))
        return files

    # --- the folder ---------------------------------------------------------------------------------------------------

    def recorded(self, like: InstalledSet) -> InstalledSet | None:
        """The set for the same tags and tenant."""
        return self._folder.manifest().find(like)

    def lease(self, installed: InstalledSet) -> EnvironmentLease | None:
        """A lease on the environment of that set, if it exists; what the manifest names is not collected."""
        environment = self._environments.find(installed.environment) if installed.environment else None
        return None if environment is None else acquire(environment)

    async def record(self, installed: InstalledSet) -> None:
        """Updates the manifest if it differs, also after damage."""
        if await asyncio.to_thread(self.recorded, installed) == installed:
            return
        async with self._folder.locked(self._timeout_sec):
            await asyncio.to_thread(self._folder.record, installed)

    async def has_leftovers(self) -> bool:
        """Whether an environment became unused since the last collection: its last run may have ended later."""
        return await asyncio.to_thread(lambda: self._environments.has_unused(self._folder.manifest().environments()))

    async def collect(self) -> list[str]:
        """Removes environments that neither a live worker nor the manifest needs, and files that left the registry."""
        sums = {wheel.sha256_hex for wheel in await self._store.all() if wheel.sha256_hex is not None}
        async with self._folder.locked(self._timeout_sec):
            keep = self._folder.manifest().environments()
            gone = await asyncio.to_thread(self._environments.collect, keep)
            await asyncio.to_thread(self._files.collect, sums)
        return gone


def _known_first(
    candidates: Sequence[Candidate], files: Mapping[str, Path], installed: InstalledSet
) -> tuple[list[WheelFile], int]:
    """Wheels in use before new ones, requirements before dependents; and how many are in use."""
    in_use = {(state.wheel_name, state.sha256_hex) for state in installed.wheels}
    known = [one for one in candidates if (one.name, one.sha256_hex) in in_use]
    new = [one for one in candidates if (one.name, one.sha256_hex) not in in_use]
    requires = {one.name: _required_by(files[one.name]) for one in new}
    ordered = (*known, *in_order_of_need(new, requires))
    return [WheelFile(candidate=one, file=files[one.name]) for one in ordered], len(known)


def _sha256_of(file: Path) -> str | None:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _check(file: Path) -> None:
    with file.open("rb") as content:
        check_contents(content, file.stat().st_size, parse_wheel_name(file.name))


def _required_by(file: Path) -> tuple[str, ...]:
    """The packages that a wheel requires; none if it cannot be read, which pip reports later."""
    try:
        with zipfile.ZipFile(file) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
            with wheel.open(names[0]) as metadata:
                headers = email.parser.BytesHeaderParser().parsebytes(metadata.read(MAX_LOADED_BYTES["METADATA"]))
            return tuple(Requirement(text).name for text in headers.get_all("Requires-Dist", []))
    except (
        OSError,
        ValueError,
        LookupError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        InvalidRequirement,
    ):
        return ()
