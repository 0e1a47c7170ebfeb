"""A hundred watchers of one log, by each transport: latency, and cost for the gateway.

The log is written by a real worker, one line at a time; each line says when it was printed. All processes are on one
machine, so one clock sees both ends. The same run without watchers is measured for comparison.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import psutil
from websockets.asyncio.client import connect

from bench.connection import Connection, StepFailed, content_length, request_bytes
from bench.measures import p50, p95
from bench.systems import DEFAULT_TAGS, Stack
from bench.transport_rows import UNWATCHED

LINES_PER_SEC = 10
PATIENCE_SEC = 60.0
LONG_POLL_SEC = 20
_PRINTED_AT = re.compile(rb"printed at ([0-9.]+)")


@dataclass(slots=True)
class Seen:
    """The lines, requests and bytes of all watchers together."""

    late_ms: list[float] = field(default_factory=list)
    requests: int = 0
    received: int = 0
    lines: int = 0

    def take(self, data: bytes) -> None:
        """Counts the received bytes and the latency of their lines."""
        now = time.time()
        self.received += len(data)
        found = [float(at) for at in _PRINTED_AT.findall(data)]
        self.lines += len(found)
        self.late_ms += [(now - at) * 1000 for at in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Per watcher and second, but for the latency (ms) and the gateway's share of one processor."""

    late_p50: float
    late_p95: float
    requests: float
    bytes: float
    cpu: float


Watch = Callable[[int, str, Seen, float], Awaitable[None]]
"""Watches a job's log to its end; the last is the watcher's place among all of them, from 0 to 1."""


def compare(stack: Stack, *, watchers: int, seconds: int) -> dict[str, Cost | float]:
    """The cost of each way, and the gateway's share of a processor without watchers."""
    asyncio.run(_measure(stack, None, watchers=0, seconds=2))  # warms the worker
    alone = asyncio.run(_measure(stack, None, watchers=0, seconds=seconds)).cpu
    costs: dict[str, Cost | float] = {UNWATCHED: alone}
    for way, watch in WAYS.items():
        costs[way] = asyncio.run(_measure(stack, watch, watchers=watchers, seconds=seconds))
    return costs


async def _measure(stack: Stack, watch: Watch | None, *, watchers: int, seconds: int) -> Cost:
    seen, count = Seen(), seconds * LINES_PER_SEC
    job_id = _submitted(stack.port, count)
    async with asyncio.timeout(seconds + PATIENCE_SEC):
        before, began = _cpu_sec(stack.gateway_pid), time.perf_counter()
        if watch is None:
            await asyncio.to_thread(_finished, stack.port, job_id)
        else:
            await asyncio.gather(*(watch(stack.port, job_id, seen, number / watchers) for number in range(watchers)))
        took, used = time.perf_counter() - began, _cpu_sec(stack.gateway_pid) - before
    if seen.lines != watchers * count:
        raise StepFailed(f"{watchers} watchers of {count} lines saw {seen.lines} of them")
    share = max(1, watchers) * took
    return Cost(
        late_p50=p50(seen.late_ms) if seen.late_ms else 0.0,
        late_p95=p95(seen.late_ms) if seen.late_ms else 0.0,
        requests=seen.requests / share,
        bytes=seen.received / share,
        cpu=100 * used / took,
    )


def _submitted(port: int, lines: int) -> str:
    body = {"flow": "ticks", "parameters": {"lines": lines, "per_sec": LINES_PER_SEC}, "tag": DEFAULT_TAGS[0]}
    with Connection(port) as connection:
        answer = connection.request("POST", "/jobs", json.dumps(body).encode()).require_ok("a submit")
    job_id: str = answer.json()["id"]
    return job_id


def _finished(port: int, job_id: str) -> None:
    give_up = time.perf_counter() + PATIENCE_SEC
    with Connection(port) as connection:
        while time.perf_counter() < give_up:
            if connection.request("GET", f"/jobs/{job_id}").require_ok("a read").json()["completedAt"]:
                return
            time.sleep(0.5)
    raise StepFailed("a job that prints did not end")


def _cpu_sec(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


# --- transports -------------------------------------------------------------------------------------------------------


def _polling(every_sec: float, wait_sec: int = 0) -> Watch:
    """Polls for new lines; with `wait_sec` the gateway delays a response until there are some."""

    async def watch(port: int, job_id: str, seen: Seen, place: float) -> None:
        await asyncio.sleep(place * every_sec)  # clients do not poll at the same moment
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        token = ""
        try:
            while True:
                path = f"/jobs/{job_id}/logs?waitSec={wait_sec}" + (f"&sinceToken={token}" if token else "")
                writer.write(request_bytes("GET", path))
                seen.requests += 1
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(content_length(head))
                seen.take(head + body)
                page = json.loads(body)
                token = page["nextToken"]
                if page["complete"]:
                    return
                await asyncio.sleep(every_sec)
        finally:
            writer.close()

    return watch


async def _sse(port: int, job_id: str, seen: Seen, _: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seen.requests += 1
    try:
        writer.write(request_bytes("GET", f"/jobs/{job_id}/logs/stream", headers={"Accept": "text/event-stream"}))
        while True:
            part = await reader.readuntil(b"\n\n")
            seen.take(part)
            if b"event: end" in part:
                return
    finally:
        writer.close()


async def _websocket(port: int, job_id: str, seen: Seen, _: float) -> None:
    seen.requests += 1
    async with connect(f"ws://127.0.0.1:{port}/jobs/{job_id}/ws", compression=None, proxy=None) as socket:
        async for message in socket:
            data = message.encode() if isinstance(message, str) else message
            seen.take(data)
            seen.received += 2 if len(data) < 126 else 4 if len(data) < 65536 else 10  # the frame around it


WAYS: dict[str, Watch] = {
    "poll1": _polling(1.0),
    "poll02": _polling(0.2),
    "long": _polling(0.0, LONG_POLL_SEC),
    "sse": _sse,
    "ws": _websocket,
}
