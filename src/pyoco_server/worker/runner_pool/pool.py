"""A pool of warm runner processes. User code runs in them and never in the supervisor.

    async with pool.borrow() as runner:
        runner.begin(job)
        async for update in runner.updates():
            ...

Each slot is a task that keeps one runner alive and replaces it when it dies. All runners are children of one fork
server; if that is lost, its runners die with it and a new one is started.

    switch(environment):  new fork server ─▶ one of its runners is warm ─▶ idle runners of the old one are killed, busy
                          ones after their run, the old fork server with the last;  no warm runner: nothing changes
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.backoff import Backoff
from pyoco_server.worker.runner_pool.runner import OnOutput, ProcessRunner
from pyoco_server.worker.runner_pool.runner_group import RunnerGroup
from pyoco_server.worker.runner_process.flow_announcement import log_left_out
from pyoco_server.worker.runner_process.protocol import RunnerDied
from pyoco_server.worker.wheels.environments import EnvironmentLease

LOADING_LIMIT_SEC = 120.0
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0

logger = logging.getLogger(__name__)


class RunnerPool:
    """`size` warm runners that serve the flows of `resolver`; start it from the main thread (see `ForkClient.start`).

    `on_output(run_id, lines)` is called in the loop with the output of runners, with an empty run id before the first
    run; it must neither wait nor raise. `announcement` has the flows of the current environment: of the given names,
    else those that the resolver declares.
    """

    stopped_by_kill = StopHow.KILLED

    def __init__(self, resolver: str, size: int, on_output: OnOutput, flow_names: Sequence[str] = ()) -> None:
        self.announcement = FlowAnnouncement()
        self._resolver = resolver
        self._flow_names = flow_names
        self._size = size
        self._on_output = on_output
        self._current = RunnerGroup(resolver, EnvironmentLease(), on_output)
        self._retired: set[RunnerGroup] = set()
        self._slots: list[asyncio.Task[None]] = []
        self._warm: set[ProcessRunner] = set()
        self._borrowed: set[ProcessRunner] = set()
        self._spares: deque[ProcessRunner] = deque()
        self._idle: asyncio.Queue[ProcessRunner | None] = asyncio.Queue()
        self._switching = asyncio.Lock()
        self._closing = asyncio.Event()

    async def start(self, lease: EnvironmentLease | None = None) -> None:
        """Returns when every runner is warm; `InvalidUsage` if the resolver cannot be loaded; may be repeated."""
        self._current = RunnerGroup(self._resolver, lease or EnvironmentLease(), self._on_output)
        self._idle = asyncio.Queue()
        self._closing.clear()
        loop = asyncio.get_running_loop()
        first_tries: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self._size)]
        self._slots = [asyncio.create_task(self._keep_slot(first)) for first in first_tries]
        discovery = asyncio.create_task(self._discover(self._current))
        try:
            outcomes = await asyncio.gather(*first_tries, return_exceptions=True)
            self._announce(await discovery)
        except BaseException:
            discovery.cancel()
            await self.close()
            await asyncio.wait([discovery])
            raise
        for error in outcomes:
            if error is not None:
                await self.close()
                raise error

    async def switch(self, lease: EnvironmentLease) -> None:
        """Starts new runs in this environment; current runs end in theirs.

        `InvalidUsage` if no runner gets warm there: then nothing has changed, and the lease is released.
        """
        async with self._switching:
            fresh = RunnerGroup(self._resolver, lease, self._on_output)
            try:
                first = await self._first_of(fresh)
                announcement = await self._discover(fresh)
            except BaseException:
                await fresh.close()
                raise
            if self._closing.is_set():
                await fresh.close()
                return
            old, self._current = self._current, fresh
            self._retired.add(old)
            self._spares = deque([first])
            self._announce(announcement)
            for runner in old.runners - self._borrowed:
                runner.kill()
            await self._close_if_empty(old)

    async def close(self) -> None:
        """Kills every runner with its descendants and waits for their exit."""
        self._closing.set()
        self._idle.put_nowait(None)
        for group in (self._current, *self._retired):
            await group.close()
        self._spares.clear()
        await asyncio.gather(*self._slots)

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[ProcessRunner]:
        """A free, warm runner for the block; one that is still busy at its end is killed."""
        runner = await self._next_idle()
        self._borrowed.add(runner)
        try:
            yield runner
        finally:
            self._borrowed.discard(runner)
            if runner.is_busy or runner not in self._current.runners:
                runner.kill()
            elif runner.is_alive:
                self._idle.put_nowait(runner)

    def pids(self) -> list[int]:
        return sorted(runner.pid for runner in self._warm)

    @property
    def fork_server_pid(self) -> int | None:
        return self._current.fork_server_pid

    async def _next_idle(self) -> ProcessRunner:
        while True:
            runner = await self._idle.get()
            if runner is None:
                self._idle.put_nowait(None)  # for the next waiter
                raise RuntimeError("the runner pool is closed")
            if runner.is_alive and runner in self._current.runners:
                return runner

    # --- one slot -----------------------------------------------------------------------------------------------------

    async def _keep_slot(self, first_try: asyncio.Future[None]) -> None:
        backoff = Backoff(FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC)
        while not self._closing.is_set():
            group = self._current
            try:
                runner = self._spares.popleft() if self._spares else await group.fork()
            except OSError as error:
                if group is not self._current:
                    continue  # it was replaced meanwhile
                logger.warning("runner could not be started", extra={"reason": str(error)})
                _fail(first_try, InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver))
            else:
                died = await self._serve(runner, group, first_try)
                _fail(first_try, InvalidUsage(self._death(died), resolver=self._resolver))
                if runner.has_served or group is not self._current:
                    backoff.reset()
                    continue
            # What cannot start must not use up the machine.
            await self._pause(backoff.next_sec())

    async def _serve(self, runner: ProcessRunner, group: RunnerGroup, first_try: asyncio.Future[None]) -> RunnerDied:
        """Offers the runner as soon as it is warm, until it has exited."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._offer_when_loaded(runner, group, first_try))
                died = await asyncio.shield(runner.exited)  # also ends the wait for loading
        finally:
            self._warm.discard(runner)
        if not self._closing.is_set():
            facts = {"runner_pid": runner.pid, "exit_code": died.exit_code, "signal": died.signal_name}
            logger.info("runner replaced", extra=facts)
        await self._close_if_empty(group)
        return died

    async def _offer_when_loaded(
        self, runner: ProcessRunner, group: RunnerGroup, first_try: asyncio.Future[None]
    ) -> None:
        try:
            async with asyncio.timeout(LOADING_LIMIT_SEC):
                error = await runner.loaded
        except TimeoutError:
            error = self._too_slow()
            runner.kill()
        else:
            # A runner without its resolver serves too: its jobs fail with the reason instead of waiting forever.
            self._warm.add(runner)
            if group is self._current:
                self._idle.put_nowait(runner)
            else:
                runner.kill()  # forked just before the switch
        if error is not None:
            logger.warning("runner cannot load the flow resolver", extra={"reason": error})
            _fail(first_try, InvalidUsage(error, resolver=self._resolver))
        elif not first_try.done():
            first_try.set_result(None)

    def _death(self, died: RunnerDied) -> str:
        how = died.signal_name or f"exit code {died.exit_code}"
        output = "".join(f"\n{line}" for line in died.last_lines)
        return f"the process that loads the flow resolver {self._resolver!r} died ({how}){output}"

    def _too_slow(self) -> str:
        return f"the flow resolver {self._resolver!r} was not loaded within {LOADING_LIMIT_SEC:.0f} s"

    async def _pause(self, pause_sec: float) -> None:
        try:
            async with asyncio.timeout(pause_sec):
                await self._closing.wait()
        except TimeoutError:
            return

    # --- a switch -----------------------------------------------------------------------------------------------------

    async def _first_of(self, fresh: RunnerGroup) -> ProcessRunner:
        try:
            runner = await fresh.fork()
        except OSError as error:
            raise InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver) from error
        ends: list[asyncio.Future[Any]] = [runner.loaded, runner.exited]
        await asyncio.wait(ends, timeout=LOADING_LIMIT_SEC, return_when=asyncio.FIRST_COMPLETED)
        if runner.loaded.cancelled():
            raise InvalidUsage(self._death(await asyncio.shield(runner.exited)), resolver=self._resolver)
        reason = runner.loaded.result() if runner.loaded.done() else self._too_slow()
        if reason is not None:
            raise InvalidUsage(reason, resolver=self._resolver)
        return runner

    # --- announcements ------------------------------------------------------------------------------------------------

    async def _discover(self, group: RunnerGroup) -> FlowAnnouncement:
        if not self._resolver:
            return FlowAnnouncement()
        return await group.discover_flows(self._flow_names, loading_limit_sec=LOADING_LIMIT_SEC)

    def _announce(self, announcement: FlowAnnouncement) -> None:
        self.announcement = announcement
        log_left_out(announcement)

    async def _close_if_empty(self, group: RunnerGroup) -> None:
        """Stops the fork server of a replaced environment after its last runner."""
        if group in self._retired and not group.runners:
            self._retired.discard(group)
            await group.close()


def _fail(first_try: asyncio.Future[None], error: InvalidUsage) -> None:
    if not first_try.done():
        first_try.set_exception(error)
