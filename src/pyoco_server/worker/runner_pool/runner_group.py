"""The runners of one environment and one version of the code, and their fork server."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import KeysView, Sequence
from typing import Any

from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.worker.runner_pool.code import Code
from pyoco_server.worker.runner_pool.fork_client import ForkClient
from pyoco_server.worker.runner_pool.runner import OnOutput, ProcessRunner
from pyoco_server.worker.runner_process.flow_announcement import ANNOUNCE_LIMIT_SEC
from pyoco_server.worker.runner_process.protocol import RunnerDied
from pyoco_server.worker.runner_process.runner_user import RunnerUser
from pyoco_server.worker.wheels.environments import EnvironmentLease

logger = logging.getLogger(__name__)


class RunnerGroup:
    """Forks runners that import the same code, with one fork server at a time. Runners die with their fork server.

    Start it from the main thread (see `ForkClient.start`).
    """

    def __init__(
        self, code: Code, lease: EnvironmentLease, on_output: OnOutput, user: RunnerUser | None = None
    ) -> None:
        self.code = code
        self.lease = lease
        self.load_error: str | None = None  # why its runners cannot load the resolver
        self._user = user
        self._alive: dict[ProcessRunner, asyncio.Task[RunnerDied]] = {}
        self._on_output = on_output
        self._client: ForkClient | None = None
        self._client_lock = asyncio.Lock()
        self._forking = 0
        self._is_closed = False

    @property
    def runners(self) -> KeysView[ProcessRunner]:
        return self._alive.keys()

    @property
    def fork_server_pid(self) -> int | None:
        return None if self._client is None else self._client.pid

    async def fork(self) -> ProcessRunner:
        """Forks a runner, not warm yet; `OSError` if that is impossible."""
        self._forking += 1
        try:
            return await self._fork()
        finally:
            self._forking -= 1

    async def _fork(self) -> ProcessRunner:
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
        wheels, version = self.lease.environment.wheels, self.code.version
        runner = ProcessRunner(pid, client, log_reader, self._on_output, wheels, version)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: runner, sock=ours)
        except BaseException:
            runner.close()
            ours.close()
            raise
        self._alive[runner] = runner.exited = asyncio.create_task(runner.wait_exit())
        runner.exited.add_done_callback(lambda _: self._alive.pop(runner))
        return runner

    async def discover_flows(self, names: Sequence[str], *, loading_limit_sec: float) -> FlowAnnouncement:
        """The flows to announce, from a runner that never runs a job and has exited when this returns.

        Building all flows in one process, or a flow that ends the process, is harmless there. A failure costs only the
        announcement.
        """
        try:
            runner = await self.fork()
        except OSError as error:
            return FlowAnnouncement(left_out=(f"no process could be started to list the flows: {error}",))
        try:
            await _first_of(runner.loaded, runner.exited, timeout_sec=loading_limit_sec)
            if not _has_result(runner.loaded) or runner.loaded.result() is not None:
                return FlowAnnouncement()  # the serving runners report the same failure
            answer = runner.request_flows(names)
            await _first_of(answer, runner.exited, timeout_sec=ANNOUNCE_LIMIT_SEC)
            if _has_result(answer):
                return answer.result()
            late = f"no answer within {ANNOUNCE_LIMIT_SEC:g} s"
            reason = "the process that lists the flows died" if runner.exited.done() else late
            return FlowAnnouncement(left_out=(reason,))
        finally:
            runner.kill()
            # A replaced group is closed with its last runner, and this is one of them.
            await asyncio.wait([runner.exited])

    async def rest(self) -> None:
        """Stops the fork server if it has no runner; the next fork starts another one."""
        async with self._client_lock:
            if self._client is not None and not self._alive and not self._forking:
                client, self._client = self._client, None
                await client.close()

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
                raise OSError("the runner pool is closed")
            if self._client is not None and self._client.is_lost:
                logger.warning("fork server replaced", extra={"fork_server_pid": self._client.pid})
                await self._client.close()
                self._client = None
            if self._client is None:
                self._client = await ForkClient.start(self.code, self.lease, self._user)
            return self._client


async def _first_of(*awaited: asyncio.Future[Any], timeout_sec: float) -> None:
    await asyncio.wait(awaited, timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _has_result(answer: asyncio.Future[Any]) -> bool:
    return answer.done() and not answer.cancelled()
