"""The supervisor's side of the fork server: starts it, asks for forks and kills, hears of deaths; it runs no job."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from typing import Any

import orjson

from pyoco_server.config import SETTINGS
from pyoco_server.worker import process_tree
from pyoco_server.worker.environment import Lodging
from pyoco_server.worker.pipe import CorruptFrame, Decoder, encode

READ_BYTES = 64 * 1024
EXIT_LIMIT_SEC = 5.0
# Not marked as secrets, but an address may hold a password, and the file is one.
WAY_TO_BROKER = ("nats_url", "nats_creds_file")


class ForkServerLost(OSError):
    """the fork server is gone"""


class ForkRefused(OSError):
    """the fork server could not fork"""


def environment_of_flows() -> dict[str, str]:
    """What user code may know of the worker's environment: the way to the broker and other secrets are not for it."""
    hidden = {setting.variable for setting in SETTINGS if setting.secret or setting.name in WAY_TO_BROKER}
    return {name: value for name, value in os.environ.items() if name not in hidden}


class ForkLink:
    """A running fork server. When it is lost, so are its runners: all of them are killed, none is left unaccounted."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._asked: deque[asyncio.Future[int]] = deque()
        self._exits: dict[int, asyncio.Future[int | None]] = {}
        self.is_lost = False
        self._loop.add_reader(channel, self._hear)

    @classmethod
    async def start(cls, resolver: str, lodging: Lodging) -> ForkLink:
        """Start a fork server; it dies with the thread that calls this, so call it from the main thread."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            settings = {
                "descriptor": theirs.fileno(),
                "resolver": resolver,
                "supervisor_pid": os.getpid(),
                "sys_path": lodging.sys_path(),
                "pythonpath": os.environ.get("PYTHONPATH"),
            }
            try:
                process = await asyncio.create_subprocess_exec(
                    *(lodging.python, "-P", "-m", "pyoco_server.worker.fork_server", orjson.dumps(settings).decode()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=2,  # standard output belongs to the supervisor's own log
                    pass_fds=[theirs.fileno()],
                    # By the worker's own search path: no wheel can put itself in the place of this program.
                    env=lodging.variables(environment_of_flows()) | {"PYTHONPATH": os.pathsep.join(sys.path)},
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, control: socket.socket, log_writer: int) -> int:
        """The pid of a new runner that owns a copy of both descriptors."""
        answer: asyncio.Future[int] = self._loop.create_future()
        self._asked.append(answer)
        self._tell(["fork"], [control.fileno(), log_writer])
        return await answer

    def kill(self, pid: int) -> None:
        """SIGKILL the runner's process group and its other descendants, unless it is known to be dead."""
        if pid in self._exits and not self._exits[pid].done():
            self._tell(["kill", pid], [])

    def exit_of(self, pid: int) -> asyncio.Future[int | None]:
        """Becomes the runner's wait status; None when the fork server was lost before it could say."""
        return self._exits[pid]

    def forget(self, pid: int) -> None:
        self._exits.pop(pid, None)

    async def close(self) -> None:
        """Hang up and wait until the fork server has killed its runners and gone."""
        self._lose()
        try:
            async with asyncio.timeout(EXIT_LIMIT_SEC):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _tell(self, message: list[Any], descriptors: list[int]) -> None:
        if self.is_lost:
            for answer in self._asked:
                _refuse(answer, ForkServerLost("the fork server is gone"))
            return
        try:
            # Small words on a roomy socket: one that is full belongs to a fork server that is stuck.
            socket.send_fds(self._channel, [encode(message)], descriptors)
        except OSError:
            self._lose()

    def _hear(self) -> None:
        try:
            data = self._channel.recv(READ_BYTES)
            messages = self._decoder.feed(data)
        except BlockingIOError:
            return
        except (OSError, CorruptFrame):
            self._lose()
            return
        for message in messages:
            self._take_in(message)
        if not data:
            self._lose()

    def _take_in(self, message: Any) -> None:
        match message:
            case ["forked", pid]:
                self._exits[pid] = self._loop.create_future()
                answer = self._asked.popleft()
                if answer.cancelled():
                    self.kill(pid)  # whoever asked has gone away
                else:
                    answer.set_result(pid)
            case ["not_forked", why]:
                _refuse(self._asked.popleft(), ForkRefused(f"no new process can be started: {why}"))
            case ["exited", pid, status] if pid in self._exits and not self._exits[pid].done():
                self._exits[pid].set_result(status)

    def _lose(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._loop.remove_reader(self._channel)
        self._channel.close()
        while self._asked:
            _refuse(self._asked.popleft(), ForkServerLost("the fork server is gone"))
        for pid, ended in self._exits.items():
            if not ended.done():
                # A runner dies with the fork server; the programs that its tasks started do not.
                process_tree.kill_group(pid)
                ended.set_result(None)


def _refuse(answer: asyncio.Future[int], error: OSError) -> None:
    if not answer.done():
        answer.set_exception(error)
