"""Processes of the system under test, restarted whenever they end, and their state in the operating system.

All of them are tied to this process: if it is killed, none remains.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import psutil

from chaos.plan import MARKER
from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from support.processes import is_alive

STOP_SEC = 15.0
POLL_SEC = 0.1


async def poll_until(
    condition: Callable[[], Awaitable[bool]], *, within_sec: float, every_sec: float = POLL_SEC
) -> bool:
    """Polls another process until the condition holds; False on timeout."""
    try:
        async with asyncio.timeout(within_sec):
            while not await condition():  # noqa: ASYNC110 - another process changes it, without any notification
                await asyncio.sleep(every_sec)
    except TimeoutError:
        return False
    return True


def marked(marker: str) -> list[tuple[int, str]]:
    """All processes with this marker in their environment, with their command lines."""
    found = psutil.process_iter(["environ", "cmdline"])
    return [
        (process.pid, " ".join(process.info["cmdline"] or ()))
        for process in found
        if (process.info["environ"] or {}).get(MARKER) == marker and is_alive(process)
    ]


class Broker:
    """The nats-server of the program on its own data folder, restarted after a kill."""

    name = "nats"

    def __init__(self, server: EmbeddedNats) -> None:
        self._server = server
        self._down_sec: float | None = None
        self._killed = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The pid, if it runs."""
        return None if self._down_sec is not None else self._server.pid

    @property
    def is_ready(self) -> bool:
        return self.pid is not None

    async def keep(self) -> None:
        """Restarts it after each kill, with the same port and data, until cancelled."""
        while True:
            await self._killed.wait()
            await asyncio.sleep(self._down_sec or 0)
            self._killed.clear()
            await self._server.start()
            self._down_sec = None

    def end(self, number: signal.Signals, down_sec: float) -> int | None:
        """Ends it by a signal and keeps it down for so long; None if it is down already."""
        pid = self.signal(number)
        if pid is not None:
            self._down_sec = down_sec
            self._killed.set()
        return pid

    def signal(self, number: signal.Signals) -> int | None:
        """The pid that got the signal; None if it does not run."""
        return _signal(self.pid, number)


class Member:
    """A gateway or worker, restarted when it ends, stopped by SIGTERM at the end."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        env: Mapping[str, str],
        folder: Path,
        *,
        ready_text: bytes,
        on_end: Callable[[Member, int, bool], None],
    ) -> None:
        self.name = name
        self._command = tied_command(sys.executable, "-m", module, *arguments)
        self._env = env
        self._folder = folder
        self._ready_text = ready_text
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0
        self._stopping = False
        self._down_sec: float | None = None

    @property
    def pid(self) -> int | None:
        """The pid, if it runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it runs and has logged that it is ready."""
        return self.pid is not None and self._was_ready()

    async def keep(self) -> None:
        """Runs it until `stop`; after a kill it stays down for the requested time."""
        while not self._stopping:
            self._starts += 1
            self._process = await self._start(self._log)
            status = await self._process.wait()
            down_sec, self._down_sec = self._down_sec, None
            if self._stopping:
                return
            if down_sec is None:
                self._on_end(self, status, self._was_ready())
            await asyncio.sleep(down_sec or 0.5)

    def end(self, number: signal.Signals, down_sec: float) -> int | None:
        """Ends it by a signal and keeps it down for so long; None if it is down already."""
        pid = self.signal(number)
        if pid is not None:
            self._down_sec = down_sec
        return pid

    def signal(self, number: signal.Signals) -> int | None:
        """The pid that got the signal; None if it does not run."""
        return _signal(self.pid, number)

    async def twin(self) -> asyncio.subprocess.Process:
        """Starts a second process with the same command line."""
        return await self._start(self._folder / f"{self.name}.twin.log")

    async def stop(self) -> bool:
        """Sends SIGTERM and waits; False if it had to be killed."""
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

    async def _start(self, log_file: Path) -> asyncio.subprocess.Process:
        with log_file.open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._env),
                cwd=self._folder,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self._folder / f"{self.name}.{self._starts}.log"

    def _was_ready(self) -> bool:
        return self._log.exists() and self._ready_text in self._log.read_bytes()


def _signal(pid: int | None, number: signal.Signals) -> int | None:
    if pid is None:
        return None
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid
