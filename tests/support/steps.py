"""Executions with nodes as the feed delivers them: real snapshots, stored and read."""

from __future__ import annotations

from typing import Any

import orjson

from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.execution.state import CancelReceipt, Execution, Node, NodeStatus, Request, Status
from pyoco_server.domain.ids import NodeId, RunId, WorkerId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import RunRow, change_of


def done(name: str) -> Node:
    return Node(node_id=NodeId(name), status=NodeStatus.SUCCEEDED, attempt=1)


def ready(name: str, attempt: int = 0) -> Node:
    return Node(node_id=NodeId(name), status=NodeStatus.READY, attempt=attempt)


def leased(name: str, until: float | None, attempt: int = 1, worker_id: str = "w-1") -> Node:
    return Node(
        node_id=NodeId(name),
        status=NodeStatus.RUNNING,
        attempt=attempt,
        worker_id=WorkerId(worker_id),
        lease_until=until,
    )


def waiting(name: str, key: str = "ok?", *, prompt: Any = None, deadline_at: float | None = None) -> Node:
    return Node(
        node_id=NodeId(name),
        status=NodeStatus.WAITING,
        attempt=1,
        wait_key=key,
        prompt=prompt,
        deadline_at=deadline_at,
    )


def execution_of(run_id: RunId, *nodes: Node, graph: bool = True, flow: str = "g", **fields: Any) -> Execution:
    """A RUNNING execution; further fields may be given."""
    tenant_id = fields.pop("tenant_id", None)
    known = {
        "created_at": 1.0,
        "started_at": 2.0,
        "updated_at": 3.0,
        "graph": Graph(nodes=tuple(GraphNode(node_id=node.node_id) for node in nodes), edges=()) if graph else None,
        "nodes": {node.node_id: node for node in nodes},
        "request": Request(flow_name=flow, tag="default", tenant_id=tenant_id),
    }
    return Execution(execution_id=run_id, **(known | fields))


def stored(execution: Execution) -> dict[str, Any]:
    """The snapshot as it is read from the bucket."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(to_snapshot(execution)))
    return plain


def shown(sequence: int, run_id: RunId, *nodes: Node, version: int | None = None, **fields: Any) -> RunRow:
    """The row of the bucket's change under this sequence; the fields are those of `execution_of`."""
    fields = {"version": sequence if version is None else version, "updated_at": 100.0 + sequence} | fields
    plain = stored(execution_of(run_id, *nodes, **fields))
    change = change_of(SnapshotSeen(sequence=sequence, run_id=run_id, plain=plain))
    assert isinstance(change, RunRow)
    return change


ENDED = {"status": Status.COMPLETED, "ended_at": 9.0}
CANCELLING = {"cancel": CancelReceipt(requested_at=8.0)}
