"""Child processes of the benchmark: started with a log file, measured, ended by pid; never by name."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from bench.connection import Connection, StepFailed
from support.processes import descendants_of, kill_after

TAIL_CHARS = 600


class Child:
    """A process in its own session with its output in a file; `stop` also ends its descendants."""

    def __init__(self, name: str, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log_path = cwd / f"{name}.log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                list(command),
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_alive(self) -> None:
        if (code := self.process.poll()) is not None:
            raise StepFailed(f"{self.name} ended with {code}: {self.log_tail()}")

    def log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-TAIL_CHARS:].strip() or "no output"

    def stop(self, timeout_sec: float = 15.0) -> list[str]:
        """Ends the process, and names those of its descendants that had to be killed."""
        family, notes = descendants_of(self.pid), []
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            notes.append(f"{self.name} did not stop within {timeout_sec:g} s of SIGTERM and was killed")
        return notes + [f"{self.name} left a process behind: {name}" for name in kill_after(family, 2.0)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def tree_mib(pid: int) -> float:
    """Resident memory of a process and all below it; pages shared by several count by their share (PSS)."""
    return sum(own_mib(one) for one in (pid, *(child.pid for child in descendants_of(pid))))


def own_mib(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_full_info().pss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0


def wait_until_healthy(port: int, path: str, child: Child, *, timeout_sec: float) -> None:
    """Returns with the first 200; asks every few milliseconds because start-up time is one of the rows."""
    deadline = time.monotonic() + timeout_sec
    while time.monotonic() < deadline:
        child.require_alive()
        try:
            with Connection(port, timeout_sec=2) as connection:
                if connection.request("GET", path).status == 200:
                    return
        except (OSError, StepFailed):
            time.sleep(0.005)
    raise StepFailed(f"{child.name} did not answer {path} within {timeout_sec:g} s: {child.log_tail()}")
