"""The shapes of `/graphs` in both directions; what a graph may be is decided by `graphfile`, not here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pyoco_server.domain.execution.graph import MAX_EDGES
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.graphs.document import TASK, WAIT, to_plain
from pyoco_server.domain.graphs.parser import MAX_ATTEMPTS, MAX_TITLE_CHARS, MAX_WAIT_KEY_CHARS, MAX_WAIT_SEC
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS
from pyoco_server.http_api.protocol.times import moment
from pyoco_server.services.graphs import GraphPage, ShownGraph

MAX_CURSOR_CHARS = 1024
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

_EXAMPLE = {
    "title": "Release",
    "nodes": ["build", "test", {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?"}}, "deploy"],
    "edges": [["build", "test"], ["test", "approve"], ["approve", "deploy"]],
}
_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NODE_ID_CHARS}
_TITLE = {"type": "string", "minLength": 1, "maxLength": MAX_TITLE_CHARS}
_TASK_NODE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {
        "id": _NAME,
        "type": {"const": TASK},
        "title": _TITLE,
        "params": {"type": "object", "description": "For whoever takes the node."},
        "maxAttempts": {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS},
    },
}
_WAIT_NODE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "type"],
    "properties": {
        "id": _NAME,
        "type": {"const": WAIT},
        "title": _TITLE,
        "waitKey": {"type": "string", "minLength": 1, "maxLength": MAX_WAIT_KEY_CHARS, "description": "Default: id."},
        "prompt": {"description": "For whoever decides: any JSON."},
        "timeoutSec": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_WAIT_SEC},
    },
}
GRAPH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["nodes"],
    "properties": {
        "title": _TITLE,
        "nodes": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_NODES,
            "items": {"anyOf": [_NAME, _TASK_NODE, _WAIT_NODE]},
        },
        "edges": {
            "type": "array",
            "maxItems": MAX_EDGES,
            "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": _NAME, "description": "From, to."},
        },
    },
    "example": _EXAMPLE,
}
GRAPH_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": GRAPH_SCHEMA} for kind in ("application/json", YAML_TYPES[0])},
    }
}


class _Out(BaseModel):
    """More fields may be added at any time; one that says nothing is left out where it may be null."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel)


class GraphNodeOut(_Out):
    """A node, every default filled in."""

    id: str = Field(examples=["approve"])
    type: Literal["task", "wait"]
    title: str | None = None
    params: dict[str, Any] | None = Field(default=None, description="Of a task: for whoever takes the node.")
    max_attempts: int | None = Field(default=None, description="Of a task: how often it may be tried.")
    wait_key: str | None = Field(default=None, description="Of a wait node: the key that resumes it.")
    prompt: Any = Field(default=None, description="Of a wait node: for whoever decides.")
    timeout_sec: float | None = Field(default=None, description="Of a wait node: how long it may wait.")


class _Named(_Out):
    graph_id: str = Field(examples=["release"])
    version: int | None = Field(description="Counts the changes from 1; null for a flow.", examples=[3])
    title: str | None = None
    updated_at: str | None = Field(description="RFC 3339, UTC; null for a flow.", examples=["2026-01-01T00:00:00.000Z"])
    updated_by: str | None = Field(description="Who put it, where access is controlled.")
    source: Literal["graph", "flow"] = Field(description="Whether somebody put it, or workers announce it as a flow.")
    tags: list[str] | None = Field(default=None, description="Of a flow: the tags of the workers that serve it.")


class GraphOut(_Named):
    """A graph."""

    nodes: list[GraphNodeOut]
    edges: list[tuple[str, str]] = Field(description="From, to.", examples=[[["build", "test"]]])


class GraphPutOut(GraphOut):
    """The graph as it is kept now."""

    created: bool = Field(description="Whether this was the first of that name.")


class GraphSummary(_Named):
    """A graph in a list: how large it is instead of what is in it."""

    node_count: int
    edge_count: int


class GraphList(_Out):
    """One page, by id; the last one has no `nextCursor`."""

    items: list[GraphSummary]
    next_cursor: str | None


def graph_out(shown: ShownGraph) -> dict[str, Any]:
    """The graph with its nodes and edges."""
    return _named(shown) | to_plain(shown.document)


def page_out(page: GraphPage) -> dict[str, Any]:
    """The page, without nodes and edges."""
    items = [
        _named(shown) | {"nodeCount": len(shown.document.nodes), "edgeCount": len(shown.document.edges)}
        for shown in page.items
    ]
    return {"items": items, "nextCursor": page.next_cursor}


def _named(shown: ShownGraph) -> dict[str, Any]:
    said: dict[str, Any] = {"graphId": shown.graph_id, "version": shown.version}
    if shown.document.title is not None:
        said["title"] = shown.document.title
    said |= {"updatedAt": moment(shown.updated_at), "updatedBy": shown.updated_by, "source": shown.source}
    return said | {"tags": list(shown.tags)} if shown.source == "flow" else said
