"""The runners of one environment and the fork server they come from; which of them serves is the pool's decision."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import KeysView
from weakref import WeakKeyDictionary

from pyoco_server.worker.environment import Lodging
from pyoco_server.worker.fork_link import ForkLink, ForkServerLost
from pyoco_server.worker.runner import OnOutput, Runner
from pyoco_server.worker.steps import Died

logger = logging.getLogger(__name__)


class Generation:
    """Forks runners in one environment, with one fork server at a time: a lost one takes its runners along.

    Start it from the main thread (see `ForkLink.start`).
    """

    def __init__(self, resolver: str, lodging: Lodging, on_output: OnOutput) -> None:
        self.lodging = lodging
        self._living: dict[Runner, asyncio.Task[Died]] = {}
        # Those that are gone too, for as long as somebody has them: a spare may be gone before it is wanted.
        self._departures: WeakKeyDictionary[Runner, asyncio.Task[Died]] = WeakKeyDictionary()
        self._resolver = resolver
        self._on_output = on_output
        self._link: ForkLink | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False

    @property
    def runners(self) -> KeysView[Runner]:
        """Those that are not gone."""
        return self._living.keys()

    @property
    def fork_server_pid(self) -> int | None:
        return None if self._link is None else self._link.pid

    async def fork(self) -> Runner:
        """A new runner, not warm yet; `OSError` when there is none to be had."""
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
        runner = Runner(
            pid=pid, link=link, log_descriptor=log_reader, on_output=self._on_output, wheels=self.lodging.wheels
        )
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: runner, sock=ours)
        except BaseException:
            runner.close()
            ours.close()
            raise
        departure = asyncio.create_task(runner.gone())
        departure.add_done_callback(lambda _: self._living.pop(runner))
        self._living[runner] = self._departures[runner] = departure
        return runner

    def departure(self, runner: Runner) -> asyncio.Future[Died]:
        """Becomes how the runner ended, when it is gone; whoever stops waiting for it does not keep it from going."""
        return asyncio.shield(self._departures[runner])

    async def close(self) -> None:
        """Kill every runner with all it started, wait until they are gone, and leave the environment."""
        async with self._linking:
            if self._is_closed:
                return
            self._is_closed = True
            if self._link is not None:
                await self._link.close()
        if self._living:
            await asyncio.wait(self._living.values())
        self.lodging.leave()

    async def _live_link(self) -> ForkLink:
        async with self._linking:
            if self._is_closed:
                raise ForkServerLost("the runner pool is closed")
            if self._link is not None and self._link.is_lost:
                logger.warning("the fork server is replaced", extra={"fork_server_pid": self._link.pid})
                await self._link.close()
                self._link = None
            if self._link is None:
                self._link = await ForkLink.start(self._resolver, self.lodging)
            return self._link
