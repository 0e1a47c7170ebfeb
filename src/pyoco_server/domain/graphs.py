"""Graphs as documents: values with titles, their JSON with all defaults filled in, and the stored form.

Does not validate what users send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec.structs import replace

from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.ids import NodeId

TASK: Final = "task"
WAIT: Final = "wait"
_YEAR_10000 = 253_402_300_800


class DocumentNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: NodeId
    type: str
    title: str | None = None
    params: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    wait_key: str | None = None
    prompt: Any = None
    timeout_sec: float | None = None


class ConditionalEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge that is followed if its source chose one of these."""

    source: NodeId = msgspec.field(name="from")
    target: NodeId = msgspec.field(name="to")
    when: tuple[str, ...]


class GraphDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A graph as users describe it."""

    title: str | None = None
    nodes: tuple[DocumentNode, ...]
    edges: tuple[tuple[NodeId, NodeId] | ConditionalEdge, ...]

    @property
    def graph(self) -> Graph:
        """The graph of an execution: the same without titles."""
        nodes = tuple(
            GraphNode(
                node_id=node.id,
                wait_key=node.wait_key,
                prompt=node.prompt,
                timeout_sec=node.timeout_sec,
                max_attempts=node.max_attempts,
                params=node.params,
            )
            for node in self.nodes
        )
        conditional = {(edge.source, edge.target): edge for edge in self.edges if isinstance(edge, ConditionalEdge)}
        edges = ((edge.source, edge.target) if isinstance(edge, ConditionalEdge) else edge for edge in self.edges)
        return Graph(nodes=nodes, edges=tuple(edges), when={pair: edge.when for pair, edge in conditional.items()})


class StoredGraph(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="schemaVersion", tag=1
):
    """A graph of a tenant. `version` counts its changes from 1; `revision` is the store's, to compare-and-set on."""

    graph_id: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    updated_at: Annotated[float, msgspec.Meta(ge=0, lt=_YEAR_10000)]
    updated_by: str | None
    document: GraphDocument
    revision: int = 0


class GraphSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a graph."""

    graph_id: str
    version: int
    title: str | None
    updated_at: float
    updated_by: str | None
    node_count: int
    edge_count: int


class UnreadableGraph(ValueError):
    """The bytes are not a graph of a known version."""


def of_tasks(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> GraphDocument:
    """The document of a graph of which only names are known."""
    nodes = tuple(DocumentNode(id=NodeId(name), type=TASK) for name in names)
    return GraphDocument(nodes=nodes, edges=tuple((NodeId(source), NodeId(target)) for source, target in edges))


def to_plain(document: GraphDocument) -> dict[str, Any]:
    """The document as JSON; absent fields without a default stay absent."""
    plain: dict[str, Any] = orjson.loads(msgspec.json.encode(document))
    return plain


def summary_of(graph: StoredGraph) -> GraphSummary:
    document = graph.document
    return GraphSummary(
        graph_id=graph.graph_id,
        version=graph.version,
        title=document.title,
        updated_at=graph.updated_at,
        updated_by=graph.updated_by,
        node_count=len(document.nodes),
        edge_count=len(document.edges),
    )


def edges_to_plain(graph: Graph) -> list[Any]:
    """The edges of an execution's graph as they are in a document."""
    return [
        {"from": source, "to": target, "when": graph.when[source, target]}
        if (source, target) in graph.when
        else [source, target]
        for source, target in graph.edges
    ]


def is_same(one: GraphDocument, other: GraphDocument) -> bool:
    """Whether both are exactly equal, except for the order of keys in params and prompts."""
    # Not by ==, for which 1, 1.0 and True are equal.
    return _canonical(one) == _canonical(other)


def _canonical(document: GraphDocument) -> bytes:
    return orjson.dumps(to_plain(document), option=orjson.OPT_SORT_KEYS)


def encode(graph: StoredGraph) -> bytes:
    """The stored form; the revision is the store's own and not part of it."""
    return orjson.dumps(msgspec.to_builtins(replace(graph, revision=0)))


def decode(data: bytes, graph_id: str, revision: int) -> StoredGraph:
    """The graph that was stored under this id, by this or a newer program; `UnreadableGraph` if it is not one."""
    try:
        stored = msgspec.convert(orjson.loads(data), StoredGraph)
    except ValueError as error:
        raise UnreadableGraph(f"not a graph: {error}") from error
    if stored.graph_id != graph_id:
        raise UnreadableGraph("another graph")
    return replace(stored, revision=revision)
