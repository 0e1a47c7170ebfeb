"""Our programs as real processes, with their output line by line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import httpx
import orjson

from support.processes import descendants_of, kill_after

ROOT = Path(__file__).parents[2]
FLOWS = ROOT / "tests" / "e2e" / "flows.py"
PATIENCE_SEC = 30.0

T = TypeVar("T")


def clean_environment() -> dict[str, str]:
    """An environment without settings."""
    # Test runners set COLUMNS and LINES for their workers.
    left_out = ("PYOCO_", "OTEL_", "FASTAPI_", "LC_", "LANG", "COLUMNS", "LINES")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")])
    return clean | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class Program:
    """A process that is killed with its descendants when the block ends."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, program: str = sys.executable
    ) -> None:
        self._process = subprocess.Popen(
            [program, *arguments],
            cwd=cwd,
            env=clean_environment() | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.out = Lines(self._process.stdout)
        self.err = Lines(self._process.stderr)

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = [] if self._process.poll() is not None else descendants_of(self.pid)
        self._process.kill()
        self._process.wait()
        kill_after(started, 5.0)
        self.out.close()
        self.err.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Waits for its exit code."""
        return self._process.wait(PATIENCE_SEC)

    def output(self) -> str:
        return "\n".join(["--- stdout", *self.out.all(), "--- stderr", *self.err.all()])

    def logs(self) -> list[dict[str, Any]]:
        """Its log entries so far; every line of stdout must be one."""
        return [orjson.loads(line) for line in self.out.all()]


class Lines:
    """The lines of a stream, read concurrently."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._lines: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def all(self) -> list[str]:
        with self._news:
            return list(self._lines)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits for the first line that matches."""
        seen = 0
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    if found := re.search(pattern, line):
                        return found
                seen = len(self._lines)
                if self._ended or not self._news.wait(PATIENCE_SEC):
                    lines = "\n".join(self._lines)
                    raise AssertionError(f"no line with {pattern!r} among:\n{lines}")

    def close(self) -> None:
        self._reader.join(PATIENCE_SEC)
        self._stream.close()

    def _read(self) -> None:
        for line in self._stream:
            with self._news:
                self._lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def until(ask: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    """Polls until the condition holds, and returns the last value."""
    end = time.monotonic() + 2 * PATIENCE_SEC
    while not is_so(answer := ask()):
        assert time.monotonic() < end, answer
        time.sleep(0.02)
    return answer


def server(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Program:
    return Program("-m", "pyoco_server.cli.server", *arguments, cwd=cwd, env=env)


def up(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Program:
    """`pyoco-server up` on a free port, with its data in `cwd / "data"`."""
    return server("up", "--port", "0", "--data-dir", "data", *arguments, cwd=cwd, env=env)


def up_with_worker(cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Program:
    """The same with a worker for the flows of these tests."""
    return up(cwd, "--with-worker", "--flow-resolver", f"{FLOWS}:resolve", *arguments, env=env)


def worker(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Program:
    return Program("-m", "pyoco_server.cli.worker", *arguments, cwd=cwd, env=env)


def client(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Program:
    return Program("-m", "pyoco_server.cli.client", *arguments, cwd=cwd, env=env)


def address_of(program: Program) -> str:
    """Its address, as soon as it prints it."""
    return program.err.wait_for(r"pyoco-server is up: (http://\S+)")[1]


def flow_worker(name: str, cwd: Path, env: Mapping[str, str], *, concurrency: int = 1) -> Program:
    """A worker for the flows of these tests, in addition to `up`."""
    arguments = ("--data-dir", "data", "--worker-id", name, "--flow-resolver", f"{FLOWS}:resolve")
    return worker(*arguments, "--concurrency", str(concurrency), cwd=cwd, env=env)


def connected(program: Program) -> httpx.Client:
    """A client of the gateway, as soon as it is up."""
    return httpx.Client(base_url=address_of(program), timeout=PATIENCE_SEC)


def run_of(client: httpx.Client, run_id: str) -> dict[str, Any]:
    """The run, as soon as the broker answers: under load a reply may be late."""
    answer = until(
        lambda: client.get(f"/runs/{run_id}"), lambda answer: answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE
    )
    run: dict[str, Any] = answer.json()
    return run
