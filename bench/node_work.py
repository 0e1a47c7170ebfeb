"""Executions whose nodes the benchmark itself claims and ends."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from bench.connection import Answer, Connection, request_bytes
from bench.load_clients import LoadClient, run_clients
from bench.systems import Stack

OPEN_GRAPH = "bench-open"
PROGRESS_BODY = json.dumps({"progress": 42, "message": "halfway there"}).encode()
OUTPUT_BODY = json.dumps({"output": {"rows": 3}}).encode()
SETUP_CLIENTS = 16
SETUP_SEC = 120.0
CLAIM_WAIT_SEC = 1.0
LEASE_SEC = 120.0

_KEYS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A node that the benchmark holds."""

    execution_id: str
    node_id: str


def keyed(path: str, body: bytes = b"{}") -> bytes:
    """A command with a new key."""
    return request_bytes("POST", path, body, {"Idempotency-Key": f"bench-{next(_KEYS)}"})


def put_graph(stack: Stack, graph_id: str, nodes: Sequence[str], edges: Sequence[tuple[str, str]] = ()) -> None:
    body = json.dumps({"nodes": list(nodes), "edges": [list(edge) for edge in edges]}).encode()
    with Connection(stack.port) as connection:
        head = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        connection.send(request_bytes("PUT", f"/graphs/{graph_id}", b"", head) + body)
        connection.receive().require_ok("a graph")


def started(stack: Stack, graph_id: str, number: int) -> list[str]:
    """Starts `number` executions of the graph, and returns their ids."""
    made: list[str] = []
    numbers = iter(range(number))

    def client() -> LoadClient:
        for _ in numbers:
            answer = yield keyed("/executions", json.dumps({"graphId": graph_id}).encode())
            execution_id = answer.require_ok("a creation").json()["executionId"]
            answer = yield keyed(f"/executions/{execution_id}/start")
            answer.require_ok("a start")
            made.append(execution_id)

    run_clients(stack.port, [client() for _ in range(min(SETUP_CLIENTS, number))], timeout_sec=SETUP_SEC)
    return made


def held_apart(stack: Stack, number: int) -> list[Held]:
    """One node of each of `number` executions."""
    return _hold(stack, [Held(execution_id=one, node_id="n") for one in started(stack, OPEN_GRAPH, number)])


def held_together(stack: Stack, number: int) -> list[Held]:
    """`number` nodes of one execution."""
    (execution_id,) = started(stack, OPEN_GRAPH, 1)
    return _hold(stack, [Held(execution_id=execution_id, node_id=f"n{place}") for place in range(number)])


def _hold(stack: Stack, nodes: Sequence[Held]) -> list[Held]:
    def client(mine: Sequence[Held]) -> LoadClient:
        for node in mine:
            answer = yield keyed(f"/executions/{node.execution_id}/nodes/{node.node_id}/start")
            answer.require_ok("a start of a node")

    run_clients(
        stack.port, [client(nodes[first::SETUP_CLIENTS]) for first in range(SETUP_CLIENTS)], timeout_sec=SETUP_SEC
    )
    return list(nodes)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The total of all clients of one measurement."""

    done: int = 0
    last_at: float = 0.0
    taken_ms: list[float] = field(default_factory=list)

    def add(self, since: float | None = None) -> None:
        self.done += 1
        self.last_at = time.perf_counter()
        if since is not None:
            self.taken_ms.append((self.last_at - since) * 1000)


def reporting(node: Held, tally: Tally, *, seconds: float) -> LoadClient:
    """Reports progress of one node repeatedly for `seconds`."""
    path = f"/executions/{node.execution_id}/nodes/{node.node_id}/progress"
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        answer = yield keyed(path, PROGRESS_BODY)
        answer.require_ok("a progress")
        tally.add()


def submitting(body: bytes, tally: Tally, *, with_key: bool, seconds: float) -> LoadClient:
    """Submits runs sequentially for `seconds`, with or without a key."""
    plain, until = request_bytes("POST", "/runs", body), time.perf_counter() + seconds
    while time.perf_counter() < until:
        answer = yield keyed("/runs", body) if with_key else plain
        answer.require_ok("a submit")
        tally.add()


def claim(graph_id: str, worker: str, *, wait_sec: float) -> bytes:
    body = {"graphIds": [graph_id], "workerId": worker, "waitSec": wait_sec, "leaseSec": LEASE_SEC}
    return keyed("/executions:claim", json.dumps(body).encode())


def success(claimed: dict[str, Any]) -> bytes:
    return keyed(f"/executions/{claimed['executionId']}/nodes/{claimed['nodeId']}/success", OUTPUT_BODY)


def claiming(graph_id: str, worker: str, tally: Tally) -> LoadClient:
    """Claims nodes until none is left."""
    while True:
        since = time.perf_counter()
        answer = yield claim(graph_id, worker, wait_sec=0)
        if not _was_claimed(answer):
            return
        tally.add(since)


def working(graph_id: str, worker: str, tally: Tally, total: int) -> LoadClient:
    """Claims and ends nodes until all clients together have ended `total`."""
    while tally.done < total:
        answer = yield claim(graph_id, worker, wait_sec=CLAIM_WAIT_SEC)
        if _was_claimed(answer):
            answer = yield success(answer.json())
            answer.require_ok("a success")
            tally.add()


def crew(clients: int) -> Iterator[str]:
    return (f"worker-{number}" for number in range(clients))


def _was_claimed(answer: Answer) -> bool:
    return answer.require_ok("a claim").status == 200
