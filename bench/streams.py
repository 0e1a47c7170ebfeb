"""Latency of a stored event to a reader of the run's stream, compared with a bare KV watch."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.connection import Connection, StepFailed, request_bytes
from bench.fill import jetstream
from bench.measures import submit_body
from bench.systems import Stack
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import AddTag
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions.command_handler import commit

# Longer than the merge interval of bursts, so that each event is sent alone.
PAUSE_SEC = 0.04
PATIENCE_SEC = 30.0
LABELS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Milliseconds from the moment an event is sent to the broker until a reader has it."""

    sse_ms: list[float]
    bare_ms: list[float]


def stored_to_reader(stack: Stack, count: int) -> Streams:
    """One event at a time; the events are appended by this process, so that one clock sees both ends."""
    return asyncio.run(_measure(stack, count))


async def _measure(stack: Stack, count: int) -> Streams:
    async with asyncio.timeout(PATIENCE_SEC + count):
        sse_ms: list[float] = []
        while len(sse_ms) < count:  # a run takes only so many labels
            sse_ms += await _sse(stack, min(LABELS, count - len(sse_ms)))
        return Streams(sse_ms=sse_ms, bare_ms=await _bare(stack, count))


async def _sse(stack: Stack, count: int) -> list[float]:
    url, token = stack.nats()
    with Connection(stack.port) as connection:
        answer = connection.request("POST", "/runs", submit_body("one")).require_ok("a submit")
    run_id = RunId(answer.json()["run_id"])
    taken = []
    config = NatsBackendConfig(nats_url=url, nats_token=token or "")
    async with open_stores(config, name="bench") as stores, _stream(stack.port, run_id) as events:
        loaded = await stores.snapshots.load(run_id)
        if loaded is None:
            raise StepFailed("a run that was accepted has no snapshot")
        execution = loaded.execution
        for number in range(count):
            await asyncio.sleep(PAUSE_SEC)
            sent_at = time.perf_counter()
            command = AddTag(at=stores.clock.now(), tag=f"label-{number}")
            writing = asyncio.create_task(commit(stores, execution, command, GATEWAY))
            await events.readuntil(f'"label-{number}"'.encode())
            taken.append((time.perf_counter() - sent_at) * 1000)
            execution = (await writing).execution
            await stores.snapshots.advance(execution)
    return taken


@asynccontextmanager
async def _stream(port: int, run_id: str) -> AsyncIterator[asyncio.StreamReader]:
    """The run's stream after its first event."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes("GET", f"/runs/{run_id}/watch"))
        await reader.readuntil(b"data: ")
        yield reader
    finally:
        writer.close()


async def _bare(stack: Stack, count: int) -> list[float]:
    """Puts a key and waits until nats-py's watch delivers it."""
    taken = []
    async with jetstream(*stack.nats()) as js:
        kv = await js.create_key_value(bucket="bench_watch")
        watch = await kv.watch("key")
        for _ in range(count):
            await asyncio.sleep(PAUSE_SEC)
            sent_at = time.perf_counter()
            writing = asyncio.create_task(kv.put("key", b"x" * 256))
            while await watch.updates(timeout=PATIENCE_SEC) is None:
                pass
            taken.append((time.perf_counter() - sent_at) * 1000)
            await writing
        await watch.stop()
    return taken
