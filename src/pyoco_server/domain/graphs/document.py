"""A graph with titles, as a value and as JSON with all defaults filled in. Does not validate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.ids import NodeId

TASK, WAIT = "task", "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class TitledNode:
    """A node and its title."""

    node: GraphNode
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    """A graph as users describe it."""

    nodes: tuple[TitledNode, ...]
    edges: tuple[tuple[NodeId, NodeId], ...] = ()
    title: str | None = None

    @property
    def graph(self) -> Graph:
        """The graph of an execution: the same without titles."""
        return Graph(nodes=tuple(titled.node for titled in self.nodes), edges=self.edges)


def of_tasks(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> GraphDocument:
    """The document of a graph of which only names are known."""
    nodes = tuple(TitledNode(node=GraphNode(node_id=NodeId(name))) for name in names)
    return GraphDocument(nodes=nodes, edges=tuple((NodeId(source), NodeId(target)) for source, target in edges))


def is_same(one: GraphDocument, other: GraphDocument) -> bool:
    """Whether both are exactly equal, except for the order of keys in params and prompts."""
    # Not by ==, for which 1, 1.0 and True are equal.
    return _canonical(one) == _canonical(other)


def _canonical(document: GraphDocument) -> bytes:
    return orjson.dumps(to_plain(document), option=orjson.OPT_SORT_KEYS)


def to_plain(document: GraphDocument) -> dict[str, Any]:
    """The document as JSON; absent fields without a default stay absent."""
    plain: dict[str, Any] = {} if document.title is None else {"title": document.title}
    plain["nodes"] = [_plain_node(titled) for titled in document.nodes]
    plain["edges"] = [list(edge) for edge in document.edges]
    return plain


def _plain_node(titled: TitledNode) -> dict[str, Any]:
    node = titled.node
    said = {
        "title": titled.title,
        "params": node.params,
        "maxAttempts": node.max_attempts,
        "waitKey": node.wait_key,
        "prompt": node.prompt,
        "timeoutSec": node.timeout_sec,
    }
    kind = WAIT if node.is_wait else TASK
    return {"id": node.node_id, "type": kind} | {name: value for name, value in said.items() if value is not None}


def from_plain(plain: Mapping[str, Any]) -> GraphDocument:
    """The inverse of `to_plain`, for any version: ignores unknown fields and does not validate.

    Foreign values raise ValueError, KeyError, TypeError or AttributeError.
    """
    return GraphDocument(
        nodes=tuple(_titled_node(item) for item in plain["nodes"]),
        edges=tuple((NodeId(_text(source)), NodeId(_text(target))) for source, target in plain["edges"]),
        title=_optional_text(plain.get("title")),
    )


def _titled_node(item: Mapping[str, Any]) -> TitledNode:
    params = item.get("params")
    node = GraphNode(
        node_id=NodeId(_text(item["id"])),
        wait_key=_optional_text(item.get("waitKey")),
        prompt=item.get("prompt"),
        timeout_sec=item.get("timeoutSec"),
        max_attempts=item.get("maxAttempts"),
        params=None if params is None else dict(params),
    )
    return TitledNode(node=node, title=_optional_text(item.get("title")))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {type(value).__name__}")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)
