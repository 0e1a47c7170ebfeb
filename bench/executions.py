"""Measures `/executions`: commands, claims and a wide graph, each compared with a limit or itself."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nats

from bench.connection import Connection, StepFailed
from bench.limits import bare_framework, rate
from bench.load_clients import run_clients
from bench.measures import submit_body
from bench.node_work import (
    Held,
    Tally,
    claim,
    claiming,
    crew,
    put_graph,
    reporting,
    started,
    submitting,
    success,
    working,
)
from bench.systems import Stack
from pyoco_server.adapters.embedded_nats.server import Sync
from support.broker import Broker

PATIENCE_SEC = 120.0
# Approximate size of a record, an event and a finished record.
RECORD, EVENT, FINISHED_RECORD = b"x" * 420, b"x" * 560, b"x" * 860
RAW_STREAM, RAW_BUCKET = "RAW_EVENTS", "raw_records"
CLAIMERS = 16
SMALL, CHAIN, FORK, SINGLE = "bench-small", "bench-chain", "bench-fork", "bench-single"
SMALL_NODES = 10
# Long enough for a sent claim to be queued.
IN_LINE_SEC = 0.03
KEYED_CONNECTIONS = 64
BURST_SEC = 1.0


def command_rate(port: int, nodes: Sequence[Held], *, seconds: float) -> float:
    """Progress commands per second, one connection for each node, each command with a key of its own."""
    tally = Tally()
    taken = run_clients(
        port, [reporting(node, tally, seconds=seconds) for node in nodes], timeout_sec=seconds + PATIENCE_SEC
    )
    return tally.done / taken


def bare_rates(folder: Path, connections: Sequence[int], *, seconds: float) -> dict[int, float]:
    """The same requests to the bare framework with an empty handler, by the same client."""
    node = Held(execution_id="00000000-0000-7000-8000-000000000000", node_id="n")
    with bare_framework(folder) as port:
        return {n: command_rate(port, [node] * n, seconds=seconds) for n in connections}


def raw_rates(folder: Path, sync: Sync, connections: Sequence[int], *, count: int) -> dict[int, float]:
    """The sequential writes of a command, by nats-py: record, event, finished record."""
    with Broker(folder, sync_always=sync == "always") as broker:
        return asyncio.run(_raw(broker.url, connections, count))


async def _raw(url: str, connections: Sequence[int], count: int) -> dict[int, float]:
    client = await nats.connect(url)
    try:
        async with asyncio.timeout(PATIENCE_SEC):
            js = client.jetstream()
            await js.add_stream(name=RAW_STREAM, subjects=["raw.>"])
            kv = await js.create_key_value(bucket=RAW_BUCKET)

            async def one(number: int) -> None:
                key = f"{in_flight}-{number}"
                revision = await kv.create(key, RECORD)
                await js.publish(f"raw.{number % in_flight}", EVENT)
                await kv.update(key, FINISHED_RECORD, revision)

            rates = {}
            for in_flight in connections:
                rates[in_flight] = await rate(count if in_flight > 1 else count // 4, one, in_flight)
            return rates
    finally:
        await client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Duration of a claim: `waiting_ms` since the success that made the node ready, `ready_ms` for a ready node."""

    waiting_ms: list[float]
    ready_ms: list[float]


def claim_latency(stack: Stack, count: int) -> Claims:
    """A claim in a long poll while another client ends the previous node; then the same claims without waiting."""
    names = [f"step{place}" for place in range(count + 1)]
    put_graph(stack, CHAIN, names, list(pairwise(names)))
    started(stack, CHAIN, 1)
    waiting_ms = []
    with Connection(stack.port) as holder, Connection(stack.port) as claimer:
        claimer.send(claim(CHAIN, "claimer", wait_sec=PATIENCE_SEC / 4))
        node = claimer.receive().require_ok("a claim").json()
        for _ in range(count):
            claimer.send(claim(CHAIN, "claimer", wait_sec=PATIENCE_SEC / 4))
            time.sleep(IN_LINE_SEC)
            holder.send(success(node))
            holder.receive().require_ok("a success")
            since = time.perf_counter()
            node = claimer.receive().require_ok("a claim").json()
            waiting_ms.append((time.perf_counter() - since) * 1000)
    return Claims(waiting_ms=waiting_ms, ready_ms=_claimed_at_once(stack, count))


def _claimed_at_once(stack: Stack, count: int) -> list[float]:
    put_graph(stack, SMALL, [f"n{place}" for place in range(SMALL_NODES)])
    started(stack, SMALL, -(-count // SMALL_NODES))
    tally = Tally()
    run_clients(stack.port, [claiming(SMALL, "alone", tally)], timeout_sec=PATIENCE_SEC)
    return tally.taken_ms


def claim_rate(stack: Stack, count: int) -> float:
    """Claims per second of a crew, of executions with ten ready nodes each."""
    put_graph(stack, SMALL, [f"n{place}" for place in range(SMALL_NODES)])
    started(stack, SMALL, count // SMALL_NODES)
    tally, began = Tally(), time.perf_counter()
    run_clients(stack.port, [claiming(SMALL, name, tally) for name in crew(CLAIMERS)], timeout_sec=PATIENCE_SEC)
    if tally.done != count:
        raise StepFailed(f"{tally.done} of {count} ready nodes were claimed")
    return count / (tally.last_at - began)


def fork_seconds(stack: Stack, width: int) -> float:
    """One root, `width` tasks after it and one join, executed by a crew."""
    middle = [f"task{place}" for place in range(width)]
    edges = [*(("root", name) for name in middle), *((name, "join") for name in middle)]
    put_graph(stack, FORK, ["root", *middle, "join"], edges)
    return _worked_off(stack, FORK, executions=1, total=width + 2)


def apart_seconds(stack: Stack, nodes: int) -> float:
    """The same number of nodes, each in its own execution, executed by an equal crew."""
    put_graph(stack, SINGLE, ["only"])
    return _worked_off(stack, SINGLE, executions=nodes, total=nodes)


def _worked_off(stack: Stack, graph_id: str, *, executions: int, total: int) -> float:
    made = started(stack, graph_id, executions)
    tally, began = Tally(), time.perf_counter()
    clients = [working(graph_id, name, tally, total) for name in crew(CLAIMERS)]
    run_clients(stack.port, clients, timeout_sec=PATIENCE_SEC)
    with Connection(stack.port) as connection:
        for execution_id in made[-3:]:
            status = connection.request("GET", f"/executions/{execution_id}").require_ok("a read").json()["status"]
            if status != "COMPLETED":
                raise StepFailed(f"an execution whose nodes have all ended is {status}")
    return tally.last_at - began


def cost_of_a_key(stack: Stack, *, seconds: float) -> float:
    """POST /runs with a key of its own each as a share of those without, in alternating bursts."""
    answered = {"with": 0.0, "without": 0.0}
    for turn in range(max(2, round(seconds))):
        for side in ("with", "without") if turn % 2 else ("without", "with"):
            answered[side] += _submit_rate(stack, with_key=side == "with")
    return answered["with"] / answered["without"]


def _submit_rate(stack: Stack, *, with_key: bool) -> float:
    tally, body = Tally(), submit_body("one")
    clients = [submitting(body, tally, with_key=with_key, seconds=BURST_SEC) for _ in range(KEYED_CONNECTIONS)]
    taken = run_clients(stack.port, clients, timeout_sec=PATIENCE_SEC)
    return tally.done / taken
