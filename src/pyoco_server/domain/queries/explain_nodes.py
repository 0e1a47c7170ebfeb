"""Why an execution stands where it stands whose nodes are taken one by one: whom it waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyoco_server.domain.execution.state import Execution, Node, NodeStatus

MOST_NODES = 5


def why_nodes(execution: Execution, now: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Codes and facts, the most telling first: people, then takers, then holders; where some work, takers come last."""
    by_status: dict[NodeStatus, list[Node]] = {}
    for node in execution.nodes.values():
        by_status.setdefault(node.status, []).append(node)
    running = by_status.get(NodeStatus.RUNNING, [])
    silent = [node for node in running if node.lease_until is not None and node.lease_until <= now]
    at_work = [node for node in running if node not in silent]
    ready = by_status.get(NodeStatus.READY, [])
    for code, nodes in (
        ("nodes_wait_for_somebody", by_status.get(NodeStatus.WAITING, [])),
        ("nodes_wait_to_be_taken", [] if at_work else ready),
        ("nodes_of_silent_holders", silent),
        ("nodes_are_worked_on", at_work),
        ("nodes_wait_their_turn", ready if at_work else []),
    ):
        if nodes:
            yield code, _facts(execution, nodes)
    if not by_status.keys() & {NodeStatus.WAITING, NodeStatus.READY, NodeStatus.RUNNING}:
        yield "waits_for_its_end", _facts(execution, [])


def who_holds(execution: Execution, now: float) -> dict[str, Any]:
    """Facts about those who have to stop before a cancel is over."""
    return _facts(execution, [node for node in execution.nodes.values() if node.is_worked_on(now)])


def _facts(execution: Execution, nodes: list[Node]) -> dict[str, Any]:
    holders = sorted({node.worker_id for node in nodes if node.worker_id is not None})
    return {
        "execution_id": execution.execution_id,
        "graph_id": execution.request.flow_name,
        "count": len(nodes),
        "nodes": [node.node_id for node in nodes[:MOST_NODES]],
        "holders": holders[:MOST_NODES],
    }
