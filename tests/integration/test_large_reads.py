"""Reads of more than the broker holds back for one connection (64 MiB): it would close the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import httpx
import pytest

from pyoco_server.adapters.jetstream.broker import JetStreamKeyValue, JetStreamSubjectLog
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.job_queue import JetStreamJobQueue
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.graphs import DocumentNode, GraphDocument, StoredGraph
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.ports import Job
from pyoco_server.services.context import Stores

LARGE = 219_000
COUNT = 380
DOCUMENT = GraphDocument(
    nodes=tuple(DocumentNode(id=NodeId(f"n{n}"), type="task", params={"text": "x" * 15_600}) for n in range(14)),
    edges=(),
)


@pytest.fixture
def lost(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """How often a connection of the test was lost."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.message for record in caplog.records].count("nats disconnected")


async def put_many(store: Callable[[int], Awaitable[object]]) -> None:
    for first in range(0, COUNT, 20):
        await asyncio.gather(*(store(nth) for nth in range(first, min(first + 20, COUNT))))


async def test_many_large_graphs_are_listed(client: httpx.AsyncClient, stores: Stores, lost: Callable[[], int]) -> None:
    def put(nth: int) -> Awaitable[object]:
        graph = StoredGraph(graph_id=f"g{nth:03}", version=1, document=DOCUMENT, updated_at=1.0, updated_by=None)
        return stores.graphs.put(None, graph)

    await put_many(put)

    first = await asyncio.gather(*(client.get("/graphs", params={"limit": 200}) for _ in range(4)))
    rest = await client.get("/graphs", params={"limit": 200, "cursor": first[0].json()["nextCursor"]})

    assert [answer.status_code for answer in [*first, rest]] == [200] * 5
    shown = [graph["graphId"] for answer in (first[0], rest) for graph in answer.json()["items"]]
    assert shown == [f"g{nth:03}" for nth in range(COUNT)]
    assert lost() == 0


async def test_a_large_bucket_is_read_by_several_readers(
    connection: Connection, config: NatsBackendConfig, lost: Callable[[], int]
) -> None:
    facts = await ensure_resources(connection, config)
    bucket = JetStreamKeyValue(connection, config.graphs_kv_bucket, facts)
    await put_many(lambda nth: bucket.put(f"k{nth}", b"x" * LARGE, revision=0))

    async def followed() -> int:
        count = 0
        async for batch in bucket.follow(after=0):
            if not batch:
                break
            count += len(batch)
        return count

    async def one_by_one() -> int:
        found = await asyncio.gather(*(bucket.get(f"k{nth}") for nth in range(COUNT)))
        return sum(entry is not None for entry in found)

    listed, ranged, fed, gotten = await asyncio.gather(
        bucket.all(), bucket.read(after=0, upto=COUNT), followed(), one_by_one()
    )

    assert (len(listed), len(ranged), fed, gotten) == (COUNT,) * 4
    assert lost() == 0


async def test_a_large_log_is_read_by_several_readers(
    connection: Connection, config: NatsBackendConfig, lost: Callable[[], int]
) -> None:
    facts = await ensure_resources(connection, config)
    log = JetStreamSubjectLog(connection, config.dlq_stream, facts, prefix=config.dlq_subject_prefix)
    await put_many(lambda _: log.publish("default", b"x" * LARGE))

    found = await asyncio.gather(log.read("default"), *(log.read_range(after=0, upto=COUNT) for _ in range(3)))

    assert [len(messages) for messages in found] == [COUNT] * 4
    assert lost() == 0


async def test_many_large_jobs_are_received(
    connection: Connection, config: NatsBackendConfig, lost: Callable[[], int]
) -> None:
    await ensure_resources(connection, config)
    queue = JetStreamJobQueue(connection, config)

    def publish(nth: int) -> Awaitable[object]:
        params = {"x": "x" * LARGE}
        job = Job(run_id=RunId(f"{nth}"), flow_name="etl", tag="default", tags=(), params=params, submitted_at=0)
        return queue.publish(job, created_sequence=nth + 1)

    await put_many(publish)
    jobs = await queue.open("default")

    received = 0
    async with asyncio.timeout(30):
        while received < COUNT:
            found = await jobs.receive(COUNT)
            for job in found:
                await job.ack()
            received += len(found)
    await jobs.close()

    assert lost() == 0
