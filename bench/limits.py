"""What the machine itself can do: the bare framework and the raw broker, in the same run; no product code."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy

from bench.broker import Broker, Sync, wait_until_healthy
from bench.load import LoadClient, post_for
from bench.processes import Child, free_port

IN_FLIGHT = 64
PAYLOAD = b"x" * 256
# The loop and the parser that the product depends on, and like it no access log: the fastest this framework gets.
UVICORN_FLAGS = ("--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning")


def bare_framework(
    folder: Path, body: bytes, clients: tuple[LoadClient, ...], *, connections: int, seconds: float
) -> dict[LoadClient, float]:
    """Requests per second of an empty handler, by each load client."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.bare_app:create_app", "--factory", "--port", str(port)]
    root = str(Path(__file__).resolve().parent.parent)
    with Child("bare-framework", [*command, *UVICORN_FLAGS], cwd=folder, env={"PYTHONPATH": root}) as child:
        wait_until_healthy(port, "/health", child, timeout_sec=20)
        return {
            client: post_for(client, port, "/runs", body, connections=connections, seconds=seconds)
            .require_clean()
            .per_sec
            for client in clients
        }


def raw_broker(folder: Path, sync: Sync, *, count: int) -> dict[str, float]:
    """Messages per second by nats-py with 64 in flight: publish, KV put, and fetch with ack."""
    broker = Broker(folder, sync)
    try:
        return asyncio.run(_raw(broker.url, count))
    finally:
        broker.stop()


async def _raw(url: str, count: int) -> dict[str, float]:
    connection = await nats.connect(url)
    try:
        async with asyncio.timeout(120):
            js = connection.jetstream()
            await js.add_stream(name="RAW", subjects=["raw.>"], retention=RetentionPolicy.WORK_QUEUE)
            kv = await js.create_key_value(bucket="raw")
            return {
                "publish": await rate(count, lambda i: js.publish("raw.one", PAYLOAD)),
                "put": await rate(count, lambda i: kv.put(f"key{i}", PAYLOAD)),
                "fetch": await _fetch_rate(js, count),
            }
    finally:
        await connection.close()


async def rate(count: int, act: Callable[[int], Awaitable[object]], in_flight: int = IN_FLIGHT) -> float:
    """Calls `act(0..count)` with at most `in_flight` open and returns how many ended per second."""
    numbers = iter(range(count))

    async def lane() -> None:
        for number in numbers:
            await act(number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as lanes:
        for _ in range(in_flight):
            lanes.create_task(lane())
    return count / (time.perf_counter() - started)


async def _fetch_rate(js: JetStreamContext, count: int) -> float:
    config = ConsumerConfig(max_ack_pending=1000)
    subscription = await js.pull_subscribe("raw.one", durable="raw", stream="RAW", config=config)
    fetched = 0
    started = time.perf_counter()
    while fetched < count:
        messages = await subscription.fetch(min(IN_FLIGHT, count - fetched), timeout=10)
        for message in messages:
            await message.ack()
        fetched += len(messages)
    return count / (time.perf_counter() - started)
