"""The process that forks runners (`python -m pyoco_server.worker.fork_server`); it never runs user code itself.

It has loaded pyoco and the runner's code, so a fork is a warm runner, and it has one thread, so a fork is safe. It
outlives no supervisor: when the supervisor's end of the socket closes, or the supervisor dies, every runner is killed
with all its descendants. Words spoken over the socket, as frames:

    supervisor ──▶ ["fork"] + two descriptors (control socket, log pipe)      ──▶ ["forked", pid] | ["not_forked", why]
               ──▶ ["kill", pid]          a runner dies ──▶ ["exited", pid, wait status]
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # pyoco imports it when a run begins; here it is shared by all runners
import gc
import os
import selectors
import signal
import socket
import sys
from types import FrameType
from typing import Any

import orjson

from pyoco_server.worker import process_tree
from pyoco_server.worker.pipe import Decoder, encode
from pyoco_server.worker.runner_process import run_forked

DESCRIPTORS_PER_FORK = 2
READ_BYTES = 64 * 1024


def _noted(_signal_number: int, _frame: FrameType | None) -> None:
    """The wake-up descriptor carries the signal to the loop."""


class ForkServer:
    """Forks, kills and reaps runners as the supervisor asks."""

    def __init__(self, supervisor: socket.socket, resolver: str) -> None:
        self._supervisor = supervisor
        self._resolver = resolver
        self._runners: set[int] = set()
        self._descriptors: list[int] = []
        self._decoder = Decoder()
        self._wake, self._wake_writer = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Until the supervisor is gone; then nothing that it started is left."""
        self._wake.setblocking(False)
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        signal.signal(signal.SIGTERM, _noted)
        self._selector.register(self._supervisor, selectors.EVENT_READ, self._hear_supervisor)
        self._selector.register(self._wake, selectors.EVENT_READ, self._hear_signals)
        try:
            going_on = True
            while going_on:
                going_on = all([key.data() for key, _ in self._selector.select()])
        except (BrokenPipeError, ConnectionResetError):
            return  # the supervisor went while it was being told something
        finally:
            self._kill_everything()

    def _hear_signals(self) -> bool:
        received = self._wake.recv(READ_BYTES)
        self._reap()
        return signal.SIGTERM not in received

    def _hear_supervisor(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._supervisor, READ_BYTES, 16 * DESCRIPTORS_PER_FORK)
        self._descriptors.extend(descriptors)
        for message in self._decoder.feed(data):
            match message:
                case ["fork"]:
                    self._fork()
                case ["kill", int(pid)] if pid in self._runners:
                    self._kill_runner(pid)
        return bool(data)

    def _fork(self) -> None:
        # Descriptors arrive in the order of the requests they belong to, however the bytes are split.
        control, log = (self._descriptors.pop(0) for _ in range(DESCRIPTORS_PER_FORK))
        server_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(["not_forked", str(error)])
        else:
            if pid == 0:
                self._selector.close()
                run_forked(control=control, log=log, resolver=self._resolver, parent_pid=server_pid)
            self._runners.add(pid)
            self._tell(["forked", pid])
        os.close(control)
        os.close(log)

    def _kill_runner(self, pid: int) -> None:
        descendants = process_tree.descendants_of(pid)
        process_tree.kill_group(pid)
        for descendant in descendants:  # those with a session of their own are not in the group
            process_tree.kill(descendant)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._runners:
                self._runners.remove(pid)
                process_tree.kill_group(pid)  # what a crashed runner left behind
                self._tell(["exited", pid, status])

    def _kill_everything(self) -> None:
        for pid in self._runners:
            self._kill_runner(pid)
        while True:
            for pid in process_tree.children_of(os.getpid()):
                process_tree.kill(pid)
            try:
                os.waitpid(-1, 0)  # everyone here has been killed; their orphans are listed in the next turn
            except ChildProcessError:
                return

    def _tell(self, message: list[Any]) -> None:
        self._supervisor.sendall(encode(message))


def main(arguments: str) -> None:
    """Serve as the arguments (JSON) say; they come from `ForkLink.start`."""
    settings = orjson.loads(arguments)
    # Only to find this package was the search path in the environment; user code gets the environment as it was.
    os.environ.pop("PYTHONPATH", None)
    if settings["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = settings["pythonpath"]
    sys.path[:] = settings["sys_path"]
    # Ctrl-C at a terminal goes to the whole group: what becomes of the runners is the supervisor's decision.
    signal.signal(signal.SIGINT, _noted)
    signal.signal(signal.SIGHUP, _noted)
    server = ForkServer(socket.socket(fileno=settings["descriptor"]), settings["resolver"])
    process_tree.adopt_orphans()
    process_tree.die_with_parent(settings["supervisor_pid"], signal.SIGTERM)
    gc.collect()
    gc.freeze()  # a collection in a runner then leaves the shared pages alone
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1])
