"""A day of a small team's runs, made up with a fixed seed: what the pictures of the dashboard show."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.fill_ours import Life
from pyoco_server.domain.execution.events import (
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionStarted,
    NodeFailed,
    NodeStarted,
    NodeSucceeded,
)
from pyoco_server.domain.execution.state import Failure, Request, StopHow
from pyoco_server.domain.ids import NodeId, RunId, WorkerId

SEED = 20260218
FAILED_SHARE, CANCELLED_SHARE = 0.06, 0.02
ERRORS = (
    "ConnectionError: no answer from the warehouse after 30 s",
    "ValueError: column 'amount' has 12 empty values",
    "FileNotFoundError: exports/2026-02-17.csv",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFlow:
    """A flow with the usual seconds of its tasks."""

    name: str
    tag: str
    labels: tuple[str, ...]
    tasks: dict[str, float]
    share: float


FLOWS = (
    DemoFlow(
        name="ingest_orders",
        tag="default",
        labels=("orders", "hourly"),
        tasks={"fetch": 1.6, "validate": 0.4, "store": 0.9},
        share=0.45,
    ),
    DemoFlow(
        name="daily_report",
        tag="default",
        labels=("report", "finance"),
        tasks={"extract": 2.5, "join": 1.2, "aggregate": 3.0, "render": 1.5, "publish": 0.3},
        share=0.25,
    ),
    DemoFlow(
        name="train_forecast",
        tag="gpu",
        labels=("forecast",),
        tasks={"prepare": 12.0, "train": 95.0, "evaluate": 9.0, "register": 0.5},
        share=0.1,
    ),
    DemoFlow(name="backup", tag="default", labels=("ops",), tasks={"snapshot": 4.0, "upload": 7.0}, share=0.2),
)


def day_of_runs(count: int, *, until: float) -> Sequence[Life]:
    """Runs of the 24 hours before `until`, more of them in the second half."""
    chance = random.Random(SEED)
    begins = sorted(until - 120 - 86_000 * chance.random() ** 1.4 for _ in range(count))
    return [_life(number, at, chance) for number, at in enumerate(begins)]


def _life(number: int, at: float, chance: random.Random) -> Life:
    flow = chance.choices(FLOWS, [each.share for each in FLOWS])[0]
    run_id = RunId(str(uuid.UUID(int=int(at * 1000) << 80 | 0x7 << 76 | 0x8 << 60 | number)))
    return Life(run_id, at, tuple(_events(flow, number, at, chance)))


def _events(flow: DemoFlow, number: int, at: float, chance: random.Random) -> Iterator[Event]:
    fate = chance.random()
    yield ExecutionCreated(
        at=at, request=Request(flow_name=flow.name, tag=flow.tag, input={"batch": number}), labels=flow.labels
    )
    at += chance.lognormvariate(-1.5, 1.2)
    worker = WorkerId(f"{flow.tag}-{chance.randint(1, 3)}")
    yield ExecutionStarted(at=at, attempt=1, worker_id=worker)
    last = chance.choice(list(flow.tasks))
    for name, usual in flow.tasks.items():
        node = NodeId(name)
        yield NodeStarted(at=at, node_id=node, attempt=1, worker_id=worker)
        at += usual * chance.lognormvariate(0, 0.25)
        if name == last and fate < FAILED_SHARE:
            error = Failure(code="TASK_FAILED", message=chance.choice(ERRORS))
            yield NodeFailed(at=at, node_id=node, attempt=1, error=error)
            yield ExecutionFailed(at=at, error=error)
            return
        if name == last and fate < FAILED_SHARE + CANCELLED_SHARE:
            yield ExecutionCancelRequested(at=at, reason="not needed any more", requested_by="ann")
            yield ExecutionCanceled(at=at + 0.04, how=StopHow.COOPERATIVE, delivered_at=at + 0.01, stopped_at=at + 0.03)
            return
        yield NodeSucceeded(at=at, node_id=node, attempt=1, output={"rows": chance.randint(200, 90_000)})
    yield ExecutionCompleted(at=at, result_nodes=(NodeId(list(flow.tasks)[-1]),))
