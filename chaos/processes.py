"""One process of the system under test, started again whenever it ends; and what the operating system knows of it.

A process is killed by its pid and only by whoever started it. All of them are tied to this one: should the chaos itself
be killed, nothing stays behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.plan import MARKER
from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from pyoco_server.worker.runner_process.process_tree import descendants_of

STOP_SEC = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        return identity_of(self.pid) == self


def identity_of(pid: int) -> Identity | None:
    """None when there is no such process, or only its exit status is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
    return None if state in "ZX" else Identity(pid=pid, started=fields[18])


def family_of(pid: int) -> list[Identity]:
    """Everything that descends from a process, as it is now."""
    found = (identity_of(child) for child in descendants_of(pid))
    return [identity for identity in found if identity is not None]


def marked(marker: str) -> list[tuple[int, str]]:
    """Every process that carries the marker of this run in its environment, with its command line."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or identity_of(int(folder.name)) is None:
            continue
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
    return found


class Broker:
    """The nats-server: the program's own, on its own data folder, but started again when the killer says so."""

    name = "nats"

    def __init__(self, server: EmbeddedNats) -> None:
        self._server = server
        self._down_sec: float | None = None
        self._killed = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The pid while it runs."""
        return None if self._down_sec is not None else self._server.pid

    @property
    def is_ready(self) -> bool:
        return self.pid is not None

    async def keep(self) -> None:
        """Start it again after each kill, on the same port and data, until cancelled."""
        while True:
            await self._killed.wait()
            await asyncio.sleep(self._down_sec or 0)
            self._killed.clear()
            await self._server.start()
            self._down_sec = None

    def end(self, number: signal.Signals, down_sec: float) -> int | None:
        """End it by a signal, and let it stay down for so long; None when it is down already."""
        pid = self.signal(number)
        if pid is not None:
            self._down_sec = down_sec
            self._killed.set()
        return pid

    def signal(self, number: signal.Signals) -> int | None:
        """The pid it was sent to; None when there is nobody to send it to."""
        return _signal(self.pid, number)


class Member:
    """A gateway or a worker: started, started again when it ends, stopped in order at the end."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        env: Mapping[str, str],
        folder: Path,
        *,
        says_when_ready: bytes,
        on_end: Callable[[Member, int, bool], None],
    ) -> None:
        self.name = name
        self._command = tied_command(sys.executable, "-m", module, *arguments)
        self._env = env
        self._folder = folder
        self._says_when_ready = says_when_ready
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0
        self._stopping = False
        self._down_sec: float | None = None

    @property
    def pid(self) -> int | None:
        """The pid while it runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    @property
    def is_ready(self) -> bool:
        """It runs, and has said that it is ready to serve."""
        return self.pid is not None and self._was_ready()

    async def keep(self) -> None:
        """Run it until `stop`; after a kill it stays down for as long as the killer said."""
        while not self._stopping:
            self._starts += 1
            with self._log.open("wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(self._env),
                    cwd=self._folder,
                    start_new_session=True,
                )
            status = await self._process.wait()
            down_sec, self._down_sec = self._down_sec, None
            if self._stopping:
                return
            if down_sec is None:
                self._on_end(self, status, self._was_ready())
            await asyncio.sleep(down_sec or 0.5)

    def end(self, number: signal.Signals, down_sec: float) -> int | None:
        """End it by a signal, and let it stay down for so long; None when it is down already."""
        pid = self.signal(number)
        if pid is not None:
            self._down_sec = down_sec
        return pid

    def signal(self, number: signal.Signals) -> int | None:
        """The pid it was sent to; None when there is nobody to send it to."""
        return _signal(self.pid, number)

    async def twin(self) -> asyncio.subprocess.Process:
        """A second process with the very same command line."""
        with (self._folder / f"{self.name}.twin.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._env),
                cwd=self._folder,
                start_new_session=True,
            )

    async def stop(self) -> bool:
        """Ask it to end, and see to it that it does; False when it had to be killed."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return True
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SEC):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            return False
        return True

    @property
    def _log(self) -> Path:
        return self._folder / f"{self.name}.{self._starts}.log"

    def _was_ready(self) -> bool:
        return self._log.exists() and self._says_when_ready in self._log.read_bytes()


def _signal(pid: int | None, number: signal.Signals) -> int | None:
    if pid is None:
        return None
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid
