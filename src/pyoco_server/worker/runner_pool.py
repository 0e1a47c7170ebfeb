"""Keeps a number of warm runner processes for the supervisor; user code runs in them and never here.

    async with pool.borrow() as runner:
        runner.begin(job)
        async for report in runner.reports():
            ...

Each slot of the pool is a task that keeps one runner alive: a runner that died or was killed is replaced. All runners
are children of one fork server; should that be lost, its runners die with it and a new one is started.

    switch(environment):  a new fork server ─▶ a runner of it is warm ─▶ idle runners of the old one go, busy ones after
                          their run, and with the last of them the old fork server;  not warm: all stays as it was
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.announce import warn_of_left_out
from pyoco_server.worker.environment import Lodging
from pyoco_server.worker.generation import Generation
from pyoco_server.worker.runner import OnOutput, Runner
from pyoco_server.worker.scout import scout
from pyoco_server.worker.steps import Died

LOADING_LIMIT_SEC = 120.0
FIRST_PAUSE_SEC = 0.05
LONGEST_PAUSE_SEC = 5.0

logger = logging.getLogger(__name__)


class RunnerPool:
    """`size` warm runners that know the flows of `resolver`; start it from the main thread (see `ForkLink.start`).

    `on_output(run_id, lines)` is called in the loop with what a runner writes, with an empty run id before its first
    run; it must neither wait nor raise. `flows` are those of the present environment: of the given names, else those
    that the resolver says it has.
    """

    stopped_by_kill = StopHow.KILLED

    def __init__(self, resolver: str, size: int, on_output: OnOutput, flow_names: Sequence[str] = ()) -> None:
        self.flows: tuple[AnnouncedFlow, ...] = ()
        self._resolver = resolver
        self._flow_names = flow_names
        self._size = size
        self._on_output = on_output
        self._present = Generation(resolver, Lodging(), on_output)
        self._past: set[Generation] = set()
        self._slots: list[asyncio.Task[None]] = []
        self._warm: set[Runner] = set()
        self._borrowed: set[Runner] = set()
        self._spares: deque[Runner] = deque()
        self._idle: asyncio.Queue[Runner | None] = asyncio.Queue()
        self._switching = asyncio.Lock()
        self._closing = asyncio.Event()

    async def start(self, lodging: Lodging | None = None) -> None:
        """Return when every runner is warm; InvalidUsage when the resolver cannot be loaded, and then start again."""
        self._present = Generation(self._resolver, lodging or Lodging(), self._on_output)
        self._idle = asyncio.Queue()
        self._closing.clear()
        loop = asyncio.get_running_loop()
        first_tries: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self._size)]
        self._slots = [asyncio.create_task(self._keep_slot(first)) for first in first_tries]
        scouting = asyncio.create_task(self._scout(self._present))
        try:
            outcomes = await asyncio.gather(*first_tries, return_exceptions=True)
            self._announce(await scouting)
        except BaseException:
            scouting.cancel()
            await self.close()
            await asyncio.wait([scouting])
            raise
        for trouble in outcomes:
            if trouble is not None:
                await self.close()
                raise trouble

    async def switch(self, lodging: Lodging) -> None:
        """From now on runs begin in this environment, while those that run end in theirs.

        InvalidUsage when no runner gets warm there: then nothing has changed, and the environment has been left.
        """
        async with self._switching:
            fresh = Generation(self._resolver, lodging, self._on_output)
            try:
                first = await self._first_of(fresh)
                announcement = await self._scout(fresh)
            except BaseException:
                await fresh.close()
                raise
            if self._closing.is_set():
                await fresh.close()
                return
            past, self._present = self._present, fresh
            self._past.add(past)
            self._spares = deque([first])
            self._announce(announcement)
            for runner in past.runners - self._borrowed:
                runner.kill()
            await self._close_if_empty(past)

    async def close(self) -> None:
        """Kill every runner with all it started and wait until they are gone."""
        self._closing.set()
        self._idle.put_nowait(None)
        for generation in (self._present, *self._past):
            await generation.close()
        self._spares.clear()
        await asyncio.gather(*self._slots)

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Runner]:
        """A free, warm runner for the length of the block; one that is still busy at its end is killed."""
        runner = await self._next_idle()
        self._borrowed.add(runner)
        try:
            yield runner
        finally:
            self._borrowed.discard(runner)
            if runner.is_busy or runner not in self._present.runners:
                runner.kill()
            elif runner.is_alive:
                self._idle.put_nowait(runner)

    def pids(self) -> list[int]:
        """The processes of the runners that are warm."""
        return sorted(runner.pid for runner in self._warm)

    @property
    def fork_server_pid(self) -> int | None:
        return self._present.fork_server_pid

    async def _next_idle(self) -> Runner:
        while True:
            runner = await self._idle.get()
            if runner is None:
                self._idle.put_nowait(None)  # for the next who waits
                raise RuntimeError("the runner pool is closed")
            if runner.is_alive and runner in self._present.runners:
                return runner

    # --- one slot -----------------------------------------------------------------------------------------------------

    async def _keep_slot(self, first_try: asyncio.Future[None]) -> None:
        failures = 0
        while not self._closing.is_set():
            generation = self._present
            try:
                runner = self._spares.popleft() if self._spares else await generation.fork()
            except OSError as error:
                if generation is not self._present:
                    continue  # it was given up meanwhile
                failures += 1
                logger.warning("a runner could not be started", extra={"reason": str(error)})
                _fail(first_try, InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver))
            else:
                died = await self._see_through(runner, generation, first_try)
                failures = 0 if runner.has_served or generation is not self._present else failures + 1
                _fail(first_try, InvalidUsage(self._last_words(died), resolver=self._resolver))
            await self._pause(failures)

    async def _see_through(self, runner: Runner, generation: Generation, first_try: asyncio.Future[None]) -> Died:
        """Offer the runner as soon as it is warm, until it is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._offer_when_loaded(runner, generation, first_try))
                died = await generation.departure(runner)  # also ends the wait for its being loaded
        finally:
            self._warm.discard(runner)
        if not self._closing.is_set():
            facts = {"runner_pid": runner.pid, "exit_code": died.exit_code, "signal": died.signal_name}
            logger.info("a runner is replaced", extra=facts)
        await self._close_if_empty(generation)
        return died

    async def _offer_when_loaded(self, runner: Runner, generation: Generation, first_try: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(LOADING_LIMIT_SEC):
                trouble = await runner.loaded
        except TimeoutError:
            trouble = self._too_slow()
            runner.kill()
        else:
            # One that cannot load the resolver serves too: its jobs fail with the reason, rather than wait for ever.
            self._warm.add(runner)
            if generation is self._present:
                self._idle.put_nowait(runner)
            else:
                runner.kill()  # forked just before the switch
        if trouble is not None:
            logger.warning("a runner cannot load the flow resolver", extra={"reason": trouble})
            _fail(first_try, InvalidUsage(trouble, resolver=self._resolver))
        elif not first_try.done():
            first_try.set_result(None)

    def _last_words(self, died: Died) -> str:
        how = died.signal_name or f"exit code {died.exit_code}"
        said = "".join(f"\n{line}" for line in died.last_lines)
        return f"the process that loads the flow resolver {self._resolver!r} died ({how}){said}"

    def _too_slow(self) -> str:
        return f"the flow resolver {self._resolver!r} was not loaded within {LOADING_LIMIT_SEC:.0f} s"

    async def _pause(self, failures: int) -> None:
        """The longer, the more often it failed in a row: what cannot start must not eat the machine."""
        if failures == 0:
            return
        try:
            async with asyncio.timeout(min(FIRST_PAUSE_SEC * 2**failures, LONGEST_PAUSE_SEC)):
                await self._closing.wait()
        except TimeoutError:
            return

    # --- a switch -----------------------------------------------------------------------------------------------------

    async def _first_of(self, fresh: Generation) -> Runner:
        """A warm runner of a generation that has not served yet."""
        try:
            runner = await fresh.fork()
        except OSError as error:
            raise InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver) from error
        gone = fresh.departure(runner)
        signs: list[asyncio.Future[Any]] = [runner.loaded, gone]
        await asyncio.wait(signs, timeout=LOADING_LIMIT_SEC, return_when=asyncio.FIRST_COMPLETED)
        if runner.loaded.done() and not runner.loaded.cancelled():
            trouble = runner.loaded.result()
        else:
            trouble = self._last_words(await gone) if runner.loaded.done() else self._too_slow()
        if trouble is not None:
            raise InvalidUsage(trouble, resolver=self._resolver)
        return runner

    # --- announcing ---------------------------------------------------------------------------------------------------

    async def _scout(self, generation: Generation) -> FlowAnnouncement:
        if not self._resolver:
            return FlowAnnouncement()
        return await scout(generation, self._flow_names, loading_limit_sec=LOADING_LIMIT_SEC)

    def _announce(self, announcement: FlowAnnouncement) -> None:
        self.flows = announcement.flows
        warn_of_left_out(announcement)

    async def _close_if_empty(self, generation: Generation) -> None:
        """The fork server of an environment that nobody begins runs in any more goes with its last runner."""
        if generation in self._past and not generation.runners:
            self._past.discard(generation)
            await generation.close()


def _fail(first_try: asyncio.Future[None], error: InvalidUsage) -> None:
    if not first_try.done():
        first_try.set_exception(error)
