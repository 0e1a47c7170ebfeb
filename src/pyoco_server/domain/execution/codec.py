"""Commits ⇄ bytes. The names here are stored for ever; a changed form is a new schemaVersion with an upcaster.

    {"schemaVersion": 1, "executionId", "commitId", "occurredAt", "command", "actor": {"kind", "id"?},
     "correlationId"?, "idempotencyKey"?, "requestId"?, "address"?, "events": [{"eventId", "type", "payload"}, …]}

One envelope per commit: an envelope per event would limit a commit to 3,000 events. Unknown fields are ignored, so that
an older program can read commits of a newer one under the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from pyoco_server.domain.execution.events import Commit, Event
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.ids import CommitId, RunId

SCHEMA_VERSION = 1

Envelope = dict[str, Any]
Upcaster = Callable[[Envelope], Envelope]

_ENDS = (b"EXECUTION_COMPLETED", b"EXECUTION_FAILED", b"EXECUTION_CANCELED")

# From version n to n + 1. Empty while there is one version; an entry is never removed.
UPCASTERS: Mapping[int, Upcaster] = {}


class UnreadableCommit(ValueError):
    """The bytes are not a commit of a known version."""


def encode(execution_id: RunId, commit: Commit) -> bytes:
    head = {"schemaVersion": SCHEMA_VERSION, "executionId": execution_id}
    envelope: Envelope = head | msgspec.to_builtins(commit, enc_hook=graph_to_wire)
    envelope["events"] = [
        {"eventId": event_id(commit.commit_id, place), "type": payload.pop("type"), "payload": payload}
        for place, payload in enumerate(envelope["events"])
    ]
    return orjson.dumps(envelope)


def decode(data: bytes, upcasters: Mapping[int, Upcaster] = UPCASTERS, newest: int = SCHEMA_VERSION) -> Commit:
    """The commit that was stored as `data`, in any known version."""
    try:
        envelope = _upcast(orjson.loads(data), upcasters, newest)
        events = [item["payload"] | {"type": item["type"]} for item in envelope["events"]]
        return msgspec.convert(envelope | {"events": events}, Commit, dec_hook=lambda _, plain: graph_from_wire(plain))
    except UnreadableCommit:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableCommit(f"not a commit: {type(error).__name__}: {error}") from error


def may_end(data: bytes) -> bool:
    """Whether a stored commit may end its execution, without decoding it; False is certain, True is not."""
    return any(name in data for name in _ENDS)


def event_id(commit_id: CommitId, place: int) -> str:
    """The id of an event: its commit and its index in it."""
    return f"{commit_id}.{place}"


def payload_of(event: Event) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.to_builtins(event, enc_hook=graph_to_wire)
    del payload["type"]
    return payload


def graph_to_wire(graph: Graph) -> dict[str, Any]:
    """A graph as JSON: nodes in order, edges as pairs of indexes (names would triple its size).

    An edge with `when` has it as a third item: a program that does not know it must not follow the edge.
    """
    places = {node.node_id: place for place, node in enumerate(graph.nodes)}
    edges: list[list[Any]] = [[places[source], places[target]] for source, target in graph.edges]
    if graph.when:
        for edge, pair in zip(graph.edges, edges, strict=True):
            if edge in graph.when:
                pair.append(graph.when[edge])
    return {"nodes": msgspec.to_builtins(graph.nodes), "edges": edges}


def graph_from_wire(plain: Mapping[str, Any]) -> Graph:
    """The graph that `graph_to_wire` wrote."""
    nodes = msgspec.convert(plain["nodes"], tuple[GraphNode, ...])
    edges, when = [], {}
    for source, target, *choices in plain["edges"]:
        edge = (nodes[source].node_id, nodes[target].node_id)
        edges.append(edge)
        if choices:
            when[edge] = msgspec.convert(choices[0], tuple[str, ...])
    return Graph(nodes=nodes, edges=tuple(edges), when=when)


def _upcast(envelope: Envelope, upcasters: Mapping[int, Upcaster], newest: int) -> Envelope:
    version = envelope["schemaVersion"]
    while version < newest:
        envelope = upcasters[version](envelope)
        version += 1
    if version > newest:
        raise UnreadableCommit(f"schemaVersion {version} is newer than this program ({newest})")
    return envelope
