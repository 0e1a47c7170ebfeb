"""Stores many finished runs at once in this product: whole event logs and snapshots, made by the product's own core."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from bench.fill import FILL_TIMEOUT_SEC, IN_FLIGHT, StoredRun, jetstream
from bench.limits import rate
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.codec import encode
from pyoco_server.domain.execution.events import (
    Actor,
    Commit,
    Events,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    ExecutionStarted,
    NodeFailed,
    NodeStarted,
    NodeSucceeded,
)
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Failure, Request, empty_execution
from pyoco_server.domain.ids import CommitId, NodeId, RunId

NODE = NodeId("only")
MADE_UP = Failure(code="ERR_FILLER", message="made up by the filler")


class Life(NamedTuple):
    """A finished run: its whole log is one commit, with the events at their times."""

    run_id: RunId
    at: float
    events: Events


def fill_ours(nats_url: str, token: str | None, first: int, count: int) -> None:
    runs = [StoredRun.numbered(number) for number in range(first, first + count)]
    store_lives(nats_url, token, [Life(RunId(run.run_id), run.at, _life(run)) for run in runs])


def store_lives(nats_url: str, token: str | None, lives: Sequence[Life]) -> None:
    """Each run is one commit in the log and the snapshot of that version, so no snapshot needs repair."""
    asyncio.run(_store(nats_url, token, lives))


async def _store(nats_url: str, token: str | None, lives: Sequence[Life]) -> None:
    config = NatsBackendConfig()
    async with jetstream(nats_url, token) as js, asyncio.timeout(FILL_TIMEOUT_SEC):
        kv = await js.key_value(config.runs_kv_bucket)

        async def store(number: int) -> None:
            life = lives[number]
            commit = Commit(
                commit_id=CommitId(life.run_id),
                occurred_at=life.at,
                command="CreateExecution",
                actor=Actor(kind="user"),
                events=life.events,
            )
            ack = await js.publish(f"{config.events_subject_prefix}.{life.run_id}", encode(life.run_id, commit))
            execution = replace(fold(life.events, empty_execution(life.run_id)), version=ack.seq)
            await kv.put(life.run_id, encode_snapshot(execution, config.max_run_snapshot_bytes))

        await rate(len(lives), store, in_flight=IN_FLIGHT)


def _life(run: StoredRun) -> Events:
    at, end = run.at, run.at + 0.01
    request = Request(
        flow_name=run.flow_name, tag=run.tag, input={"x": 1}, workflow_yaml_sha256=run.workflow_yaml_sha256
    )
    begin = (
        ExecutionCreated(at=at, request=request, labels=run.labels),
        ExecutionStarted(at=at, attempt=1),
        NodeStarted(at=at, node_id=NODE, attempt=1),
    )
    if run.status == "FAILED":
        return (
            *begin,
            NodeFailed(at=end, node_id=NODE, attempt=1, error=MADE_UP),
            ExecutionFailed(at=end, error=MADE_UP),
        )
    return (*begin, NodeSucceeded(at=end, node_id=NODE, attempt=1, output=2), ExecutionCompleted(at=end))
