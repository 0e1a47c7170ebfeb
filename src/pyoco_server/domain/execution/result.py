"""What an execution returned: the output of its last node, or the outputs of its last nodes by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyoco_server.domain.execution.state import Execution, NodeStatus, Work
from pyoco_server.domain.ids import NodeId

# How a worker describes an output that is too large to be stored.
_MARKER = {"truncated", "bytes", "preview"}


class Result(NamedTuple):
    """`is_truncated`: the value was too large; it is None, or has a description in its place."""

    value: Any
    is_truncated: bool = False


def result_nodes(execution: Execution, named: Iterable[NodeId] = ()) -> tuple[NodeId, ...]:
    """The nodes whose outputs are the result of an execution that completes, in their order.

    Those that its worker has `named`, else the nodes without successors that have succeeded. The order of the nodes of
    a flow is known to its worker only, so that only a single node is certain without its word.
    """
    nodes = execution.nodes
    if execution.graph is not None:
        # Nodes that were skipped are no successors.
        done = {node_id for node_id, node in nodes.items() if node.status is NodeStatus.SUCCEEDED}
        sources = {source for source, target in execution.graph.edges if target in done}
        ends: Iterable[NodeId] = (node_id for node_id in nodes if node_id not in sources)
    elif execution.request.work is Work.NODES or len(nodes) == 1:
        ends = nodes
    else:
        known = set(named)
        ends = (node_id for node_id in nodes if node_id in known)
    return tuple(node_id for node_id in ends if nodes[node_id].status is NodeStatus.SUCCEEDED)


def result_of(snapshot: Mapping[str, Any]) -> Result | None:
    """The result in a stored snapshot; None: there is none (yet), or it is not known which output it is."""
    if snapshot.get("status") != "COMPLETED" or not (places := (snapshot.get("state") or {}).get("result")):
        return None
    tasks, records = snapshot.get("tasks"), snapshot.get("task_records")
    if not isinstance(tasks, Mapping) or not isinstance(records, Mapping):
        return None
    names = list(tasks)
    found = [names[place] for place in places]
    if snapshot.get("task_records_truncated") and any("output" not in records.get(name, {}) for name in found):
        return Result(None, is_truncated=True)
    outputs = {name: records.get(name, {}).get("output") for name in found}
    is_truncated = any(isinstance(output, dict) and output.keys() == _MARKER for output in outputs.values())
    return Result(outputs if len(found) > 1 else outputs[found[0]], is_truncated)
