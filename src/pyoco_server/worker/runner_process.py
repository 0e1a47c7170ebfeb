"""What a forked runner does: set itself apart, load the user's resolver, run one flow after the other.

It never talks to anyone but its supervisor, and it decides nothing: whether a run is stopped or the process killed is
said by the supervisor. The main thread runs flows; a reader thread hears the supervisor and sends steps that waited:

    reader:  ["run", job] ──▶ queue ──▶ main: run_job ──▶ outbox ──▶ ["steps", [step, …], ended | null]
             ["cancel", run id] ──▶ switch of that run              (after 10 ms, or with the end of the run)
             ["announce", names] ──▶ queue ──▶ main: announce ──▶ ["announced", flows, what was left out]
"""

from __future__ import annotations

import errno
import faulthandler
import fcntl
import os
import queue
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from pyoco_server.errors import InvalidUsage
from pyoco_server.trace import Step
from pyoco_server.worker import process_tree
from pyoco_server.worker.announce import announce
from pyoco_server.worker.flow_run import CancelSwitch, Resolver, run_job
from pyoco_server.worker.pipe import Decoder, FrameTooLarge, encode
from pyoco_server.worker.resolver import load_resolver
from pyoco_server.worker.runner_voice import Voice, take_over
from pyoco_server.worker.steps import (
    EXIT_CUT_OFF,
    Ended,
    RunJob,
    announcement_to_wire,
    ended_to_wire,
    job_from_wire,
    step_to_wire,
)

STEPS_WAIT_MS = 10
READ_BYTES = 256 * 1024
CONTROL_DESCRIPTOR, LOG_DESCRIPTOR = 3, 4
LAST_DESCRIPTOR = 65_536
CLOSED_BY_A_TASK = (errno.EBADF, errno.ENOTSOCK)

_Names = tuple[str, ...]


def run_forked(*, control: int, log: int, resolver: str, parent_pid: int) -> NoReturn:
    """Be a runner until the supervisor hangs up; called in the forked child, and never returns to the fork server."""
    try:
        _set_apart(control, log, parent_pid)
        RunnerProcess(socket.socket(fileno=CONTROL_DESCRIPTOR), take_over(LOG_DESCRIPTOR)).serve(resolver)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc(file=sys.__stderr__)
        os._exit(1)


def _set_apart(control: int, log: int, parent_pid: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # A handler, not SIG_IGN: the programs that tasks start would inherit that.
    signal.signal(signal.SIGINT, _ignored)
    os.setsid()
    process_tree.die_with_parent(parent_pid, signal.SIGKILL)
    # Out of the way of the numbers they are about to get.
    control, log = (fcntl.fcntl(one, fcntl.F_DUPFD, LOG_DESCRIPTOR + 1) for one in (control, log))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(control, CONTROL_DESCRIPTOR, inheritable=False)
    os.dup2(log, LOG_DESCRIPTOR, inheritable=False)
    os.closerange(LOG_DESCRIPTOR + 1, min(os.sysconf("SC_OPEN_MAX"), LAST_DESCRIPTOR))
    faulthandler.enable(2, all_threads=False)  # a crash then says in which line of which task


def _ignored(_signal_number: int, _frame: FrameType | None) -> None:
    """The supervisor decides what an interrupt means."""


class _Run:
    """One job in this process, with its way to be stopped and its steps on their way out.

    Steps are sent in as few frames as possible: those of a short run in one, together with its end.
    """

    def __init__(self, job: RunJob, process: RunnerProcess) -> None:
        self.job = job
        self.cancel = CancelSwitch()
        self._process = process
        self._lock = threading.Lock()
        self._steps: list[list[Any]] = []
        self._is_open = True

    def emit(self, step: Step) -> None:
        self._process.voice.note(step)
        with self._lock:
            if self._is_open:
                self._steps.append(step_to_wire(step))
        self._process.wake_reader()

    def flush(self) -> bool:
        """Send what has gathered; False when there was nothing."""
        with self._lock:  # also while sending: what is taken later must not overtake
            steps, self._steps = self._steps, []
            if steps:
                self._send(steps, None)
            return bool(steps)

    def end(self, ended: Ended) -> None:
        """Send what has gathered and the end; steps that a left-over thread tells later go nowhere."""
        with self._lock:
            self._is_open = False
            # Taken out: the reader would send them again, into the report of the run that comes next.
            steps, self._steps = self._steps, []
            self._send(steps, ended_to_wire(ended))

    def _send(self, steps: list[list[Any]], ended: list[Any] | None) -> None:
        try:
            frame = encode(["steps", steps, ended])
        except FrameTooLarge:
            half = len(steps) // 2  # every single step is bounded far below the cap
            self._send(steps[:half], None)
            self._send(steps[half:], ended)
        else:
            self._process.send(frame)


class _Surroundings:
    """Folder and environment as the resolver left them: what one run changes must not reach the next."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)

    def restore(self) -> None:
        with suppress(OSError):  # a run has removed the folder: the next one finds it missing, as everyone does
            os.chdir(self._folder)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)


class RunnerProcess:
    """One runner, from its first word to the supervisor's hanging up."""

    def __init__(self, supervisor: socket.socket, voice: Voice) -> None:
        self.voice = voice
        self._supervisor = supervisor
        self._sending = threading.Lock()
        self._asked: queue.SimpleQueue[_Run | _Names] = queue.SimpleQueue()
        self._current: _Run | None = None
        self._wake, self._wake_writer = os.pipe()
        self._reader_sleeps = True

    def serve(self, resolver_spec: str) -> NoReturn:
        """Run jobs one at a time; ends with the process, when the reader hears that the supervisor is gone."""
        threading.Thread(target=self._hear_until_gone, name="pyoco-runner-reader", daemon=True).start()
        resolver, trouble = _load(resolver_spec)
        surroundings = _Surroundings()
        self.send(encode(["ready", trouble]))
        while True:
            run = self._asked.get()
            if not isinstance(run, _Run):
                self.send(encode(["announced", *announcement_to_wire(announce(resolver, run))]))
                continue
            self.voice.begin_run()
            ended = run_job(resolver, run.job, run.emit, run.cancel)
            surroundings.restore()
            self.voice.end_run()  # before the end is told: its reader then finds all that was written
            run.end(ended)

    def send(self, frame: bytes) -> None:
        with self._sending:
            try:
                self._supervisor.sendall(frame)
            except OSError as error:
                _leave_if_cut_off(error)
                raise

    def wake_reader(self) -> None:
        """See to it that the reader looks for steps to send; almost always it does so anyway."""
        if self._reader_sleeps:
            self._reader_sleeps = False
            try:
                os.write(self._wake_writer, b"!")
            except OSError as error:
                _leave_if_cut_off(error)
                raise

    def _hear_until_gone(self) -> None:
        try:
            self._hear()
        except OSError as error:
            _leave_if_cut_off(error)
            raise
        finally:
            # Nobody is left to hear how it ends; tasks and the programs they started are to stop.
            process_tree.kill_group(os.getpid())

    def _hear(self) -> None:
        decoder = Decoder()
        poller = select.poll()
        poller.register(self._supervisor, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        wait_ms: int | None = None
        while True:
            ready = [descriptor for descriptor, _ in poller.poll(wait_ms)]
            wait_ms = STEPS_WAIT_MS
            if self._supervisor.fileno() in ready:
                data = self._supervisor.recv(READ_BYTES)
                if not data:
                    return
                for message in decoder.feed(data):
                    self._obey(message)
            elif self._wake in ready:
                os.read(self._wake, 64)
            elif not self._flush_steps():
                wait_ms = None

    def _flush_steps(self) -> bool:
        run = self._current
        if run is not None and run.flush():
            return True
        # First say that we sleep, then look once more: a step told in between would otherwise lie until the next.
        self._reader_sleeps = True
        if run is not None and run.flush():
            self._reader_sleeps = False
            return True
        return False

    def _obey(self, message: Any) -> None:
        match message:
            case ["run", [*wire]]:
                self._current = _Run(job_from_wire(wire), self)
                self._reader_sleeps = False
                self._asked.put(self._current)
            case ["announce", [*names]]:
                self._asked.put(tuple(names))
            case ["cancel", run_id]:
                # By name: a cancel that comes late must not hit the next run.
                if self._current is not None and self._current.job.run_id == run_id:
                    self._current.cancel.set()
            case _:
                raise ValueError(f"not a word of the supervisor: {message!r:.200}")


def _leave_if_cut_off(error: OSError) -> None:
    """A task has closed a descriptor of ours: nobody can be told how the run ends, but this code says why."""
    if error.errno in CLOSED_BY_A_TASK:
        os._exit(EXIT_CUT_OFF)


def _load(resolver_spec: str) -> tuple[Resolver, str | None]:
    """The resolver, or one that fails every job with the reason why it could not be loaded, and that reason."""
    try:
        return load_resolver(resolver_spec), None
    except InvalidUsage as error:
        reason = error

        def refuse(_flow_name: str) -> NoReturn:
            raise reason

        return refuse, error.detail
