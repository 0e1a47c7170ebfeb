"""Environments of runners, and their folder: shared by the workers of a machine, built once, collected when unused.

    <sync dir>/envs/<key>/            a virtual environment; the key is a hash of wheels, interpreter and base packages
                    environment.json  written last: without it the environment is incomplete and unused
                    in-use.lock       held (shared) by every worker whose runners may be in it

Changes require the lock of the sync folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from pyoco_server.domain.execution.state import WheelUsed
from pyoco_server.domain.wheels.requirements import Candidate, LeftOut
from pyoco_server.worker.runner_process.runner_user import RunnerUser
from pyoco_server.worker.wheels.venv_builder import InstallFailed, VenvBuilder, own_packages, own_site_folders

COMPLETE = "environment.json"
IN_USE = "in-use.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment on top of the worker's own; `sys_path` is that of its interpreter. No folder: the worker's.

    `base_folders` are the worker's own folders of installed packages: what the environment adds comes before them, and
    after everything else that the worker can import.
    """

    key: str
    folder: Path | None
    python: Path
    sys_path: tuple[str, ...] = ()
    base_folders: tuple[str, ...] = ()
    wheels: tuple[WheelUsed, ...] = ()

    def path_over(self, own: Sequence[str]) -> list[str]:
        index = next((index for index, entry in enumerate(own) if entry in self.base_folders), len(own))
        return [*own[:index], *(entry for entry in self.sys_path if entry not in own), *own[index:]]

    def variables(self, variables: dict[str, str]) -> dict[str, str]:
        """The variables of its runners: programs that tasks start find the same packages."""
        if self.folder is None:
            return variables
        scripts = str(self.python.parent)
        path = variables.get("PATH", os.defpath)
        return variables | {"PATH": f"{scripts}{os.pathsep}{path}", "VIRTUAL_ENV": str(self.folder)}


OWN_ENVIRONMENT = Environment(key="", python=Path(sys.executable), folder=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentLease:
    """Protects an environment from collection until `release`, after its last runner."""

    environment: Environment = OWN_ENVIRONMENT
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    candidate: Candidate
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEnvironment:
    """An environment with the wheels that could be installed, and the wheels that could not."""

    lease: EnvironmentLease
    installed: tuple[Candidate, ...]
    failed: tuple[LeftOut, ...]


class Environments:
    def __init__(self, folder: Path, install_timeout_sec: float, user: RunnerUser | None = None) -> None:
        self._folder = folder
        self._timeout_sec = install_timeout_sec
        self._user = user
        self._base_folders = own_site_folders()
        self._own = own_packages()

    def key_of(self, wheels: Sequence[WheelFile]) -> str:
        identity = [
            sorted((one.candidate.name, one.candidate.sha256_hex) for one in wheels),
            [sys.implementation.cache_tag, sys.version, sysconfig.get_platform(), sys.base_prefix],
            self._base_folders,
            sorted(self._own.items()),
        ]
        return hashlib.sha256(orjson.dumps(identity)).hexdigest()[:32]

    def find(self, key: str) -> Environment | None:
        folder = self._folder / key
        try:
            return _environment(folder, orjson.loads((folder / COMPLETE).read_bytes()))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    async def build(self, wheels: Sequence[WheelFile], known: int = 0) -> PreparedEnvironment:
        """Builds an environment with as many of these as are compatible; the first ones have precedence.

        On failure it tries without those after the first `known`, then by halves: a few bad wheels among many cost a
        few tries each. The lease holds nothing yet.
        """
        failed: list[LeftOut] = []
        good: tuple[WheelFile, ...] = ()
        environment = OWN_ENVIRONMENT
        pending: list[Sequence[WheelFile]] = [wheels] if wheels else []
        tried: dict[str, InstallFailed] = {}
        while pending:
            part = pending.pop()
            try:
                environment = await self._find_or_build((*good, *part), tried)
                good = (*good, *part)
            except InstallFailed as error:
                if len(part) == 1:
                    failed.append(LeftOut(wheel_name=part[0].candidate.name, reason=str(error)))
                else:
                    cut = known if 0 < known < len(part) == len(wheels) else len(part) // 2
                    pending += [part[cut:], part[:cut]]
        installed = tuple(one.candidate for one in good)
        return PreparedEnvironment(
            lease=EnvironmentLease(environment=environment), installed=installed, failed=tuple(failed)
        )

    async def _find_or_build(self, wheels: Sequence[WheelFile], tried: dict[str, InstallFailed]) -> Environment:
        key = self.key_of(wheels)
        if (found := self.find(key)) is not None:
            return found
        if key in tried:
            raise tried[key]
        try:
            return await self._build(key, wheels)
        except InstallFailed as error:
            tried[key] = error
            raise

    async def _build(self, key: str, wheels: Sequence[WheelFile]) -> Environment:
        folder = self._folder / key
        await asyncio.to_thread(_remove, folder)
        try:
            return await self._install(folder, wheels)
        except BaseException:
            await asyncio.to_thread(_remove, folder)
            raise

    async def _install(self, folder: Path, wheels: Sequence[WheelFile]) -> Environment:
        self._folder.mkdir(parents=True, exist_ok=True)
        builder = VenvBuilder(folder, self._base_folders, self._own, self._timeout_sec, self._user)
        sys_path = await builder.install([one.file for one in wheels])
        expected = {one.candidate.package: one.candidate.version for one in wheels}
        if missing := await asyncio.to_thread(builder.missing, expected):
            raise InstallFailed(f"pip reports success, but these are not in the environment: {', '.join(missing)}")
        (folder / IN_USE).touch()
        plain = {
            "python": str(builder.python),
            "sys_path": sys_path,
            "beneath": self._base_folders,
            "wheels": [{"name": one.candidate.name, "sha256": one.candidate.sha256_hex} for one in wheels],
        }
        await asyncio.to_thread(write_atomically, folder / COMPLETE, orjson.dumps(plain))
        return _environment(folder, plain)

    # --- leases and collection ----------------------------------------------------------------------------------------

    def has_unused(self, keep: Collection[str]) -> bool:
        """Whether a complete environment can be collected; an incomplete one may be under construction.

        Works without the lock of the sync folder, so the answer may be outdated.
        """
        try:
            folders = [folder for folder in self._folder.iterdir() if folder.name not in keep]
            return any(self.find(folder.name) is not None and not _is_used(folder) for folder in folders)
        except FileNotFoundError:
            return False

    def collect(self, keep: Collection[str]) -> list[str]:
        """Removes incomplete environments, and those that no live worker uses, except `keep`."""
        folders = [folder for folder in self._folder.iterdir() if folder.is_dir()] if self._folder.is_dir() else []
        gone = []
        for folder in folders:
            if self.find(folder.name) is not None and (folder.name in keep or _is_used(folder)):
                continue
            _remove(folder)
            gone.append(folder.name)
        return gone


def acquire(environment: Environment) -> EnvironmentLease:
    """Protects the environment from collection until the lease is released."""
    if environment.folder is None:
        return EnvironmentLease()
    descriptor = os.open(environment.folder / IN_USE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    held = contextlib.ExitStack()  # closes once, however often it is released
    held.callback(os.close, descriptor)
    return EnvironmentLease(environment=environment, release=held.close)


def _environment(folder: Path, plain: Mapping[str, Any]) -> Environment:
    return Environment(
        key=folder.name,
        folder=folder,
        python=Path(plain["python"]),
        sys_path=tuple(plain["sys_path"]),
        base_folders=tuple(plain["beneath"]),
        wheels=tuple(WheelUsed(name=item["name"], sha256=item["sha256"]) for item in plain["wheels"]),
    )


def _is_used(folder: Path) -> bool:
    descriptor = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT)
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    # First the file that marks it complete: a kill in between leaves an incomplete one.
    with contextlib.suppress(FileNotFoundError):
        (folder / COMPLETE).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
