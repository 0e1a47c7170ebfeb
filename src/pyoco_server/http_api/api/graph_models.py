"""The models of `/graphs`. Those of requests are the only validation of a graph document."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, FailFast, Field, Tag, ValidationError
from pydantic.alias_generators import to_camel

from pyoco_server.domain import graphs
from pyoco_server.domain.execution import choices
from pyoco_server.domain.execution.choices import MAX_CHOICES
from pyoco_server.domain.execution.graph import MAX_EDGES, problems
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.graphs import TASK, WAIT, DocumentNode, GraphDocument, of_tasks, summary_of, to_plain
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, NodeId, is_path_name
from pyoco_server.domain.strict_yaml import YamlFault, read_yaml, shown
from pyoco_server.errors import InvalidGraph
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.fields import OpenCamel
from pyoco_server.http_api.protocol.times import moment
from pyoco_server.http_api.responses.problems import describe
from pyoco_server.services.graphs import GraphPage, ListedGraph, ShownGraph

MAX_CURSOR_CHARS = 1024
MAX_TITLE_CHARS = 200
MAX_WAIT_KEY_CHARS = 256
MAX_ATTEMPTS = 1_000
MAX_WAIT_SEC = 366 * 86_400.0
MAX_CONTENT_BYTES = 16 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024
# Enough for the maximum of edges (three values each) and of nodes with all their fields.
MAX_YAML_VALUES = 100_000
# At most so many problems are reported at once.
MAX_REPORTED = 10
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

T = TypeVar("T")


def _path_name(text: str) -> str:
    if not is_path_name(text):
        raise ValueError("must be printable, without '/', and not '.' or '..'")
    return text


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


def _bounded(value: T) -> T:
    if (size := len(orjson.dumps(value))) > MAX_CONTENT_BYTES:
        raise ValueError(f"{size} bytes as JSON are more than {MAX_CONTENT_BYTES}")
    return value


def _prompt(prompt: T) -> T:
    if problem := choices.problem_of_prompt(prompt):
        raise ValueError(f"choices: {problem}")
    return prompt


def _choices(listed: list[Any]) -> list[Any]:
    if problem := choices.problem_of(listed):
        raise ValueError(problem)
    return listed


def _form_of_node(value: object) -> str | None:
    """Which of the forms of a node applies: only its faults are reported."""
    if isinstance(value, str):
        return "id"
    kind = value.get("type", TASK) if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


# An optional field may be absent, but not null.
_ABSENT: Any = Field(default_factory=lambda: None)

NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NODE_ID_CHARS)]
NewNodeName = Annotated[NodeName, AfterValidator(_path_name)]
Title = Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS), AfterValidator(_printable)]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, alias_generator=to_camel)


class TaskNode(_In):
    id: NewNodeName
    type: Literal["task"] = TASK
    title: Title = _ABSENT
    params: Annotated[dict[str, Any], AfterValidator(_bounded), Field(description="For the worker of the node.")] = (
        _ABSENT
    )
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = _ABSENT


class WaitNode(_In):
    id: NewNodeName
    type: Literal["wait"]
    title: Title = _ABSENT
    wait_key: Annotated[
        str, Field(min_length=1, max_length=MAX_WAIT_KEY_CHARS, description="Default: id."), AfterValidator(_printable)
    ] = _ABSENT
    prompt: Annotated[
        Any,
        AfterValidator(_bounded),
        AfterValidator(_prompt),
        Field(description="Any JSON, for the person who answers. The answer must be one of its `choices`, if any."),
    ] = _ABSENT
    timeout_sec: Annotated[float, Field(gt=0, le=MAX_WAIT_SEC)] = _ABSENT


Node = Annotated[
    Annotated[NewNodeName, Tag("id")] | Annotated[TaskNode, Tag(TASK)] | Annotated[WaitNode, Tag(WAIT)],
    Discriminator(
        _form_of_node,
        custom_error_type="node",
        custom_error_message="must be the id of a task, or an object of the type task or wait",
    ),
]
Choice = Annotated[str | bool | int | float, Field(description="A text; or a number, true or false.")]


class ConditionalEdge(_In):
    from_: Annotated[NodeName, Field(alias="from")]
    to: NodeName
    when: Annotated[
        list[Choice],
        Field(
            min_length=1,
            max_length=MAX_CHOICES,
            description="Followed only if the answer that `from` waited for chose one of these. Absent: always.",
        ),
        AfterValidator(_choices),
    ] = _ABSENT


Edge = Annotated[
    Annotated[list[NodeName], Field(min_length=2, max_length=2, description="From, to."), Tag("pair")]
    | Annotated[ConditionalEdge, Tag("object")],
    Discriminator(lambda value: "object" if isinstance(value, dict | ConditionalEdge) else "pair"),
]


class Graph(_In):
    title: Title = _ABSENT
    nodes: Annotated[list[Node], Field(min_length=1, max_length=MAX_NODES), FailFast()]
    edges: Annotated[list[Edge], Field(max_length=MAX_EDGES), FailFast()] = Field(default_factory=list)

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "title": "Release",
                "nodes": [
                    "build",
                    "test",
                    {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?", "choices": ["ship", "stop"]}},
                    "deploy",
                ],
                "edges": [
                    ["build", "test"],
                    ["test", "approve"],
                    {"from": "approve", "to": "deploy", "when": ["ship"]},
                ],
            }
        }
    )


GRAPH_BODY = request_body(Graph, "application/json", YAML_TYPES[0])


def check_graph_id(graph_id: str) -> str:
    """A valid name of a stored graph."""
    if not is_path_name(graph_id):
        rule = f"1 to {MAX_NODE_ID_CHARS} printable characters without '/', and is not '.' or '..'"
        raise InvalidGraph(f"the id of a graph has {rule}, unlike {shown(graph_id)}")
    return graph_id


def read_yaml_document(data: bytes) -> GraphDocument:
    """The graph in a YAML file, read strictly; `InvalidGraph` names what is wrong."""
    try:
        value = read_yaml(data, max_values=MAX_YAML_VALUES).value
    except YamlFault as fault:
        raise InvalidGraph(str(fault), line=fault.line) from fault
    return read_document(value)


def read_document(value: Any) -> GraphDocument:
    """The graph that a parsed value describes; it can be executed. `InvalidGraph` names what is wrong."""
    try:
        graph = Graph.model_validate(value)
    except ValidationError as error:
        raise InvalidGraph(describe(error.errors(include_url=False, include_context=False))) from error
    document = GraphDocument(
        title=graph.title,
        nodes=tuple(_document_node(node) for node in graph.nodes),
        edges=tuple(map(_document_edge, graph.edges)),
    )
    if found := problems(document.graph):
        more = f"; and {len(found) - MAX_REPORTED} more" if len(found) > MAX_REPORTED else ""
        raise InvalidGraph("; ".join(found[:MAX_REPORTED]) + more, problems=found[:MAX_REPORTED])
    if (size := len(orjson.dumps(to_plain(document)))) > MAX_DOCUMENT_BYTES:
        raise InvalidGraph(f"the graph has {size} bytes as JSON; at most {MAX_DOCUMENT_BYTES} are kept")
    return document


def _document_node(node: str | TaskNode | WaitNode) -> DocumentNode:
    if isinstance(node, str):
        return DocumentNode(id=NodeId(node), type=TASK)
    fields = dict(node)
    if isinstance(node, WaitNode):
        fields["wait_key"] = node.wait_key or node.id
    return DocumentNode(**fields)


def _document_edge(edge: list[str] | ConditionalEdge) -> tuple[NodeId, NodeId] | graphs.ConditionalEdge:
    if not isinstance(edge, ConditionalEdge):
        return NodeId(edge[0]), NodeId(edge[1])
    source, target = NodeId(edge.from_), NodeId(edge.to)
    if edge.when is None:
        return source, target
    return graphs.ConditionalEdge(source=source, target=target, when=choices.names_of(edge.when))


class GraphNodeOut(OpenCamel):
    """A node with all defaults filled in."""

    id: str = Field(examples=["approve"])
    type: Literal["task", "wait"]
    title: str | None = None
    params: dict[str, Any] | None = Field(default=None, description="Of a task: for the worker of the node.")
    max_attempts: int | None = Field(default=None, description="Of a task: the largest number of attempts.")
    wait_key: str | None = Field(default=None, description="Of a wait node: the key that resumes it.")
    prompt: Any = Field(default=None, description="Of a wait node: for the person who answers.")
    timeout_sec: float | None = Field(default=None, description="Of a wait node: the longest wait.")


class ConditionalEdgeOut(OpenCamel):
    """An edge that is followed on some choices only."""

    from_: str = Field(alias="from", examples=["approve"])
    to: str = Field(examples=["deploy"])
    when: list[str] = Field(examples=[["ship"]])


class _Named(OpenCamel):
    graph_id: str = Field(examples=["release"])
    version: int | None = Field(description="Counts the changes from 1; null for a flow.", examples=[3])
    title: str | None = None
    updated_at: str | None = Field(description="RFC 3339, UTC; null for a flow.", examples=["2026-01-01T00:00:00.000Z"])
    updated_by: str | None = Field(description="The author, with access control.")
    source: Literal["graph", "flow"] = Field(description="Stored, or announced by workers as a flow.")
    tags: list[str] | None = Field(default=None, description="Of a flow: the tags of the workers that serve it.")


class GraphOut(_Named):
    """A graph."""

    nodes: list[GraphNodeOut]
    edges: list[tuple[str, str] | ConditionalEdgeOut] = Field(description="From, to.", examples=[[["build", "test"]]])


class GraphPutOut(GraphOut):
    """The stored graph after a put."""

    created: bool = Field(description="Whether it is the first version of that name.")


class GraphSummary(_Named):
    """A graph in a list, with the numbers of its nodes and edges."""

    node_count: int
    edge_count: int


class GraphList(OpenCamel):
    """One page, by id; the last one has no `nextCursor`."""

    items: list[GraphSummary]
    next_cursor: str | None


def graph_out(shown: ShownGraph) -> dict[str, Any]:
    if isinstance(shown, AnnouncedFlow):
        return _named(shown) | to_plain(of_tasks(shown.nodes, shown.edges))
    return _named(summary_of(shown)) | to_plain(shown.document)


def page_out(page: GraphPage) -> dict[str, Any]:
    return {"items": [_summary_out(graph) for graph in page.items], "nextCursor": page.next_cursor}


def _summary_out(listed: ListedGraph) -> dict[str, Any]:
    if isinstance(listed, AnnouncedFlow):
        return _named(listed) | {"nodeCount": len(listed.nodes), "edgeCount": len(listed.edges)}
    return _named(listed) | {"nodeCount": listed.node_count, "edgeCount": listed.edge_count}


def _named(shown: ListedGraph) -> dict[str, Any]:
    if isinstance(shown, AnnouncedFlow):
        unknown = {"version": None, "updatedAt": None, "updatedBy": None}
        return {"graphId": shown.name, **unknown, "source": "flow", "tags": list(shown.tags)}
    title = {} if shown.title is None else {"title": shown.title}
    changed = {"updatedAt": moment(shown.updated_at), "updatedBy": shown.updated_by}
    return {"graphId": shown.graph_id, "version": shown.version, **title, **changed, "source": "graph"}
