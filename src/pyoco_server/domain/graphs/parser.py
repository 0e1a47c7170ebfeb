"""JSON or YAML → a graph document, fully validated. A document that passes can be executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import orjson

from pyoco_server.domain.execution.graph import MAX_EDGES, GraphNode, problems
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.graphs.document import TASK, WAIT, GraphDocument, TitledNode, to_plain
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId, is_path_name
from pyoco_server.domain.strict_yaml import YamlFault, read_yaml, shown
from pyoco_server.errors import InvalidGraph

MAX_TITLE_CHARS = 200
MAX_WAIT_KEY_CHARS = 256
MAX_ATTEMPTS = 1_000
MAX_WAIT_SEC = 366 * 86_400.0
MAX_CONTENT_BYTES = 16 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024
# Enough for the maximum of edges (three values each) and of nodes with all their fields.
MAX_YAML_VALUES = 100_000
# At most so many problems are reported at once.
MAX_TOLD = 10

NAME_WORDS = f"1 to {MAX_NODE_ID_CHARS} printable characters without '/', and not '.' or '..'"
_TOP_FIELDS = ("title", "nodes", "edges")
_NODE_FIELDS = {
    TASK: ("id", "type", "title", "params", "maxAttempts"),
    WAIT: ("id", "type", "title", "waitKey", "prompt", "timeoutSec"),
}


def read_yaml_document(data: bytes) -> GraphDocument:
    """The graph in a YAML file, read strictly; `InvalidGraph` names what is wrong."""
    try:
        value = read_yaml(data, max_values=MAX_YAML_VALUES).value
    except YamlFault as fault:
        raise InvalidGraph(str(fault), line=fault.line) from fault
    return read_document(value)


def read_document(value: Any) -> GraphDocument:
    """The graph that a parsed value describes; `InvalidGraph` names what is wrong."""
    top = _object(value, "a graph", _TOP_FIELDS)
    nodes, edges = _list(top, "nodes", MAX_NODES), _list(top, "edges", MAX_EDGES)
    document = GraphDocument(
        nodes=tuple(_node(item, place) for place, item in enumerate(nodes)),
        edges=tuple(_edge(item, place) for place, item in enumerate(edges)),
        title=_title(top, "the graph"),
    )
    if found := problems(document.graph):
        more = f"; and {len(found) - MAX_TOLD} more" if len(found) > MAX_TOLD else ""
        raise InvalidGraph("; ".join(found[:MAX_TOLD]) + more, problems=found[:MAX_TOLD])
    if (size := _size(to_plain(document))) > MAX_DOCUMENT_BYTES:
        raise InvalidGraph(f"the graph has {size} bytes as JSON; at most {MAX_DOCUMENT_BYTES} are kept")
    return document


def check_graph_id(graph_id: str) -> str:
    """A valid name of a stored graph."""
    if not is_path_name(graph_id):
        raise InvalidGraph(f"the id of a graph has {NAME_WORDS}; {shown(graph_id)} is none")
    return graph_id


def _object(value: Any, what: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidGraph(f"{what} must be an object with the fields {', '.join(known)}")
    _refuse_unknown(value, what, known)
    return value


def _refuse_unknown(given: Iterable[str], what: str, known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InvalidGraph(f"{what} has the unknown field {shown(name)}; known are {', '.join(known)}")


def _list(top: Mapping[str, Any], name: str, most: int) -> Sequence[Any]:
    value = top.get(name, [])
    if not isinstance(value, list):
        raise InvalidGraph(f"{name} must be a list")
    if len(value) > most:
        raise InvalidGraph(f"{len(value)} {name} are more than {most}")
    return value


def _node(item: Any, place: int) -> TitledNode:
    if isinstance(item, str):
        return TitledNode(node=GraphNode(node_id=_node_id(item, f"nodes[{place}]")))
    if not isinstance(item, dict):
        raise InvalidGraph(f"nodes[{place}] must be the id of a task, or an object")
    name = _node_id(item.get("id"), f"nodes[{place}].id")
    what, kind = f"node {shown(name)}", item.get("type", TASK)
    if not isinstance(kind, str) or kind not in _NODE_FIELDS:
        raise InvalidGraph(f"{what} has the type {shown(kind)}; known are {TASK} and {WAIT}")
    _refuse_unknown(item, f"{what}, which is of the type {kind},", _NODE_FIELDS[kind])
    if kind == TASK:
        node = GraphNode(node_id=name, max_attempts=_attempts(item, what), params=_params(item, what))
    else:
        node = GraphNode(
            node_id=name,
            wait_key=_wait_key(item, name, what),
            prompt=_bounded(item.get("prompt"), f"the prompt of {what}"),
            timeout_sec=_timeout_sec(item, what),
        )
    return TitledNode(node=node, title=_title(item, what))


def _node_id(value: Any, where: str) -> NodeId:
    if not isinstance(value, str) or not is_path_name(value):
        raise InvalidGraph(f"{where}: the id of a node has {NAME_WORDS}; {shown(value)} is none")
    return NodeId(value)


def _edge(item: Any, place: int) -> tuple[NodeId, NodeId]:
    match item:
        case [str(source), str(target)]:
            return NodeId(source), NodeId(target)
    raise InvalidGraph(f"edges[{place}] must be a pair [from, to] of node ids")


def _title(given: Mapping[str, Any], what: str) -> str | None:
    return _printable(given, "title", f"the title of {what}", MAX_TITLE_CHARS)


def _wait_key(item: Mapping[str, Any], name: NodeId, what: str) -> str:
    return _printable(item, "waitKey", f"the waitKey of {what}", MAX_WAIT_KEY_CHARS) or name


def _printable(given: Mapping[str, Any], field: str, what: str, most: int) -> str | None:
    if field not in given:
        return None
    value = given[field]
    if not isinstance(value, str) or not 1 <= len(value) <= most or not value.isprintable():
        raise InvalidGraph(f"{what} must be 1 to {most} printable characters")
    return value


def _attempts(item: Mapping[str, Any], what: str) -> int | None:
    if "maxAttempts" not in item:
        return None
    value = item["maxAttempts"]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ATTEMPTS:
        raise InvalidGraph(f"maxAttempts of {what} must be a whole number from 1 to {MAX_ATTEMPTS}")
    return value


def _timeout_sec(item: Mapping[str, Any], what: str) -> float | None:
    if "timeoutSec" not in item:
        return None
    value = item["timeoutSec"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidGraph(f"timeoutSec of {what} must be a number")
    if not 0 < value <= MAX_WAIT_SEC:
        raise InvalidGraph(f"timeoutSec of {what} must be above 0 and at most {MAX_WAIT_SEC:.0f}")
    return float(value)


def _params(item: Mapping[str, Any], what: str) -> Mapping[str, Any] | None:
    if "params" not in item:
        return None
    if not isinstance(item["params"], dict):
        raise InvalidGraph(f"params of {what} must be an object")
    params: Mapping[str, Any] = _bounded(item["params"], f"params of {what}")
    return params


def _bounded(value: Any, what: str) -> Any:
    if (size := _size(value)) > MAX_CONTENT_BYTES:
        raise InvalidGraph(f"{what}: {size} bytes as JSON are more than {MAX_CONTENT_BYTES}")
    return value


def _size(value: Any) -> int:
    return len(orjson.dumps(value))
