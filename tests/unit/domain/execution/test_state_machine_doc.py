"""The diagrams in docs/reference/state-machine.md show exactly the transitions of `decide` and `evolve`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    DeclareNodes,
    ExpireNode,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, decide
from pyoco_server.domain.execution.evolve import evolve
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, Failure, Request, StopHow, empty_execution
from pyoco_server.domain.ids import InstanceId, NodeId
from unit.domain.execution.strategies import RUN_ID

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "state-machine.md"
ARROW = re.compile(r"^\s*(\[\*\]|\w+) --> (\w+) : (.+)$", re.MULTILINE)
# A third attempt adds no transition to those of a second; without a bound the search would not end.
MAX_ATTEMPT = 2

Move = tuple[str, str, str]

A, B, WAIT = NodeId("a"), NodeId("b"), NodeId("wait")
ERROR = Failure(code="E", message="no")
HOLDER = InstanceId("i-1")
GRAPHS = (
    None,
    Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=()),
    Graph(nodes=(GraphNode(node_id=A, max_attempts=1), GraphNode(node_id=B)), edges=()),
    Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=WAIT, wait_key="k")), edges=((A, WAIT),)),
    Graph(nodes=(GraphNode(node_id=WAIT, wait_key="k"), GraphNode(node_id=B)), edges=((WAIT, B),)),
    Graph(nodes=(GraphNode(node_id=WAIT, wait_key="k"), GraphNode(node_id=B, wait_key="k")), edges=((WAIT, B),)),
    Graph(
        nodes=(GraphNode(node_id=WAIT, wait_key="k", prompt={"choices": ["ship", "stop"]}), GraphNode(node_id=B)),
        edges=((WAIT, B),),
        when={(WAIT, B): ("ship",)},
    ),
    Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=((A, B),), when={(A, B): ("ship",)}),
)


def _commands(graph: Graph | None) -> Iterator[Command]:
    """Each command once per node, all at the same time: a status does not depend on time."""
    yield CreateExecution(at=1.0, request=Request(), graph=graph)
    yield StartExecution(at=1.0, attempt=1, instance_id=HOLDER)
    yield StartExecution(at=1.0)
    yield CancelExecution(at=1.0)
    yield ConfirmCanceled(at=1.0, how=StopHow.KILLED)
    yield ConfirmCanceled(at=1.0, how=StopHow.SUBMIT_FAILED)
    yield CompleteExecution(at=1.0)
    yield CompleteExecution(at=1.0, attempt=1, instance_id=HOLDER)
    yield FailExecution(at=1.0, error=ERROR)
    yield FailExecution(at=1.0, error=ERROR, attempt=1, instance_id=HOLDER)
    for node_id in (node.node_id for node in graph.nodes) if graph else (A,):
        yield DeclareNodes(at=1.0, node_ids=(node_id,))
        yield StartNode(at=1.0, node_id=node_id)
        yield StartNode(at=1.0, node_id=node_id, attempt=MAX_ATTEMPT)
        yield ReportNodeProgress(at=1.0, node_id=node_id, progress=50)
        yield StartNode(at=1.0, node_id=node_id, lease_until=1.0)
        yield PutNodeWaiting(at=1.0, node_id=node_id, wait_key="k")
        yield PutNodeWaiting(at=1.0, node_id=node_id, wait_key="k", deadline_at=1.0)
        yield StopNode(at=1.0, node_id=node_id)
        yield ExpireNode(at=1.0, node_id=node_id, attempt=1)
        yield ResumeNode(at=1.0, node_id=node_id, resume_key="k")
        yield ResumeNode(at=1.0, node_id=node_id, resume_key="k", answer="ship")
        yield ResumeNode(at=1.0, node_id=node_id, resume_key="k", answer="stop")
        yield SucceedNode(at=1.0, node_id=node_id)
        yield FailNode(at=1.0, node_id=node_id, error=ERROR)


def _explore(graph: Graph | None) -> tuple[set[Move], set[Move]]:
    """Every transition of executions and nodes, through all states that the commands can reach."""
    of_execution: set[Move] = set()
    of_nodes: set[Move] = set()
    commands = list(_commands(graph))
    seen: set[bytes] = set()
    todo = [empty_execution(RUN_ID)]
    while todo:
        execution = todo.pop()
        for command in commands:
            verdict = decide(execution, command)
            if isinstance(verdict, Rejection) or not verdict:
                continue
            now, name = execution, type(command).__name__
            for event in verdict:
                before, now = now, evolve(now, event)
                of_nodes |= _node_moves(before, now, name)
            if _status(execution) != _status(now):
                of_execution.add((_status(execution), _status(now), name))
            state = msgspec.msgpack.encode(replace(now, graph=None))  # each search has one graph
            if state not in seen and all(node.attempt <= MAX_ATTEMPT for node in now.nodes.values()):
                seen.add(state)
                todo.append(now)
    return of_execution, of_nodes


def _status(execution: Execution) -> str:
    return run_status(execution) if execution.exists else "[*]"


def _node_moves(before: Execution, now: Execution, command: str) -> set[Move]:
    moves = set()
    for node_id, node in now.nodes.items():
        known = before.nodes.get(node_id)
        source = known.status.value if known else "[*]"
        if source != node.status.value:
            moves.add((source, str(node.status.value), command))
    return moves


def _documented(title: str) -> set[Move]:
    """The arrows of the diagram under a heading: one transition per command."""
    section = DOCUMENT.read_text(encoding="utf-8").split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    (diagram,) = re.findall(r"```mermaid\n(.*?)```", section, re.DOTALL)
    return {
        (source, target, command.strip())
        for source, target, commands in ARROW.findall(diagram)
        for command in commands.split(",")
    }


@pytest.fixture(scope="module")
def moves() -> tuple[set[Move], set[Move]]:
    explored = [_explore(graph) for graph in GRAPHS]
    return set().union(*(found[0] for found in explored)), set().union(*(found[1] for found in explored))


def test_the_diagram_of_executions_shows_exactly_the_possible_transitions(moves: tuple[set[Move], set[Move]]) -> None:
    assert _documented("An execution") == moves[0]


def test_the_diagram_of_nodes_shows_exactly_the_possible_transitions(moves: tuple[set[Move], set[Move]]) -> None:
    assert _documented("A node") == moves[1]
