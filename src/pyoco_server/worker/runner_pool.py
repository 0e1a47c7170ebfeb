"""Keeps a number of warm runner processes for the supervisor; user code runs in them and never here.

    async with pool.borrow() as runner:
        runner.begin(job)
        async for report in runner.reports():
            ...

Each slot of the pool is a task that keeps one runner alive: a runner that died or was killed is replaced. All runners
are children of one fork server; should that be lost, its runners die with it and a new one is started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyoco_server.errors import InvalidUsage
from pyoco_server.execution.state import StopHow
from pyoco_server.worker.fork_link import ForkLink, ForkServerLost
from pyoco_server.worker.runner import OnOutput, Runner
from pyoco_server.worker.steps import Died

LOADING_LIMIT_SEC = 120.0
FIRST_PAUSE_SEC = 0.05
LONGEST_PAUSE_SEC = 5.0

logger = logging.getLogger(__name__)


class RunnerPool:
    """`size` warm runners that know the flows of `resolver`; start it from the main thread (see `ForkLink.start`).

    `on_output(run_id, lines)` is called in the loop with what a runner writes, with an empty run id before its first
    run; it must neither wait nor raise.
    """

    stopped_by_kill = StopHow.KILLED

    def __init__(self, resolver: str, size: int, on_output: OnOutput) -> None:
        self._resolver = resolver
        self._size = size
        self._on_output = on_output
        self._link: ForkLink | None = None
        self._linking = asyncio.Lock()
        self._slots: list[asyncio.Task[None]] = []
        self._runners: set[Runner] = set()
        self._idle: asyncio.Queue[Runner | None] = asyncio.Queue()
        self._closing = asyncio.Event()

    async def start(self) -> None:
        """Return when every runner is warm; InvalidUsage when the resolver cannot be loaded."""
        loop = asyncio.get_running_loop()
        first_tries: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self._size)]
        self._slots = [asyncio.create_task(self._keep_slot(first)) for first in first_tries]
        try:
            outcomes = await asyncio.gather(*first_tries, return_exceptions=True)
        except BaseException:
            await self.close()
            raise
        for trouble in outcomes:
            if trouble is not None:
                await self.close()
                raise trouble

    async def close(self) -> None:
        """Kill every runner with all it started and wait until they are gone."""
        self._closing.set()
        self._idle.put_nowait(None)
        async with self._linking:
            if self._link is not None:
                await self._link.close()
        await asyncio.gather(*self._slots)

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Runner]:
        """A free, warm runner for the length of the block; one that is still busy at its end is killed."""
        runner = await self._next_idle()
        try:
            yield runner
        finally:
            if runner.is_busy:
                runner.kill()
            elif runner.is_alive:
                self._idle.put_nowait(runner)

    def pids(self) -> list[int]:
        """The processes of the runners that are warm."""
        return sorted(runner.pid for runner in self._runners)

    @property
    def fork_server_pid(self) -> int | None:
        return None if self._link is None else self._link.pid

    async def _next_idle(self) -> Runner:
        while True:
            runner = await self._idle.get()
            if runner is None:
                self._idle.put_nowait(None)  # for the next who waits
                raise RuntimeError("the runner pool is closed")
            if runner.is_alive:
                return runner

    async def _keep_slot(self, first_try: asyncio.Future[None]) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                runner = await self._fork_runner()
            except OSError as error:
                failures += 1
                logger.warning("a runner could not be started", extra={"reason": str(error)})
                _fail(first_try, InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver))
            else:
                died = await self._see_through(runner, first_try)
                failures = 0 if runner.has_served else failures + 1
                _fail(first_try, InvalidUsage(self._last_words(died), resolver=self._resolver))
            await self._pause(failures)

    async def _see_through(self, runner: Runner, first_try: asyncio.Future[None]) -> Died:
        """Offer the runner as soon as it is warm, until it is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._offer_when_loaded(runner, first_try))
                died = await runner.gone()  # also ends the wait for its being loaded
        finally:
            self._runners.discard(runner)
        if not self._closing.is_set():
            facts = {"runner_pid": runner.pid, "exit_code": died.exit_code, "signal": died.signal_name}
            logger.info("a runner is replaced", extra=facts)
        return died

    async def _offer_when_loaded(self, runner: Runner, first_try: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(LOADING_LIMIT_SEC):
                trouble = await runner.loaded
        except TimeoutError:
            trouble = f"the flow resolver {self._resolver!r} was not loaded within {LOADING_LIMIT_SEC:.0f} s"
            runner.kill()
        else:
            # One that cannot load the resolver serves too: its jobs fail with the reason, rather than wait for ever.
            self._runners.add(runner)
            self._idle.put_nowait(runner)
        if trouble is not None:
            logger.warning("a runner cannot load the flow resolver", extra={"reason": trouble})
            _fail(first_try, InvalidUsage(trouble, resolver=self._resolver))
        elif not first_try.done():
            first_try.set_result(None)

    def _last_words(self, died: Died) -> str:
        how = died.signal_name or f"exit code {died.exit_code}"
        said = "".join(f"\n{line}" for line in died.last_lines)
        return f"the process that loads the flow resolver {self._resolver!r} died ({how}){said}"

    async def _pause(self, failures: int) -> None:
        """The longer, the more often it failed in a row: what cannot start must not eat the machine."""
        if failures == 0:
            return
        try:
            async with asyncio.timeout(min(FIRST_PAUSE_SEC * 2**failures, LONGEST_PAUSE_SEC)):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _fork_runner(self) -> Runner:
        link = await self._live_link()
        ours, theirs = socket.socketpair()
        log_reader, log_writer = os.pipe()
        try:
            pid = await link.fork(theirs, log_writer)
        except BaseException:
            ours.close()
            os.close(log_reader)
            raise
        finally:
            theirs.close()
            os.close(log_writer)
        runner = Runner(pid=pid, link=link, log_descriptor=log_reader, on_output=self._on_output)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: runner, sock=ours)
        except BaseException:
            runner.close()
            ours.close()
            raise
        return runner

    async def _live_link(self) -> ForkLink:
        async with self._linking:
            if self._closing.is_set():
                raise ForkServerLost("the runner pool is closed")
            if self._link is not None and self._link.is_lost:
                logger.warning("the fork server is replaced", extra={"fork_server_pid": self._link.pid})
                await self._link.close()
                self._link = None
            if self._link is None:
                self._link = await ForkLink.start(self._resolver)
            return self._link


def _fail(first_try: asyncio.Future[None], error: InvalidUsage) -> None:
    if not first_try.done():
        first_try.set_exception(error)
