"""The process that forks runners (`python -m pyoco_server.worker.runner_process.fork_server`). Runs no user code.

It has pyoco and the runner's code loaded, so a fork is a warm runner, and it has one thread, so a fork is safe. It does
not outlive its supervisor: when the socket closes or the supervisor dies, every runner is killed with its descendants.
Frames on the socket:

    supervisor ──▶ ["fork"] + two descriptors (control socket, log pipe)      ──▶ ["forked", pid] | ["not_forked", why]
               ──▶ ["kill", pid]          a runner dies ──▶ ["exited", pid, wait status]
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # pyoco imports it when a run starts; loaded here it is shared by all runners
import gc
import os
import selectors
import signal
import socket
import sys
from types import FrameType
from typing import Any

import orjson

from pyoco_server.adapters.embedded_nats.parent_death import die_with_parent
from pyoco_server.worker.runner_process import pinned_imports, process_tree
from pyoco_server.worker.runner_process.process import run_forked
from pyoco_server.worker.runner_process.protocol import Decoder, encode

DESCRIPTORS_PER_FORK = 2
READ_BYTES = 64 * 1024


def _wake_only(_signal_number: int, _frame: FrameType | None) -> None:
    """The wake-up descriptor carries the signal to the loop."""


class ForkServer:
    def __init__(self, supervisor: socket.socket, resolver: str) -> None:
        self._supervisor = supervisor
        self._resolver = resolver
        self._runners: set[int] = set()
        self._descriptors: list[int] = []
        self._decoder = Decoder()
        self._wake, self._wake_writer = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Serves until the supervisor is gone, then kills everything that it started."""
        self._wake.setblocking(False)
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_only)
        signal.signal(signal.SIGTERM, _wake_only)
        self._selector.register(self._supervisor, selectors.EVENT_READ, self._on_request)
        self._selector.register(self._wake, selectors.EVENT_READ, self._on_signal)
        try:
            is_running = True
            while is_running:
                is_running = all([key.data() for key, _ in self._selector.select()])
        except (BrokenPipeError, ConnectionResetError):
            return  # the supervisor died during a send
        finally:
            self._kill_everything()

    def _on_signal(self) -> bool:
        received = self._wake.recv(READ_BYTES)
        self._reap()
        return signal.SIGTERM not in received

    def _on_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._supervisor, READ_BYTES, 16 * DESCRIPTORS_PER_FORK)
        self._descriptors.extend(descriptors)
        for message in self._decoder.feed(data):
            match message:
                case ["fork"]:
                    self._fork()
                case ["kill", int(pid)] if pid in self._runners:
                    process_tree.kill_tree(pid)
        return bool(data)

    def _fork(self) -> None:
        # Descriptors arrive in the order of their requests, however the bytes are split.
        control, log = (self._descriptors.pop(0) for _ in range(DESCRIPTORS_PER_FORK))
        server_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._send(["not_forked", str(error)])
        else:
            if pid == 0:
                self._selector.close()
                run_forked(control=control, log=log, resolver=self._resolver, parent_pid=server_pid)
            self._runners.add(pid)
            self._send(["forked", pid])
        os.close(control)
        os.close(log)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                self._kill_strays()
                return
            if pid in self._runners:
                self._runners.remove(pid)
                process_tree.kill_group(pid)  # what a crashed runner left behind
                self._send(["exited", pid, status])

    def _kill_strays(self) -> None:
        """Kills what dead runners left behind in other sessions; a live runner has adopted its own orphans.

        Each kill is followed by SIGCHLD and another call, so one that forks meanwhile does not escape.
        """
        for child in process_tree.children_of(os.getpid()):
            if child not in self._runners:
                for descendant in (*process_tree.descendants_of(child), child):
                    process_tree.kill(descendant)

    def _kill_everything(self) -> None:
        for pid in self._runners:
            process_tree.kill_tree(pid)
        while True:
            for pid in process_tree.children_of(os.getpid()):
                process_tree.kill(pid)
            try:
                os.waitpid(-1, 0)  # all of them were killed; their orphans appear in the next iteration
            except ChildProcessError:
                return

    def _send(self, message: list[Any]) -> None:
        self._supervisor.sendall(encode(message))


def _read_sources(descriptor: int) -> dict[str, bytes]:
    """The sources that every runner imports, from the supervisor's file; see `ForkClient.start`."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return {path: text.encode("latin-1") for path, text in orjson.loads(file.read()).items()}


def main(arguments: str) -> None:
    """Serves with the settings (JSON) from `ForkClient.start`."""
    settings = orjson.loads(arguments)
    # PYTHONPATH was set only to find this package; user code gets the original environment.
    os.environ.pop("PYTHONPATH", None)
    if settings["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = settings["pythonpath"]
    sys.path[:] = settings["sys_path"]
    pinned_imports.install(_read_sources(settings["sources_descriptor"]))
    # Ctrl-C at a terminal reaches the whole group: the supervisor decides about the runners.
    signal.signal(signal.SIGINT, _wake_only)
    signal.signal(signal.SIGHUP, _wake_only)
    server = ForkServer(socket.socket(fileno=settings["descriptor"]), settings["resolver"])
    process_tree.adopt_orphans()
    # Tasks of one tenant must not read or change runners of another one, nor this process, from which all are forked.
    process_tree.hide_memory()
    die_with_parent(settings["supervisor_pid"], signal.SIGTERM)
    gc.collect()
    gc.freeze()  # garbage collection in a runner then leaves shared pages untouched
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1])
