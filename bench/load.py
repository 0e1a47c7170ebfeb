"""Drives one request as fast as the server answers: wrk where it is installed, else our own client; it never retries.

Both are run against the bare framework in every benchmark, so the reader can see that the client is not the limit."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from bench.connection import request_bytes
from bench.processes import StepFailed

LoadClient = Literal["wrk", "built-in"]
LUA_SCRIPT = Path(__file__).with_name("submit.lua")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one burst of requests gave; `failed` are answers other than 2xx and 3xx, and broken connections."""

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


def available_client() -> LoadClient:
    return "wrk" if shutil.which("wrk") else "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent again and again."""

    path: str
    method: str = "POST"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def ask_for(client: LoadClient, port: int, request: Request, *, connections: int, seconds: float) -> Load:
    """Sends the same request over `connections` connections for about `seconds`."""
    if client == "wrk":
        return _wrk(port, request, connections=connections, seconds=seconds)
    return asyncio.run(_built_in(port, request, connections=connections, seconds=seconds, limit=None))


def post_for(client: LoadClient, port: int, path: str, body: bytes, *, connections: int, seconds: float) -> Load:
    """Posts the same body over `connections` connections for about `seconds`."""
    return ask_for(client, port, Request(path=path, body=body), connections=connections, seconds=seconds)


def post_count(port: int, path: str, body: bytes, *, connections: int, count: int) -> Load:
    """Posts exactly `count` times; wrk can only count seconds, so this is always the built-in client."""
    request = Request(path=path, body=body)
    return asyncio.run(_built_in(port, request, connections=connections, seconds=300, limit=count))


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


class _Poster(asyncio.Protocol):
    """One connection with one request under way; the next leaves in the same callback in which the answer came."""

    def __init__(self, burst: "_Burst") -> None:
        self._burst = burst
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._received.lower().find(b"content-length:", 0, end)
        length = int(self._received[at + 15 : self._received.index(b"\r\n", at)]) if at >= 0 else 0
        if len(self._received) < end + 4 + length:
            return
        self._burst.answered(ok=self._received[9:10] in b"23")
        self._received = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._burst.left(broken=exc is not None or not self._burst.over())

    def _next(self) -> None:
        if self._burst.take():
            self._transport.write(self._burst.payload)
        else:
            self._transport.close()


class _Burst:
    """The requests still to send, and what became of those that were sent."""

    def __init__(self, payload: bytes, *, connections: int, until: float, limit: int | None) -> None:
        self.payload = payload
        self.requests = self.failed = self._taken = 0
        self._until = until
        self._limit = limit
        self._open = connections
        self.finished = asyncio.get_running_loop().create_future()

    def over(self) -> bool:
        return time.monotonic() >= self._until or (self._limit is not None and self._taken >= self._limit)

    def take(self) -> bool:
        if self.over():
            return False
        self._taken += 1
        return True

    def answered(self, *, ok: bool) -> None:
        self.requests += 1
        self.failed += not ok

    def left(self, *, broken: bool) -> None:
        self.failed += broken
        self._open -= 1
        if self._open == 0 and not self.finished.done():
            self.finished.set_result(None)


async def _built_in(port: int, request: Request, *, connections: int, seconds: float, limit: int | None) -> Load:
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    payload = request_bytes(request.method, request.path, request.body, request.headers)
    burst = _Burst(payload, connections=connections, until=started + seconds, limit=limit)
    async with asyncio.timeout(seconds + 30):
        for _ in range(connections):
            await loop.create_connection(lambda: _Poster(burst), "127.0.0.1", port)
        await burst.finished
    return Load(requests=burst.requests, failed=burst.failed, seconds=time.monotonic() - started)
