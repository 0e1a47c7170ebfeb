"""Sends one request as fast as the server responds: with wrk if it is installed, else with our own client.

Both are run against the bare framework in every benchmark, to show that the client is not the limit.
"""

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.connection import StepFailed, request_bytes
from bench.load_clients import LoadClient, run_clients

Tool = Literal["wrk", "built-in"]
LUA_SCRIPT = Path(__file__).with_name("submit.lua")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The result of one burst of requests; `failed` are answers other than 2xx and 3xx."""

    requests: int
    failed: int
    seconds: float

    @property
    def per_sec(self) -> float:
        return (self.requests - self.failed) / self.seconds

    def require_clean(self) -> "Load":
        if self.failed or not self.requests:
            raise StepFailed(f"{self.failed} of {self.requests} requests failed under load")
        return self


def available_client() -> Tool:
    return "wrk" if shutil.which("wrk") else "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request that is repeated."""

    path: str
    method: str = "POST"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def ask_for(client: Tool, port: int, request: Request, *, connections: int, seconds: float) -> Load:
    """Sends the same request over `connections` connections for about `seconds`."""
    if client == "wrk":
        return _wrk(port, request, connections=connections, seconds=seconds)
    return _built_in(port, request, connections=connections, seconds=seconds)


def post_for(client: Tool, port: int, path: str, body: bytes, *, connections: int, seconds: float) -> Load:
    """Posts the same body over `connections` connections for about `seconds`."""
    return ask_for(client, port, Request(path=path, body=body), connections=connections, seconds=seconds)


def post_count(port: int, path: str, body: bytes, *, connections: int, count: int) -> Load:
    """Posts exactly `count` times; wrk can only count seconds, so this is always the built-in client."""
    request = Request(path=path, body=body)
    return _built_in(port, request, connections=connections, seconds=300, count=count)


def _wrk(port: int, request: Request, *, connections: int, seconds: float) -> Load:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
    for name, value in request.headers.items():
        command += ["-H", f"{name}: {value}"]
    finished = subprocess.run(
        [*command, "-s", str(LUA_SCRIPT), f"http://127.0.0.1:{port}{request.path}"],
        env={**os.environ, "BENCH_METHOD": request.method, "BENCH_BODY": request.body.decode()},
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    for line in finished.stdout.splitlines():
        if line.startswith("BENCH "):
            figures = json.loads(line[6:])
            return Load(requests=figures["requests"], failed=figures["failed"], seconds=figures["seconds"])
    raise StepFailed(f"wrk gave no figures: {(finished.stdout + finished.stderr)[-300:]}")


def _built_in(port: int, request: Request, *, connections: int, seconds: float, count: int | None = None) -> Load:
    payload = request_bytes(request.method, request.path, request.body, request.headers)
    statuses: list[int] = []
    numbers = itertools.count() if count is None else iter(range(count))
    until = time.monotonic() + seconds

    def client() -> LoadClient:
        for _ in numbers:
            if time.monotonic() >= until:
                return
            answer = yield payload
            statuses.append(answer.status)

    taken_sec = run_clients(port, [client() for _ in range(connections)], timeout_sec=seconds + 30)
    return Load(requests=len(statuses), failed=sum(not 200 <= s < 400 for s in statuses), seconds=taken_sec)
