"""Graphs by name: put, get, list. A flow that workers announce is a graph too, unless one of that name is stored.

A stored graph has versions; a put is a compare-and-set on the previous one, so each version has one writer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.graphs import GraphDocument, GraphSummary, is_same
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.errors import AppendConflict, GraphNotFound, GraphVersionConflict, InvalidRequest
from pyoco_server.ports import StoredGraph
from pyoco_server.services.audit.trail import AuditTrail, Change
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.fleet_view import FleetView

logger = logging.getLogger(__name__)

MAX_RACES = 20


ShownGraph = StoredGraph | AnnouncedFlow
"""A graph as it is found by its name."""

ListedGraph = GraphSummary | AnnouncedFlow
"""A graph in a list."""


class PutGraph(NamedTuple):
    """The stored graph after a put, and whether it was the first of that name."""

    graph: StoredGraph
    created: bool


class GraphPage(NamedTuple):
    """Graphs by id, and the cursor of the next page: None when this was the last one."""

    items: list[ListedGraph]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphService:
    """The graphs of every tenant, and the flows that workers announce, which all tenants share."""

    stores: Stores
    fleet: FleetView

    async def put(
        self,
        tenant_id: str | None,
        graph_id: str,
        document: GraphDocument,
        *,
        context: CommandContext,
        expected_version: int | None = None,
    ) -> PutGraph:
        """Store a graph; the same once more changes nothing. The present version must be the expected one (0: none).

        An earlier attempt of the same request may have stored it already.
        """
        for _ in range(MAX_RACES):
            present = await self.stores.graphs.get(tenant_id, graph_id)
            version = 0 if present is None else present.version
            if context.resumed and present is not None and _may_be_ours(present, document, expected_version):
                async with self._audited(tenant_id, present, context):
                    return PutGraph(graph=present, created=version == 1)
            if expected_version not in (None, version):
                raise _conflict(graph_id, version)
            if present is not None and is_same(present.document, document):
                return PutGraph(graph=present, created=False)
            wanted = StoredGraph(
                graph_id=graph_id,
                version=version + 1,
                document=document,
                updated_at=self.stores.clock.now(),
                updated_by=context.actor.id,
                revision=0 if present is None else present.revision,
            )
            async with self._audited(tenant_id, wanted, context) as change:
                stored = await self.stores.graphs.put(tenant_id, wanted)
                change.unchanged = stored is None
            if stored is not None:
                logger.info("graph put", extra={"graph_id": graph_id, "version": stored.version})
                return PutGraph(graph=stored, created=stored.version == 1)
        raise AppendConflict(graph_id=graph_id)

    def _audited(
        self, tenant_id: str | None, graph: StoredGraph, context: CommandContext
    ) -> AbstractAsyncContextManager[Change]:
        detail = {"version": graph.version}
        return AuditTrail.of(self.stores).change(
            "graph.put", "graph", graph.graph_id, context, tenant_id=tenant_id, detail=detail
        )

    async def get(self, tenant_id: str | None, graph_id: str) -> ShownGraph:
        """The graph of that name; hides other tenants' graphs."""
        stored = await self.stores.graphs.get(tenant_id, graph_id)
        found = stored or await self.fleet.find_flow(graph_id)
        if found is None:
            raise GraphNotFound(graph_id=graph_id)
        return found

    async def page(self, tenant_id: str | None, *, prefix: str = "", limit: int = 50, cursor: str = "") -> GraphPage:
        """The next graphs by id; concurrent changes leave out or repeat no other graph."""
        after = _place(cursor, prefix) if cursor else ""
        flows = await self.fleet.flows()
        stored = await self.stores.graphs.revisions(tenant_id)
        names = iter(sorted(name for name in {*flows, *stored} if name.startswith(prefix) and name > after))
        found: dict[str, ListedGraph] = {}
        # One more than asked for, so that the last page knows that it is the last. Unreadable graphs are left out.
        while some := list(islice(names, limit + 1 - len(found))):
            found |= await self._listed(tenant_id, some, flows, stored)
        shown = list(found)[:limit]
        next_cursor = seal(shown[-1], about=(prefix,)) if len(found) > limit else None
        return GraphPage([found[name] for name in shown], next_cursor)

    async def _listed(
        self, tenant_id: str | None, names: list[str], flows: Mapping[str, AnnouncedFlow], stored: Mapping[str, int]
    ) -> dict[str, ListedGraph]:
        read = await self.stores.graphs.summaries(tenant_id, {name: stored[name] for name in names if name in stored})
        both = {name: read.get(name) or flows.get(name) for name in names}
        return {name: graph for name, graph in both.items() if graph is not None}


def _may_be_ours(present: StoredGraph, document: GraphDocument, expected_version: int | None) -> bool:
    """Whether a put under this condition may have stored this version."""
    return expected_version in (None, present.version - 1) and is_same(present.document, document)


def _conflict(graph_id: str, version: int) -> GraphVersionConflict:
    said = f"the graph has version {version}" if version else "there is no such graph yet"
    return GraphVersionConflict(f"{said}, not the one that was named", graph_id=graph_id, version=version)


def _place(cursor: str, prefix: str) -> str:
    return unseal(
        cursor, str, about=(prefix,), name="cursor", restart="start without one, and keep q", error=InvalidRequest
    )
