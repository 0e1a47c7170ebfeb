"""The supervisor's client of a fork server: starts it, requests forks and kills, receives exits."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections import deque
from typing import Any

import orjson

from pyoco_server.worker.runner_pool.code import Code
from pyoco_server.worker.runner_process import process_tree
from pyoco_server.worker.runner_process.protocol import CorruptFrame, Decoder, encode
from pyoco_server.worker.runner_process.runner_user import FORK_SERVER, RunnerUser
from pyoco_server.worker.wheels.environments import EnvironmentLease
from pyoco_server.worker.wheels.venv_builder import user_code_variables

READ_BYTES = 64 * 1024
EXIT_LIMIT_SEC = 5.0


class ForkClient:
    """A running fork server. When it is lost, all its runners are killed."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._fork_requests: deque[asyncio.Future[int]] = deque()
        self._exits: dict[int, asyncio.Future[int | None]] = {}
        self.is_lost = False
        self._loop.add_reader(channel, self._on_readable)

    @classmethod
    async def start(cls, code: Code, lease: EnvironmentLease, user: RunnerUser | None = None) -> ForkClient:
        """Starts a fork server. It dies with the calling thread, so call this from the main thread.

        It is of the runners' user too, because an environment may have code of wheels that runs when Python starts.
        """
        with tempfile.TemporaryFile() as sources:
            # Any bytes as text, and back.
            sources.write(orjson.dumps({path: content.decode("latin-1") for path, content in code.files.items()}))
            sources.flush()
            return await cls._start(code.resolver, lease, user, sources.fileno())

    @classmethod
    async def _start(
        cls, resolver: str, lease: EnvironmentLease, user: RunnerUser | None, sources_descriptor: int
    ) -> ForkClient:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            settings = {
                "descriptor": theirs.fileno(),
                "sources_descriptor": sources_descriptor,
                "resolver": resolver,
                "supervisor_pid": os.getpid(),
                "sys_path": lease.environment.path_over(sys.path),
                "pythonpath": os.environ.get("PYTHONPATH"),
            }
            python = str(lease.environment.python)
            command = [python, "-P", "-m", FORK_SERVER, orjson.dumps(settings).decode()]
            # The worker's own search path: no wheel can replace the fork server's code.
            variables = lease.environment.variables(user_code_variables()) | {"PYTHONPATH": os.pathsep.join(sys.path)}
            try:
                process = await asyncio.create_subprocess_exec(
                    *(command if user is None else user.command(*command)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=2,  # standard output belongs to the supervisor's own log
                    pass_fds=[theirs.fileno(), sources_descriptor],
                    env=variables if user is None else user.variables(variables),
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, control: socket.socket, log_writer: int) -> int:
        """Forks a runner, which gets a copy of both descriptors; returns its pid."""
        answer: asyncio.Future[int] = self._loop.create_future()
        self._fork_requests.append(answer)
        self._send(["fork"], [control.fileno(), log_writer])
        return await answer

    def kill(self, pid: int) -> None:
        """Kills the runner's process group and its other descendants, unless it is known to be dead."""
        if pid in self._exits and not self._exits[pid].done():
            self._send(["kill", pid], [])

    def exit_of(self, pid: int) -> asyncio.Future[int | None]:
        """Resolves to the runner's wait status, or None if the fork server was lost before."""
        return self._exits[pid]

    def forget(self, pid: int) -> None:
        self._exits.pop(pid, None)

    async def close(self) -> None:
        """Closes the connection and waits until the fork server has killed its runners and exited."""
        self._on_lost()
        try:
            async with asyncio.timeout(EXIT_LIMIT_SEC):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _send(self, message: list[Any], descriptors: list[int]) -> None:
        if self.is_lost:
            for answer in self._fork_requests:
                _fail(answer, OSError("the fork server is gone"))
            return
        try:
            # Messages are small: a full socket means that the fork server is stuck.
            socket.send_fds(self._channel, [encode(message)], descriptors)
        except OSError:
            self._on_lost()

    def _on_readable(self) -> None:
        try:
            data = self._channel.recv(READ_BYTES)
            messages = self._decoder.feed(data)
        except BlockingIOError:
            return
        except (OSError, CorruptFrame):
            self._on_lost()
            return
        for message in messages:
            self._dispatch(message)
        if not data:
            self._on_lost()

    def _dispatch(self, message: Any) -> None:
        match message:
            case ["forked", pid]:
                self._exits[pid] = self._loop.create_future()
                answer = self._fork_requests.popleft()
                if answer.cancelled():
                    self.kill(pid)  # the caller was cancelled
                else:
                    answer.set_result(pid)
            case ["not_forked", why]:
                _fail(self._fork_requests.popleft(), OSError(f"no new process can be started: {why}"))
            case ["exited", pid, status] if pid in self._exits and not self._exits[pid].done():
                self._exits[pid].set_result(status)

    def _on_lost(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._loop.remove_reader(self._channel)
        self._channel.close()
        while self._fork_requests:
            _fail(self._fork_requests.popleft(), OSError("the fork server is gone"))
        for pid, ended in self._exits.items():
            if not ended.done():
                # A runner dies with the fork server; the programs that its tasks started do not.
                process_tree.kill_group(pid)
                ended.set_result(None)


def _fail(answer: asyncio.Future[int], error: OSError) -> None:
    if not answer.done():
        answer.set_exception(error)
