"""Stores many finished runs at once in this product: whole event logs and snapshots, made by the product's own core."""

import asyncio

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


def fill_ours(nats_url: str, token: str | None, first: int, count: int) -> None:
    """Each run is one commit in the log and the snapshot of that version, so no snapshot needs repair."""
    asyncio.run(_fill(nats_url, token, first, count))


async def _fill(nats_url: str, token: str | None, first: int, count: int) -> None:
    config = NatsBackendConfig()
    async with jetstream(nats_url, token) as js, asyncio.timeout(FILL_TIMEOUT_SEC):
        kv = await js.key_value(config.runs_kv_bucket)

        async def store(number: int) -> None:
            run = StoredRun.numbered(first + number)
            run_id, events = RunId(run.run_id), _life(run)
            commit = Commit(
                commit_id=CommitId(run.run_id),
                occurred_at=run.at,
                command="CreateExecution",
                actor=Actor(kind="user"),
                events=events,
            )
            ack = await js.publish(f"{config.events_subject_prefix}.{run_id}", encode(run_id, commit))
            execution = replace(fold(events, empty_execution(run_id)), version=ack.seq)
            await kv.put(run_id, encode_snapshot(execution, config.max_run_snapshot_bytes))

        await rate(count, store, in_flight=IN_FLIGHT)


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
