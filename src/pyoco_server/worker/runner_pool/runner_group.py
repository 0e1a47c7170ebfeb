"""The runners of one environment and their fork server."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import KeysView

from pyoco_server.worker.runner_pool.fork_client import ForkClient, ForkServerGone
from pyoco_server.worker.runner_pool.runner import OnOutput, ProcessRunner
from pyoco_server.worker.runner_process.protocol import RunnerDied
from pyoco_server.worker.wheels.environments import EnvironmentLease

logger = logging.getLogger(__name__)


class RunnerGroup:
    """Forks runners in one environment, with one fork server at a time. Runners die with their fork server.

    Start it from the main thread (see `ForkClient.start`).
    """

    def __init__(self, resolver: str, lease: EnvironmentLease, on_output: OnOutput) -> None:
        self.lease = lease
        self._alive: dict[ProcessRunner, asyncio.Task[RunnerDied]] = {}
        self._resolver = resolver
        self._on_output = on_output
        self._client: ForkClient | None = None
        self._client_lock = asyncio.Lock()
        self._is_closed = False

    @property
    def runners(self) -> KeysView[ProcessRunner]:
        """The runners that are alive."""
        return self._alive.keys()

    @property
    def fork_server_pid(self) -> int | None:
        return None if self._client is None else self._client.pid

    async def fork(self) -> ProcessRunner:
        """Forks a runner, not warm yet; `OSError` if that is impossible."""
        client = await self._live_client()
        ours, theirs = socket.socketpair()
        log_reader, log_writer = os.pipe()
        try:
            pid = await client.fork(theirs, log_writer)
        except BaseException:
            ours.close()
            os.close(log_reader)
            raise
        finally:
            theirs.close()
            os.close(log_writer)
        runner = ProcessRunner(
            pid=pid, client=client, log_descriptor=log_reader, on_output=self._on_output, wheels=self.lease.wheels
        )
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: runner, sock=ours)
        except BaseException:
            runner.close()
            ours.close()
            raise
        self._alive[runner] = runner.exited = asyncio.create_task(runner.wait_exit())
        runner.exited.add_done_callback(lambda _: self._alive.pop(runner))
        return runner

    async def close(self) -> None:
        """Kills every runner with its descendants, waits for their exit, and releases the environment."""
        async with self._client_lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._client is not None:
                await self._client.close()
        if self._alive:
            await asyncio.wait(self._alive.values())
        self.lease.release()

    async def _live_client(self) -> ForkClient:
        async with self._client_lock:
            if self._is_closed:
                raise ForkServerGone("the runner pool is closed")
            if self._client is not None and self._client.is_lost:
                logger.warning("fork server replaced", extra={"fork_server_pid": self._client.pid})
                await self._client.close()
                self._client = None
            if self._client is None:
                self._client = await ForkClient.start(self._resolver, self.lease)
            return self._client
