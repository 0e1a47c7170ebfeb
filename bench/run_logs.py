"""Storage rate of the output of one run, compared with a bare publish of the same bytes to JetStream."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from bench.connection import Connection, StepFailed
from bench.fill import jetstream
from bench.systems import DEFAULT_TAGS, Stack

CHUNK_BYTES = 64 * 1024
POLL_SEC = 0.01
PATIENCE_SEC = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLines:
    """From the start of the run to its end, which is stored when its lines are."""

    lines_per_sec: float
    bytes_per_sec: float
    bare_bytes_per_sec: float


def stored(stack: Stack, count: int) -> StoredLines:
    """One run prints `count` lines; reports nothing unless all of them are stored."""
    with Connection(stack.port) as connection:
        _finished(connection, 100)  # warms the worker
        run = _finished(connection, count)
        last = connection.request("GET", f"/runs/{run['run_id']}/logs?tail=1").require_ok("a log").json()["items"][-1]
    if last["n"] != count:
        raise StepFailed(f"{last['n']} lines of {count} are stored: the worker has dropped some")
    seconds = run["end_time"] - run["start_time"]
    size = count * (len(last["message"]) + 1)
    return StoredLines(
        lines_per_sec=count / seconds,
        bytes_per_sec=size / seconds,
        bare_bytes_per_sec=size / asyncio.run(_bare_sec(stack, size)),
    )


def _finished(connection: Connection, lines: int) -> dict[str, Any]:
    body = {"flow_name": "prints", "params": {"lines": lines}, "tag": DEFAULT_TAGS[0]}
    answer = connection.request("POST", "/runs", json.dumps(body).encode()).require_ok("a submit")
    path = f"/runs/{answer.json()['run_id']}"
    give_up = time.perf_counter() + PATIENCE_SEC
    while time.perf_counter() < give_up:
        run: dict[str, Any] = connection.request("GET", path).require_ok("a read").json()
        if run["status"] == "COMPLETED":
            return run
        time.sleep(POLL_SEC)
    raise StepFailed(f"a run that prints {lines} lines was not COMPLETED within {PATIENCE_SEC:g} s")


async def _bare_sec(stack: Stack, size: int) -> float:
    async with jetstream(*stack.nats()) as js:
        await js.add_stream(name="BENCH_LOGS", subjects=["bench.logs"])
        began = time.perf_counter()
        for start in range(0, size, CHUNK_BYTES):
            await js.publish("bench.logs", b"x" * min(CHUNK_BYTES, size - start))
        seconds = time.perf_counter() - began
        await js.delete_stream("BENCH_LOGS")
    return seconds
