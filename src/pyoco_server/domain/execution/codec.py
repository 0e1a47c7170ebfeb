"""Commits ⇄ bytes. The names here are stored for ever; a changed form is a new schemaVersion with an upcaster.

    {"schemaVersion": 1, "executionId", "commitId", "occurredAt", "command", "actor": {"kind", "id"?},
     "correlationId"?, "idempotencyKey"?, "events": [{"eventId", "type", "payload"}, …]}

One envelope per commit: an envelope per event would limit a commit to 3,000 events. Unknown fields are ignored, so that
an older program can read commits of a newer one under the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import orjson

from pyoco_server.domain.execution.events import EVENT_NAMES, Actor, Commit, Event
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import Failure, Request, StopHow, TimeoutReceipt, WheelUsed, Work
from pyoco_server.domain.ids import CommitId, NodeId, RunId

SCHEMA_VERSION = 1

Envelope = dict[str, Any]
Upcaster = Callable[[Envelope], Envelope]

_ENDS = (b"EXECUTION_COMPLETED", b"EXECUTION_FAILED", b"EXECUTION_CANCELED")

# From version n to n + 1. Empty while there is one version; an entry is never removed.
UPCASTERS: Mapping[int, Upcaster] = {}


class UnreadableCommit(ValueError):
    """The bytes are not a commit of a known version."""


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    wire_name: str
    default: object
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


def encode(execution_id: RunId, commit: Commit) -> bytes:
    """The stored form of a commit."""
    envelope: Envelope = {
        "schemaVersion": SCHEMA_VERSION,
        "executionId": execution_id,
        "commitId": commit.commit_id,
        "occurredAt": commit.occurred_at,
        "command": commit.command,
        "actor": {"kind": commit.actor.kind, "id": commit.actor.id},
    }
    if commit.correlation_id is not None:
        envelope["correlationId"] = commit.correlation_id
    if commit.idempotency_key is not None:
        envelope["idempotencyKey"] = commit.idempotency_key
    envelope["events"] = [
        {"eventId": event_id(commit.commit_id, place), "type": _TYPE_NAMES[type(event)], "payload": _plain(event)}
        for place, event in enumerate(commit.events)
    ]
    return orjson.dumps(envelope)


def decode(data: bytes, upcasters: Mapping[int, Upcaster] = UPCASTERS, newest: int = SCHEMA_VERSION) -> Commit:
    """The commit that was stored as `data`, in any known version."""
    try:
        return _commit(_upcast(orjson.loads(data), upcasters, newest))
    except UnreadableCommit:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UnreadableCommit(f"not a commit: {type(error).__name__}: {error}") from error


def may_end(data: bytes) -> bool:
    """Whether a stored commit may end its execution, without decoding it; False is certain, True is not."""
    return any(name in data for name in _ENDS)


def _upcast(envelope: Envelope, upcasters: Mapping[int, Upcaster], newest: int) -> Envelope:
    version = envelope["schemaVersion"]
    while version < newest:
        envelope = upcasters[version](envelope)
        version += 1
    if version > newest:
        raise UnreadableCommit(f"schemaVersion {version} is newer than this program ({newest})")
    return envelope


def _commit(envelope: Envelope) -> Commit:
    actor = envelope["actor"]
    return Commit(
        commit_id=CommitId(envelope["commitId"]),
        occurred_at=envelope["occurredAt"],
        command=envelope["command"],
        actor=Actor(kind=actor["kind"], id=actor.get("id")),
        correlation_id=envelope.get("correlationId"),
        idempotency_key=envelope.get("idempotencyKey"),
        events=tuple(_event(item) for item in envelope["events"]),
    )


def event_id(commit_id: CommitId, place: int) -> str:
    """The id of an event: its commit and its index in it."""
    return f"{commit_id}.{place}"


def type_name(event: Event) -> str:
    """The name under which an event is stored."""
    return _TYPE_NAMES[type(event)]


def payload_of(event: Event) -> dict[str, Any]:
    """The stored payload of an event."""
    return _plain(event)


def graph_to_wire(graph: Graph) -> dict[str, Any]:
    """A graph as JSON: nodes in order, edges as pairs of indexes (names would triple its size)."""
    places = {node.node_id: place for place, node in enumerate(graph.nodes)}
    edges = [[places[source], places[target]] for source, target in graph.edges]
    return {"nodes": [_plain_node(node) for node in graph.nodes], "edges": edges}


def graph_from_wire(plain: Mapping[str, Any]) -> Graph:
    """The graph that `graph_to_wire` wrote."""
    nodes = tuple(
        GraphNode(
            node_id=NodeId(item["id"]),
            wait_key=item.get("waitKey"),
            prompt=item.get("prompt"),
            timeout_sec=item.get("timeoutSec"),
            max_attempts=item.get("maxAttempts"),
            params=item.get("params"),
        )
        for item in plain["nodes"]
    )
    edges = tuple((nodes[source].node_id, nodes[target].node_id) for source, target in plain["edges"])
    return Graph(nodes=nodes, edges=edges)


def wheels_to_wire(wheels: tuple[WheelUsed, ...]) -> list[dict[str, str]]:
    """Wheels as JSON, in their order."""
    return [{"name": wheel.name, "sha256": wheel.sha256} for wheel in wheels]


def wheels_from_wire(plain: Sequence[Mapping[str, str]]) -> tuple[WheelUsed, ...]:
    """The wheels that `wheels_to_wire` wrote."""
    return tuple(WheelUsed(name=item["name"], sha256=item["sha256"]) for item in plain)


def _plain_node(node: GraphNode) -> dict[str, Any]:
    optional = {
        "waitKey": node.wait_key,
        "prompt": node.prompt,
        "timeoutSec": node.timeout_sec,
        "maxAttempts": node.max_attempts,
        "params": node.params,
    }
    return {"id": node.node_id} | {name: value for name, value in optional.items() if value is not None}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _fields(kind: type) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            attribute=item.name,
            wire_name=_camel(item.name),
            default=item.default if item.default is not MISSING else MISSING,
            encode=_ENCODERS.get(item.name),
            decode=_DECODERS.get(item.name),
        )
        for item in fields(kind)
    )


def _plain(value: object) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    plain = {}
    for item in _FIELDS[type(value)]:
        content = getattr(value, item.attribute)
        if item.default is not MISSING and content == item.default and content.__class__ is item.default.__class__:
            continue
        plain[item.wire_name] = content if item.encode is None or content is None else item.encode(content)
    return plain


def _build(kind: type, plain: Mapping[str, Any]) -> Any:
    known = {}
    for item in _FIELDS[kind]:
        if item.wire_name in plain:
            content = plain[item.wire_name]
            known[item.attribute] = content if item.decode is None or content is None else item.decode(content)
    return kind(**known)


def _event(item: Mapping[str, Any]) -> Event:
    event: Event = _build(EVENT_NAMES[item["type"]], item["payload"])
    return event


_ENCODERS: dict[str, Callable[[Any], Any]] = {
    "request": _plain,
    "error": _plain,
    "timeout": _plain,
    "graph": graph_to_wire,
    "how": lambda how: how.value,
    "work": lambda work: work.value,
    "wheels": wheels_to_wire,
}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "request": lambda plain: _build(Request, plain),
    "error": lambda plain: _build(Failure, plain),
    "timeout": lambda plain: _build(TimeoutReceipt, plain),
    "graph": graph_from_wire,
    "how": StopHow,
    "work": Work,
    "labels": tuple,
    "last_lines": tuple,
    "wheels": wheels_from_wire,
}
_FIELDS: dict[type, tuple[_Field, ...]] = {
    kind: _fields(kind) for kind in (Request, Failure, TimeoutReceipt, *EVENT_NAMES.values())
}
_TYPE_NAMES: dict[type[Event], str] = {kind: name for name, kind in EVENT_NAMES.items()}
