"""Child processes of the benchmark: started with a log file, measured, ended by pid; never by name."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

TAIL_CHARS = 600


class StepFailed(Exception):
    """A step of the benchmark could not be measured; the message says why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """One process in a session of its own, its output in a file; `stop` also ends what it left behind."""

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
        """Ends the process and says which of its descendants had to be ended for it."""
        family = descendants(self.pid)
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            family_note = [f"{self.name} did not stop within {timeout_sec:g} s of SIGTERM and was killed"]
        else:
            family_note = []
        return family_note + [f"{self.name} left a process behind: {one.comm}" for one in family if one.end()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Descendant:
    """A process below a child, remembered with its start time so that a reused pid is never signalled."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.comm = _read(pid, "comm").strip()
        self.started = _start_ticks(pid)

    def end(self, patience_sec: float = 2.0) -> bool:
        """True when the process was still there after `patience_sec` and had to be killed."""
        deadline = time.monotonic() + patience_sec
        while time.monotonic() < deadline:
            if _start_ticks(self.pid) != self.started:
                return False
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        return True


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:  # the process has ended, or this is not Linux
        return ""


def _start_ticks(pid: int) -> str:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        found += [int(child) for child in _read(pid, f"task/{task.name}/children").split()]
    return found


def descendants(pid: int) -> list[Descendant]:
    found: list[Descendant] = []
    for child in children(pid):
        found += [Descendant(child), *descendants(child)]
    return found


def comm(pid: int) -> str:
    return _read(pid, "comm").strip()


def tree_mib(pid: int) -> float:
    """Resident memory of a process and all below it; pages shared by several count by their share (PSS)."""
    return own_mib(pid) + sum(tree_mib(child) for child in children(pid))


def own_mib(pid: int) -> float:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
