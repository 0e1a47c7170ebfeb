"""The limits of the machine: the bare framework and the raw broker, in the same run; no product code."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy

from bench.load import Tool, post_for
from bench.processes import Child, wait_until_healthy
from pyoco_server.adapters.embedded_nats.server import Sync
from support.broker import Broker
from support.processes import port_of, reserve_port

IN_FLIGHT = 64
PAYLOAD = b"x" * 256
# The loop and the parser that the product depends on, and like it no access log: the fastest this framework gets.
UVICORN_FLAGS = ("--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning")


@contextmanager
def bare_framework(folder: Path) -> Iterator[int]:
    """The port of an application with empty handlers."""
    command = [sys.executable, "-m", "uvicorn", "bench.bare_app:create_app", "--factory"]
    root = str(Path(__file__).resolve().parent.parent)
    with reserve_port() as reserved:
        port = port_of(reserved)
        arguments = [*command, "--port", str(port), *UVICORN_FLAGS]
        with Child("bare-framework", arguments, cwd=folder, env={"PYTHONPATH": root}) as child:
            wait_until_healthy(port, "/health", child, timeout_sec=20)
            yield port


def bare_rates(
    folder: Path, body: bytes, clients: tuple[Tool, ...], *, connections: int, seconds: float
) -> dict[Tool, float]:
    """Requests per second of an empty handler, by each load client."""
    with bare_framework(folder) as port:
        loads = {
            client: post_for(client, port, "/runs", body, connections=connections, seconds=seconds)
            for client in clients
        }
    return {client: load.require_clean().per_sec for client, load in loads.items()}


def raw_broker(folder: Path, sync: Sync, *, count: int) -> dict[str, float]:
    """Messages per second by nats-py with 64 in flight: publish, KV put, and fetch with ack."""
    with Broker(folder, sync_always=sync == "always") as broker:
        return asyncio.run(_raw(broker.url, count))


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

    async def client() -> None:
        for number in numbers:
            await act(number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as clients:
        for _ in range(in_flight):
            clients.create_task(client())
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
