"""The measurements, the same code for both sides; they return figures."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import cycle, islice

from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy

from bench.connection import Connection, StepFailed
from bench.fill import FIRST_AT, FLOW_COUNT, jetstream, yaml_digest
from bench.flows import SLEEPER_MAX_SEC
from bench.load import Tool, post_count, post_for
from bench.systems import DEFAULT_TAGS, Stack

POLL_SEC = 0.001
FINISHED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
LIST_QUERIES = {
    "all": "",
    "status": "&status=FAILED",
    "flow": f"&flow=flow_{FLOW_COUNT - 1}",
    "tag": "&tag=tag_3",
}
# For this product only, at the greatest size; the peer lacks most of these filters.
MORE_LIST_QUERIES = {
    "label": "&tags=even",
    "labels": "&tags=even&tags=every",
    "apart": "&tags=even&tags=odd",
    "all_filters": f"&status=COMPLETED&flow=flow_{FLOW_COUNT - 1}&tag=tag_4&tags=odd&tags=every",
    "after": f"&updated_after={FIRST_AT + 10}",
    "yaml": f"&workflow_yaml_sha256={yaml_digest(7)}",
}
NEVER_TOGETHER = "apart"
DEEP_PAGES = 250
SLOWEST_LIST_SEC = 60.0


def submit_body(flow_name: str, tag: str = DEFAULT_TAGS[0]) -> bytes:
    return json.dumps({"flow_name": flow_name, "params": {"x": 1}, "tag": tag}).encode()


def submit_rate(stack: Stack, client: Tool, *, connections: int, seconds: float) -> float:
    """Accepted runs per second while no worker competes for the machine."""
    load = post_for(client, stack.port, "/runs", submit_body("one"), connections=connections, seconds=seconds)
    return load.require_clean().per_sec


def drain_rate(stack: Stack, flow_name: str, count: int, *, workers: int = 1, timeout_sec: float = 120.0) -> float:
    """Runs per second from the first delivery to a worker until the work queue is empty.

    The runs are submitted before any worker starts. Both sides acknowledge a job only after its final snapshot
    is stored, so an empty queue means that all are finished; asking the broker for the length of its queue keeps
    gateways and snapshots out of the measurement. Afterwards every run must be COMPLETED, or nothing is reported.
    """
    post_count(stack.port, "/runs", submit_body(flow_name), connections=16, count=count).require_clean()
    return asyncio.run(_drain(stack, flow_name, count, workers, timeout_sec))


async def _drain(stack: Stack, flow_name: str, count: int, workers: int, timeout_sec: float) -> float:
    async with jetstream(*stack.nats()) as js:
        try:
            async with asyncio.timeout(timeout_sec):
                seconds = await _time_drain(stack, js, count, workers)
        except TimeoutError:
            left = (await js.stream_info("PYOCO_WORK")).state.messages
            raise StepFailed(f"{left} of {count} runs still queued after {timeout_sec:g} s") from None
        finally:
            stack.stop_workers()
        await _require_completed(js, flow_name, count)
    return count / seconds


async def _time_drain(stack: Stack, js: JetStreamContext, count: int, workers: int) -> float:
    if (queued := (await js.stream_info("PYOCO_WORK")).state.messages) != count:
        raise StepFailed(f"{queued} runs are queued before the drain instead of {count}")
    delivered_before = await _delivered(js)
    for _ in range(workers):
        stack.start_worker()
    # The broker does not report an empty queue, so both moments are polled.
    while await _delivered(js) == delivered_before:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SEC)
    started = time.perf_counter()
    while (await js.stream_info("PYOCO_WORK")).state.messages:  # noqa: ASYNC110
        await asyncio.sleep(5 * POLL_SEC)
    return time.perf_counter() - started


async def _delivered(js: JetStreamContext) -> int:
    return sum(info.delivered.consumer_seq for info in await js.consumers_info("PYOCO_WORK") if info.delivered)


async def _require_completed(js: JetStreamContext, flow_name: str, count: int) -> None:
    completed = 0
    latest = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)
    subscription = await js.subscribe("$KV.pyoco_runs.>", ordered_consumer=True, config=latest)
    pending = 1
    while pending:
        message = await subscription.next_msg(timeout=10)
        pending = message.metadata.num_pending
        snapshot = json.loads(message.data or b"{}")
        completed += snapshot.get("flow_name") == flow_name and snapshot.get("status") == "COMPLETED"
    await subscription.unsubscribe()
    if completed < count:
        raise StepFailed(f"only {completed} of {count} runs are COMPLETED after the queue was drained")


def end_to_end_ms(stack: Stack, flow_name: str, count: int, tags: Sequence[str] = DEFAULT_TAGS) -> list[float]:
    """Submit to COMPLETED by GET, one run at a time; the first warms up the worker and is discarded."""
    with Connection(stack.port) as connection:
        taken = []
        for tag in islice(cycle(tags), len(tags) + count):
            started = time.perf_counter()
            run_id = _submit(connection, flow_name, tag)
            _poll_until(connection, run_id, {"COMPLETED"}, timeout_sec=20)
            taken.append((time.perf_counter() - started) * 1000)
        return taken[len(tags) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancels:
    """Durations of successful cancels, and the number of accepted cancels whose run ended otherwise."""

    taken_ms: list[float]
    lost: int


def cancel(stack: Stack, count: int, flow_name: str = "sleeper") -> Cancels:
    """POST cancel to CANCELLED by GET, of a task that checks for a cancel every millisecond.

    The moments of the cancels are spread over a second: a backend that looks for cancels at intervals is then met
    early and late in its interval alike.
    """
    taken: list[float] = []
    with Connection(stack.port) as connection:
        for number in range(count):
            run_id = _submit(connection, flow_name, DEFAULT_TAGS[0])
            _poll_until(connection, run_id, {"RUNNING"}, timeout_sec=20)
            time.sleep(0.1 + number / count)
            started = time.perf_counter()
            connection.request("POST", f"/runs/{run_id}/cancel", b"{}").require_ok("a cancel")
            if _poll_until(connection, run_id, FINISHED, timeout_sec=SLEEPER_MAX_SEC + 20) == "CANCELLED":
                taken.append((time.perf_counter() - started) * 1000)
    return Cancels(taken_ms=taken, lost=count - len(taken))


def _submit(connection: Connection, flow_name: str, tag: str) -> str:
    answer = connection.request("POST", "/runs", submit_body(flow_name, tag)).require_ok("a submit")
    return str(answer.json()["run_id"])


def _poll_until(connection: Connection, run_id: str, wanted: Set[str], *, timeout_sec: float) -> str:
    for next_poll in _ticks(timeout_sec):
        status = str(connection.request("GET", f"/runs/{run_id}").require_ok("a read").json()["status"])
        if status in wanted:
            return status
        if status in FINISHED:
            raise StepFailed(f"a run became {status} instead of {' or '.join(sorted(wanted))}")
        time.sleep(max(0.0, next_poll - time.perf_counter()))
    raise StepFailed(f"a run was not {' or '.join(sorted(wanted))} within {timeout_sec:g} s")


def _ticks(timeout_sec: float) -> Iterator[float]:
    end = time.perf_counter() + timeout_sec
    while (now := time.perf_counter()) < end:
        yield now + POLL_SEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Durations of successful lists, and the number of errors."""

    taken_ms: list[float]
    refused: int


def deep_cursor(stack: Stack) -> str:
    """The query for a page far down the list, reached by many long pages."""
    cursor = ""
    with Connection(stack.port, timeout_sec=SLOWEST_LIST_SEC) as connection:
        for _ in range(DEEP_PAGES):
            answer = connection.request("GET", f"/runs?limit=200&cursor={cursor}").require_ok("a page")
            cursor = answer.json()["next_cursor"]
            if cursor is None:
                raise StepFailed(f"the list ended before page {DEEP_PAGES}")
    return f"&cursor={cursor}"


def list_runs(stack: Stack, query: str, *, count: int, patience_sec: float, empty: bool = False) -> Lists:
    """`GET /runs?limit=50`, one at a time; fewer than `count` when that would take longer than `patience_sec`."""
    taken: list[float] = []
    refused = 0
    give_up = time.perf_counter() + patience_sec
    with Connection(stack.port, timeout_sec=SLOWEST_LIST_SEC) as connection:
        while len(taken) + refused < count and (not taken or time.perf_counter() < give_up):
            started = time.perf_counter()
            answer = connection.request("GET", f"/runs?limit=50{query}")
            elapsed_ms = (time.perf_counter() - started) * 1000
            if answer.status != 200:
                refused += 1
            elif empty is not (not answer.json()):
                raise StepFailed(f"a list with {query or 'no filter'} came back {'full' if empty else 'empty'}")
            else:
                taken.append(elapsed_ms)
    if not taken:
        raise StepFailed(f"all {refused} lists were refused: {answer.body[:200]!r}")
    return Lists(taken_ms=taken, refused=refused)


def read_ms(stack: Stack, path: str, *, count: int) -> list[float]:
    """The same request, one at a time."""
    taken: list[float] = []
    with Connection(stack.port, timeout_sec=SLOWEST_LIST_SEC) as connection:
        for _ in range(count):
            started = time.perf_counter()
            answer = connection.request("GET", path)
            taken.append((time.perf_counter() - started) * 1000)
            if answer.status != 200:
                raise StepFailed(f"GET {path} was refused: {answer.body[:200]!r}")
    return taken


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return _nearest_rank(values, 95)


def p99(values: Sequence[float]) -> float:
    """The nearest-rank percentile: with fewer than 100 values it is the slowest one."""
    return _nearest_rank(values, 99)


def _nearest_rank(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
