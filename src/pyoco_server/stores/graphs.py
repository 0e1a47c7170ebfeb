"""The stored graphs of tenants, changed by compare-and-set; entries that are no graphs are ignored."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pyoco_server.domain.graphs import GraphSummary, StoredGraph, UnreadableGraph, decode, encode, summary_of
from pyoco_server.ports.broker import Entry, KeyValue, RevisionConflict

logger = logging.getLogger(__name__)

# Graphs may be large, and a page has many: only so many are in memory at a time.
READ_AT_A_TIME = 16
# Summaries are small; more tenants than use one gateway at a time.
MAX_SUMMARIES = 20_000


class GraphStore:
    """Graphs by tenant (None: without tenants) and id."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket
        # By key, the longest kept first.
        self._summaries: dict[str, tuple[int, GraphSummary | None]] = {}

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

    async def revisions(self, tenant_id: str | None) -> Mapping[str, int]:
        """The revision of each graph by its id, without reading the graphs."""
        found = await self._bucket.revisions(prefix=f"{_tenant_token(tenant_id)}.")
        ids = {key: _graph_id(key) for key in found}
        return {graph_id: found[key] for key, graph_id in ids.items() if graph_id is not None}

    async def summaries(self, tenant_id: str | None, revisions: Mapping[str, int]) -> Mapping[str, GraphSummary]:
        """The summaries of these graphs at these revisions or later ones; each revision is read once."""
        keys = {graph_id: graph_key(tenant_id, graph_id) for graph_id in revisions}
        unknown = [name for name, key in keys.items() if self._summaries.get(key, (0,))[0] != revisions[name]]
        for first in range(0, len(unknown), READ_AT_A_TIME):
            some = unknown[first : first + READ_AT_A_TIME]
            entries = await asyncio.gather(*(self._bucket.get(keys[name]) for name in some))
            # Decoding the largest graph takes tens of milliseconds, and a page of them would block the event loop.
            read = await asyncio.to_thread(_summaries, some, entries)
            for name, entry, summary in zip(some, entries, read, strict=True):
                self._summaries.pop(keys[name], None)
                self._summaries[keys[name]] = (revisions[name] if entry is None else entry.revision, summary)
        shown = {name: self._summaries[key][1] for name, key in keys.items()}
        while len(self._summaries) > MAX_SUMMARIES:
            del self._summaries[next(iter(self._summaries))]
        return {name: summary for name, summary in shown.items() if summary is not None}


def graph_key(tenant_id: str | None, graph_id: str) -> str:
    """The key of a graph; both names may contain any characters. No encoded tenant is a lone dash."""
    return f"{_tenant_token(tenant_id)}.{_encoded(graph_id)}"


def _tenant_token(tenant_id: str | None) -> str:
    return "-" if tenant_id is None else _encoded(tenant_id)


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _summaries(graph_ids: Sequence[str], entries: Sequence[Entry | None]) -> list[GraphSummary | None]:
    graphs = [None if entry is None else _decode(name, entry) for name, entry in zip(graph_ids, entries, strict=True)]
    return [None if graph is None else summary_of(graph) for graph in graphs]


def _graph_id(key: str) -> str | None:
    token = key.rpartition(".")[2]
    try:
        graph_id = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True).decode()
    except ValueError:
        graph_id = ""
    if _encoded(graph_id) != token:  # not the canonical encoding, so not ours
        return None
    return graph_id


def _decode(graph_id: str, entry: Entry) -> StoredGraph | None:
    if entry.value is None:
        return None
    try:
        return decode(entry.value, graph_id, entry.revision)
    except UnreadableGraph:
        logger.warning("unreadable graph", extra={"revision": entry.revision})
        return None
