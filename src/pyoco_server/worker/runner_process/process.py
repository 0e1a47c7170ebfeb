"""A forked runner: isolates itself, loads the user's resolver, runs one flow after the other.

It talks only to its supervisor, which decides about cancels and kills. The main thread runs flows; a reader thread
receives requests and sends batched steps:

    reader:  ["run", job] ──▶ queue ──▶ main: run_job ──▶ outbox ──▶ ["steps", [step, …], ended | null]
             ["cancel", run id] ──▶ switch of that run              (after 10 ms, or with the end of the run)
             ["announce", names] ──▶ queue ──▶ main: announce ──▶ ["announced", flows, left out, is complete]
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

from pyoco_server.adapters.embedded_nats.parent_death import die_with_parent
from pyoco_server.errors import InvalidUsage
from pyoco_server.trace import Step, TaskStarted
from pyoco_server.worker.output.capture import OutputCapture, capture_output
from pyoco_server.worker.runner_process import process_tree
from pyoco_server.worker.runner_process.flow_announcement import announce_flows
from pyoco_server.worker.runner_process.flow_loader import Resolver, load_resolver
from pyoco_server.worker.runner_process.flow_run import CancelSwitch, run_job
from pyoco_server.worker.runner_process.protocol import (
    EXIT_CUT_OFF,
    Decoder,
    FrameTooLarge,
    RunEnded,
    RunJob,
    announcement_to_wire,
    encode,
    ended_to_wire,
    job_from_wire,
    step_to_wire,
)

STEPS_WAIT_MS = 10
# Ids of the run that is under way.
RUN_VARIABLE, REQUEST_VARIABLE, CORRELATION_VARIABLE = "PYOCO_RUN_ID", "PYOCO_REQUEST_ID", "PYOCO_CORRELATION_ID"
READ_BYTES = 256 * 1024
CONTROL_DESCRIPTOR, LOG_DESCRIPTOR = 3, 4
LAST_DESCRIPTOR = 65_536
CLOSED_BY_A_TASK = (errno.EBADF, errno.ENOTSOCK)

_Names = tuple[str, ...]


def run_forked(*, control: int, log: int, resolver: str, parent_pid: int) -> NoReturn:
    """Serves until the supervisor disconnects; called in the forked child, never returns to the fork server."""
    try:
        _isolate(control, log, parent_pid)
        RunnerProcess(socket.socket(fileno=CONTROL_DESCRIPTOR), capture_output(LOG_DESCRIPTOR)).serve(resolver)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc(file=sys.__stderr__)
        os._exit(1)


def _isolate(control: int, log: int, parent_pid: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # A handler, because programs that tasks start would inherit SIG_IGN.
    signal.signal(signal.SIGINT, _ignored)
    os.setsid()
    process_tree.adopt_orphans()  # so that they end with this runner
    die_with_parent(parent_pid, signal.SIGKILL)
    # Moved above the numbers that they get below.
    control, log = (fcntl.fcntl(one, fcntl.F_DUPFD, LOG_DESCRIPTOR + 1) for one in (control, log))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(control, CONTROL_DESCRIPTOR, inheritable=False)
    os.dup2(log, LOG_DESCRIPTOR, inheritable=False)
    os.closerange(LOG_DESCRIPTOR + 1, min(os.sysconf("SC_OPEN_MAX"), LAST_DESCRIPTOR))
    faulthandler.enable(2, all_threads=False)  # a crash then names its line


def _ignored(_signal_number: int, _frame: FrameType | None) -> None:
    """The supervisor decides about interrupts."""


class _Run:
    """One job in this process: its cancel switch and its unsent steps.

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
        self._process.capture.note(step)
        with self._lock:
            if self._is_open:
                self._steps.append(step_to_wire(step))
        if isinstance(step, TaskStarted) and step.limit_sec is not None:
            self.flush()  # at once: the task may keep the reader from running, and its limit counts from now
        self._process.wake_reader()

    def flush(self) -> bool:
        """Sends the pending steps; returns False if there were none."""
        with self._lock:  # held while sending, so that later steps cannot overtake
            steps, self._steps = self._steps, []
            if steps:
                self._send(steps, None)
            return bool(steps)

    def end(self, ended: RunEnded) -> None:
        """Sends the pending steps and the end; steps that a left-over thread emits later are dropped."""
        with self._lock:
            self._is_open = False
            # Cleared: the reader would send them again as part of the next run.
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


class _ProcessState:
    """Working directory and environment after loading the resolver; restored after each run."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)

    def restore(self) -> None:
        with suppress(OSError):  # a run has removed the directory
            os.chdir(self._folder)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)


class RunnerProcess:
    def __init__(self, supervisor: socket.socket, capture: OutputCapture) -> None:
        self.capture = capture
        self._supervisor = supervisor
        self._sending = threading.Lock()
        self._requests: queue.SimpleQueue[_Run | _Names] = queue.SimpleQueue()
        self._current: _Run | None = None
        self._wake, self._wake_writer = os.pipe()
        self._reader_sleeps = True

    def serve(self, resolver_spec: str) -> NoReturn:
        """Runs jobs one at a time until the process ends, when the supervisor has disconnected."""
        threading.Thread(target=self._read_until_disconnect, name="pyoco-runner-reader", daemon=True).start()
        resolver, error = _load(resolver_spec)
        state = _ProcessState()
        self.send(encode(["ready", error]))
        while True:
            run = self._requests.get()
            if not isinstance(run, _Run):
                self.send(encode(["announced", *announcement_to_wire(announce_flows(resolver, run))]))
                continue
            self.capture.begin_run()
            _set_variables(run.job)
            ended = run_job(resolver, run.job, run.emit, run.cancel)
            state.restore()
            process_tree.reap_ended_children()
            self.capture.end_run()  # before the end: the supervisor then finds all output
            run.end(ended)

    def send(self, frame: bytes) -> None:
        with self._sending:
            try:
                self._supervisor.sendall(frame)
            except OSError as error:
                _exit_if_cut_off(error)
                raise

    def wake_reader(self) -> None:
        """Makes the reader send pending steps; it is usually awake."""
        if self._reader_sleeps:
            self._reader_sleeps = False
            try:
                os.write(self._wake_writer, b"!")
            except OSError as error:
                _exit_if_cut_off(error)
                raise

    def _read_until_disconnect(self) -> None:
        try:
            self._read()
        except OSError as error:
            _exit_if_cut_off(error)
            raise
        finally:
            # The supervisor is gone: stop tasks and the programs they started.
            process_tree.kill_group(os.getpid())

    def _read(self) -> None:
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
                    self._dispatch(message)
            elif self._wake in ready:
                os.read(self._wake, 64)
            elif not self._flush_steps():
                wait_ms = None

    def _flush_steps(self) -> bool:
        run = self._current
        if run is not None and run.flush():
            return True
        # Set the flag first, then check again: a step emitted in between would otherwise wait for the next one.
        self._reader_sleeps = True
        if run is not None and run.flush():
            self._reader_sleeps = False
            return True
        return False

    def _dispatch(self, message: Any) -> None:
        match message:
            case ["run", dict(fields)]:
                self._current = _Run(job_from_wire(fields), self)
                self._reader_sleeps = False
                self._requests.put(self._current)
            case ["announce", [*names]]:
                self._requests.put(tuple(names))
            case ["cancel", run_id]:
                # By run id: a late cancel must not hit the next run.
                if self._current is not None and self._current.job.run_id == run_id:
                    self._current.cancel.set()
            case _:
                raise ValueError(f"not a message of the supervisor: {message!r:.200}")


def _set_variables(job: RunJob) -> None:
    """The ids of the run, for tasks without `ctx` and for programs; restored after it, like all variables."""
    values = {
        RUN_VARIABLE: job.run_id,
        REQUEST_VARIABLE: job.request_id,
        CORRELATION_VARIABLE: job.correlation_id,
        "TRACEPARENT": job.traceparent,
        "TRACESTATE": job.tracestate,
    }
    os.environ.update({name: value for name, value in values.items() if value is not None})


def _exit_if_cut_off(error: OSError) -> None:
    """A task has closed one of our descriptors: the end cannot be sent, but the exit code gives the reason."""
    if error.errno in CLOSED_BY_A_TASK:
        os._exit(EXIT_CUT_OFF)


def _load(resolver_spec: str) -> tuple[Resolver, str | None]:
    """The resolver and None, or a resolver that fails every job with the load error, and that error."""
    try:
        return load_resolver(resolver_spec), None
    except InvalidUsage as error:
        reason = error

        def refuse(_flow_name: str) -> NoReturn:
            raise reason

        return refuse, error.detail
