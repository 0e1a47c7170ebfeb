"""Graphs in a bucket, changed by compare-and-set; what somebody else wrote there is no graph, and in nobody's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.follower import Followed, read_present
from pyoco_server.adapters.jetstream.reads import StoredMessage
from pyoco_server.adapters.jetstream.subjects import Subjects, graph_id_in
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.graphs.codec import UnreadableGraph, decode, encode
from pyoco_server.ports import StoredGraph

logger = logging.getLogger(__name__)


class JetStreamGraphStore:
    """GraphStore."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._subjects = Subjects(config)
        self._stream = self._subjects.graphs_stream
        self._bucket = Bucket(connection, self._stream, facts)

    async def get(self, tenant_id: str | None, graph_id: str) -> StoredGraph | None:
        message = await self._bucket.get(self._subjects.graph_key(tenant_id, graph_id))
        return None if message is None else _decode(graph_id, message)

    async def put(self, tenant_id: str | None, graph: StoredGraph) -> StoredGraph | None:
        key, value = self._subjects.graph_key(tenant_id, graph.graph_id), encode(graph)
        revision = await self._bucket.put(key, value, revision=graph.revision)
        if revision is None:
            revision = await self._in_place_of_what_is_there(key, graph, value)
        return None if revision is None else replace(graph, revision=revision)

    async def _in_place_of_what_is_there(self, key: str, graph: StoredGraph, value: bytes) -> int | None:
        there = await self._bucket.get(key)
        if there is None:
            return None
        if there.data == value:
            return there.sequence  # stored by a first try whose answer was lost
        if graph.revision == 0 and _decode(graph.graph_id, there) is None:
            return await self._bucket.put(key, value, revision=there.sequence)  # removed by hand, or no graph
        return None

    async def all(self, tenant_id: str | None) -> Sequence[StoredGraph]:
        every = self._subjects.graph_keys(tenant_id)
        found = await read_present(self._connection, self._stream, filter_subject=every)
        # The largest graph takes tens of milliseconds to read, and all others would wait for a list of them.
        return await asyncio.to_thread(_by_id, found)


def _by_id(found: Sequence[Followed]) -> list[StoredGraph]:
    # A graph that was changed while we read is there twice; the later word counts.
    graphs = {item.message.subject: _listed(item) for item in found}
    return sorted((graph for graph in graphs.values() if graph is not None), key=lambda graph: graph.graph_id)


def _listed(item: Followed) -> StoredGraph | None:
    subject = item.message.subject.decode()
    try:
        graph_id = graph_id_in(subject)
    except ValueError:
        logger.warning("graph cannot be read", extra={"sequence": item.sequence})
        return None
    message = item.message
    return _decode(
        graph_id, StoredMessage(sequence=item.sequence, subject=subject, headers=message.headers, data=message.data)
    )


def _decode(graph_id: str, message: StoredMessage) -> StoredGraph | None:
    if is_marker(message):
        return None
    try:
        return decode(message.data, graph_id, message.sequence)
    except UnreadableGraph:
        logger.warning("graph cannot be read", extra={"sequence": message.sequence})
        return None
