"""Stores many finished runs at once in the peer, to time lists on a full store; never beside runs under way."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import nats
from nats.js import JetStreamContext

from bench.limits import rate

FLOW_COUNT = 10
TAG_COUNT = 5
YAML_COUNT = 20
FAILED_EVERY = 33
FILL_TIMEOUT_SEC = 120.0
IN_FLIGHT = 256
# Recent, so that retention does not remove the runs while lists are timed.
FIRST_AT = time.time() - 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A finished run with evenly distributed values for all filters of a list."""

    run_id: str
    flow_name: str
    tag: str
    labels: tuple[str, ...]
    workflow_yaml_sha256: str
    status: str
    at: float

    @classmethod
    def numbered(cls, number: int) -> "StoredRun":
        at = FIRST_AT + number * 0.01
        return cls(
            run_id=str(_uuid7(at, number)),
            flow_name=f"flow_{number % FLOW_COUNT}",
            tag=f"tag_{number % TAG_COUNT}",
            labels=("every", "even" if number % 2 == 0 else "odd"),
            workflow_yaml_sha256=yaml_digest(number % YAML_COUNT),
            status="FAILED" if number % FAILED_EVERY == 0 else "COMPLETED",
            at=at,
        )


def yaml_digest(number: int) -> str:
    """A made-up digest without a YAML."""
    return f"{number:064x}"


def _uuid7(at: float, number: int) -> uuid.UUID:
    return uuid.UUID(int=int(at * 1000) << 80 | 0x7 << 76 | 0x8 << 60 | number)


def fill_peer(nats_url: str, token: str | None, first: int, count: int) -> None:
    """Writes snapshots in the format of the public contract into the peer's bucket."""
    asyncio.run(_fill_peer(nats_url, token, first, count))


async def _fill_peer(nats_url: str, token: str | None, first: int, count: int) -> None:
    async with jetstream(nats_url, token) as js, asyncio.timeout(FILL_TIMEOUT_SEC):
        kv = await js.key_value("pyoco_runs")

        async def put(number: int) -> None:
            run = StoredRun.numbered(first + number)
            await kv.put(run.run_id, json.dumps(_snapshot(run)).encode())

        await rate(count, put, in_flight=IN_FLIGHT)


def _snapshot(run: StoredRun) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "flow_name": run.flow_name,
        "status": run.status,
        "params": {"x": 1},
        "tasks": {"only": "SUCCEEDED" if run.status == "COMPLETED" else "FAILED"},
        "tag": run.tag,
        "tags": list(run.labels),
        "workflow_yaml_sha256": run.workflow_yaml_sha256,
        "worker_id": "filler",
        "start_time": run.at,
        "end_time": run.at + 0.01,
        "heartbeat_at": run.at + 0.01,
        "updated_at": run.at + 0.01,
        "error": None if run.status == "COMPLETED" else "made up by the filler",
    }


@asynccontextmanager
async def jetstream(nats_url: str, token: str | None) -> AsyncIterator[JetStreamContext]:
    """A connection to the broker, closed at the end."""
    connection = await nats.connect(nats_url, token=token)
    try:
        yield connection.jetstream()
    finally:
        await connection.close()
