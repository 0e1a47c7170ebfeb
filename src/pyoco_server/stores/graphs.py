"""The stored graphs of tenants, changed by compare-and-set; entries that are no graphs are ignored."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence

from msgspec.structs import replace

from pyoco_server.domain.graphs import StoredGraph, UnreadableGraph, decode, encode
from pyoco_server.ports.broker import Entry, KeyValue, RevisionConflict

logger = logging.getLogger(__name__)


class GraphStore:
    """Graphs by tenant (None: without tenants) and id."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def get(self, tenant_id: str | None, graph_id: str) -> StoredGraph | None:
        entry = await self._bucket.get(graph_key(tenant_id, graph_id))
        return None if entry is None else _decode(graph_id, entry)

    async def put(self, tenant_id: str | None, graph: StoredGraph) -> StoredGraph | None:
        """Store the graph in place of the one with its revision (0: where there is none).

        Returns it with its new revision; None when another was stored meanwhile, and then nothing has changed.
        """
        key, value = graph_key(tenant_id, graph.graph_id), encode(graph)
        stored = await self._bucket.put(key, value, revision=graph.revision)
        if isinstance(stored, RevisionConflict) and graph.revision == 0:
            present = stored.entry
            if present is not None and _decode(graph.graph_id, present) is None:  # removed by hand, or no graph
                stored = await self._bucket.put(key, value, revision=present.revision)
        return None if isinstance(stored, RevisionConflict) else replace(graph, revision=stored.version)

    async def all(self, tenant_id: str | None) -> Sequence[StoredGraph]:
        found = await self._bucket.all(prefix=f"{_tenant_token(tenant_id)}.")
        # Decoding the largest graph takes tens of milliseconds, and a list of them would block the event loop.
        return await asyncio.to_thread(_by_id, found)


def graph_key(tenant_id: str | None, graph_id: str) -> str:
    """The key of a graph; both names may contain any characters. No encoded tenant is a lone dash."""
    return f"{_tenant_token(tenant_id)}.{_encoded(graph_id)}"


def _tenant_token(tenant_id: str | None) -> str:
    return "-" if tenant_id is None else _encoded(tenant_id)


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _by_id(found: Sequence[Entry]) -> list[StoredGraph]:
    graphs = [_listed(entry) for entry in found]
    return sorted((graph for graph in graphs if graph is not None), key=lambda graph: graph.graph_id)


def _listed(entry: Entry) -> StoredGraph | None:
    token = entry.key.rpartition(".")[2]
    try:
        graph_id = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True).decode()
    except ValueError:
        graph_id = ""
    if _encoded(graph_id) != token:  # not the canonical encoding, so not ours
        logger.warning("unreadable graph", extra={"revision": entry.revision})
        return None
    return _decode(graph_id, entry)


def _decode(graph_id: str, entry: Entry) -> StoredGraph | None:
    if entry.value is None:
        return None
    try:
        return decode(entry.value, graph_id, entry.revision)
    except UnreadableGraph:
        logger.warning("unreadable graph", extra={"revision": entry.revision})
        return None
