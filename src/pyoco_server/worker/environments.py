"""The folder of environments, shared by the workers of one machine: each is built once, used by many, and collected.

    <sync dir>/envs/<key>/            a virtual environment; the key says which wheels, interpreter and packages beneath
                    environment.json  written last: without it the environment is half built, and nobody's
                    in-use.lock       held (shared) by every worker whose runners may be in it

Nothing here is changed but by whoever holds the lock of the sync folder.
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
from pyoco_server.worker.environment import Environment, Lodging
from pyoco_server.worker.installer import Installer, InstallFailed, own_packages, own_site_folders

COMPLETE = "environment.json"
IN_USE = "in-use.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A wheel whose bytes are here and have been checked."""

    candidate: Candidate
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What became of a set of wheels: the environment with those that could be installed, and the others."""

    environment: Environment | None
    installed: tuple[Fetched, ...]
    failed: tuple[LeftOut, ...]


class Environments:
    """The environments below one folder, for this worker's interpreter."""

    def __init__(self, folder: Path, install_timeout_sec: float) -> None:
        self._folder = folder
        self._timeout_sec = install_timeout_sec
        self._beneath = own_site_folders()
        self._own = own_packages()

    def key_of(self, wheels: Sequence[Fetched]) -> str:
        """The name of the environment with these wheels over this worker's own."""
        identity = [
            sorted((one.candidate.name, one.candidate.sha256_hex) for one in wheels),
            [sys.implementation.cache_tag, sys.version, sysconfig.get_platform(), sys.base_prefix],
            self._beneath,
            sorted(self._own.items()),
        ]
        return hashlib.sha256(orjson.dumps(identity)).hexdigest()[:32]

    def find(self, key: str) -> Environment | None:
        """The environment of that name, when it is complete."""
        folder = self._folder / key
        try:
            return _environment(folder, orjson.loads((folder / COMPLETE).read_bytes()))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    async def build(self, wheels: Sequence[Fetched], known: int = 0) -> Built:
        """An environment with as many of these as can live together; those that come first have precedence.

        When they cannot, it is tried without those behind the first `known`, then by halves: a few bad ones among many
        cost a few tries each, and none when there are none.
        """
        failed: list[LeftOut] = []
        good: tuple[Fetched, ...] = ()
        environment: Environment | None = None
        waiting: list[Sequence[Fetched]] = [wheels] if wheels else []
        tried: dict[str, InstallFailed] = {}
        while waiting:
            part = waiting.pop()
            try:
                environment = await self._made((*good, *part), tried)
                good = (*good, *part)
            except InstallFailed as error:
                if len(part) == 1:
                    failed.append(LeftOut(wheel_name=part[0].candidate.name, reason=str(error)))
                else:
                    cut = known if 0 < known < len(part) == len(wheels) else len(part) // 2
                    waiting += [part[cut:], part[:cut]]
        return Built(environment=environment, installed=good, failed=tuple(failed))

    async def _made(self, wheels: Sequence[Fetched], tried: dict[str, InstallFailed]) -> Environment:
        key = self.key_of(wheels)
        if (there := self.find(key)) is not None:
            return there
        if key in tried:
            raise tried[key]
        try:
            return await self._build(key, wheels)
        except InstallFailed as error:
            tried[key] = error
            raise

    async def _build(self, key: str, wheels: Sequence[Fetched]) -> Environment:
        folder = self._folder / key
        await asyncio.to_thread(_remove, folder)
        try:
            return await self._install(folder, wheels)
        except BaseException:
            await asyncio.to_thread(_remove, folder)
            raise

    async def _install(self, folder: Path, wheels: Sequence[Fetched]) -> Environment:
        self._folder.mkdir(parents=True, exist_ok=True)
        installer = Installer(folder, self._beneath, self._own, self._timeout_sec)
        sys_path = await installer.install([one.file for one in wheels])
        expected = {one.candidate.package: one.candidate.version for one in wheels}
        if missing := await asyncio.to_thread(installer.missing, expected):
            raise InstallFailed(f"pip reports success, but these are not in the environment: {', '.join(missing)}")
        (folder / IN_USE).touch()
        plain = {
            "python": str(installer.python),
            "sys_path": sys_path,
            "beneath": self._beneath,
            "wheels": [{"name": one.candidate.name, "sha256": one.candidate.sha256_hex} for one in wheels],
        }
        await asyncio.to_thread(write_whole, folder / COMPLETE, orjson.dumps(plain))
        return _environment(folder, plain)

    # --- using and collecting -----------------------------------------------------------------------------------------

    def enter(self, environment: Environment) -> Lodging:
        """Hold the environment until its last runner has left it."""
        descriptor = os.open(environment.folder / IN_USE, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return Lodging(environment=environment, leave=_once(lambda: os.close(descriptor)))

    def has_unused(self, keep: Collection[str]) -> bool:
        """Whether there is something to collect that is complete; what is half built may be at work.

        Asked without the lock of the sync folder: what is seen may be gone a moment later.
        """
        try:
            folders = [folder for folder in self._folder.iterdir() if folder.name not in keep]
            return any(self.find(folder.name) is not None and not _is_used(folder) for folder in folders)
        except FileNotFoundError:
            return False

    def collect(self, keep: Collection[str]) -> list[str]:
        """Remove what is half built, and what no living worker uses and is not to be kept."""
        folders = [folder for folder in self._folder.iterdir() if folder.is_dir()] if self._folder.is_dir() else []
        gone = []
        for folder in folders:
            if self.find(folder.name) is not None and (folder.name in keep or _is_used(folder)):
                continue
            _remove(folder)
            gone.append(folder.name)
        return gone


def _environment(folder: Path, plain: Mapping[str, Any]) -> Environment:
    return Environment(
        key=folder.name,
        folder=folder,
        python=Path(plain["python"]),
        sys_path=tuple(plain["sys_path"]),
        beneath=tuple(plain["beneath"]),
        wheels=tuple(WheelUsed(name=item["name"], sha256=item["sha256"]) for item in plain["wheels"]),
    )


def _is_used(folder: Path) -> bool:
    descriptor = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _remove(folder: Path) -> None:
    # First what makes it an environment: killed half-way, it is a half-built one.
    with contextlib.suppress(FileNotFoundError):
        (folder / COMPLETE).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: Path, content: bytes) -> None:
    """All of it or what was there before, also when the machine stops."""
    passing = path.with_name(f"{path.name}.{os.getpid()}.new")
    with passing.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    passing.replace(path)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    pending = [action]

    def act() -> None:
        if pending:
            pending.pop()()

    return act
