"""Graphs in memory, as bytes, so that what comes back is what was written and no part of it is shared."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.domain.graphs.codec import decode, encode
from pyoco_server.ports import StoredGraph


class MemoryGraphStore:
    """GraphStore."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str | None, str], tuple[bytes, int]] = {}
        self._revision = 0

    async def get(self, tenant_id: str | None, graph_id: str) -> StoredGraph | None:
        found = self._graphs.get((tenant_id, graph_id))
        return None if found is None else decode(found[0], graph_id, found[1])

    async def put(self, tenant_id: str | None, graph: StoredGraph) -> StoredGraph | None:
        key = tenant_id, graph.graph_id
        value, revision = self._graphs.get(key, (b"", 0))
        if revision != graph.revision:
            return decode(value, graph.graph_id, revision) if value == encode(graph) else None
        self._revision += 1
        self._graphs[key] = encode(graph), self._revision
        return await self.get(tenant_id, graph.graph_id)

    async def all(self, tenant_id: str | None) -> Sequence[StoredGraph]:
        theirs = sorted((graph_id, *found) for (owner, graph_id), found in self._graphs.items() if owner == tenant_id)
        return [decode(value, graph_id, revision) for graph_id, value, revision in theirs]
