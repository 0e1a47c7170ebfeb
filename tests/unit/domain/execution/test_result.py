"""The result of an execution: the outputs of its last nodes, as long as they are stored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import (
    CompleteExecution,
    CreateExecution,
    DeclareNodes,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.result import Result, result_nodes, result_of
from pyoco_server.domain.execution.snapshot import encode_snapshot, from_snapshot, to_snapshot
from pyoco_server.domain.execution.state import Execution, NodeStatus, Request, Work, empty_execution
from pyoco_server.domain.ids import NodeId
from unit.domain.execution.strategies import RUN_ID, after, events, executions, thorough

WIDE = 10**9


def _completed(outputs: dict[str, Any], *named: str, graph: Graph | None = None, work: Work = Work.QUEUED) -> Execution:
    """An execution whose nodes succeed in this order."""
    names = tuple(NodeId(name) for name in outputs)
    create = CreateExecution(at=1.0, request=Request(flow_name="etl", work=work), graph=graph)
    declare = () if graph else (DeclareNodes(at=2.0, node_ids=names),)
    work_done = [
        command
        for name in names
        for command in (StartNode(at=3.0, node_id=name), SucceedNode(at=4.0, node_id=name, output=outputs[name]))
    ]
    end = () if graph else (CompleteExecution(at=5.0, result_nodes=tuple(NodeId(name) for name in named)),)
    return after(create, StartExecution(at=2.0), *declare, *work_done, *end)


def _result(execution: Execution, max_bytes: int = WIDE) -> Result | None:
    return result_of(orjson.loads(encode_snapshot(execution, max_bytes)))


def _graph(names: str, *edges: str) -> Graph:
    nodes = tuple(GraphNode(node_id=NodeId(name)) for name in names)
    return Graph(nodes=nodes, edges=tuple((NodeId(edge[0]), NodeId(edge[1])) for edge in edges))


@pytest.mark.parametrize("output", [None, 0, "", {"rows": 3}, [1, None]])
def test_the_result_is_the_output_of_the_last_node(output: Any) -> None:
    assert _result(_completed({"load": 1, "save": output}, "save")) == Result(output)


def test_several_last_nodes_give_their_outputs_by_name() -> None:
    assert _result(_completed({"load": 1, "mail": 2, "save": None}, "save", "mail")) == Result(
        {"mail": 2, "save": None}
    )


def test_the_last_nodes_of_a_graph_are_those_without_successors() -> None:
    graph = _graph("abc", "ab", "ac")

    execution = _completed({"a": 1, "b": 2, "c": 3}, graph=graph, work=Work.NODES)

    assert _result(execution) == Result({"b": 2, "c": 3})


def test_without_the_word_of_its_worker_only_the_result_of_a_single_node_is_certain() -> None:
    assert _result(_completed({"greet": "hello"})) == Result("hello")
    assert _result(_completed({"load": 1, "save": 2})) is None


def test_an_unfinished_execution_has_no_result() -> None:
    create, node_id = CreateExecution(at=1.0, request=Request()), NodeId("greet")

    succeeded = after(
        create,
        StartExecution(at=2.0),
        StartNode(at=3.0, node_id=node_id),
        SucceedNode(at=4.0, node_id=node_id, output=1),
    )

    assert _result(succeeded) is None


def test_a_result_is_kept_where_other_outputs_are_dropped() -> None:
    execution = _completed({"load": "x" * 5_000, "save": "y" * 500}, "save")

    assert _result(execution, 2_000) == Result("y" * 500)
    assert _result(execution, 1_000) == Result(None, is_truncated=True)


def test_an_output_that_its_worker_has_cut_is_a_truncated_result() -> None:
    marker = {"truncated": True, "bytes": 70_000, "preview": "[1,2"}

    assert _result(_completed({"load": marker}, "load")) == Result(marker, is_truncated=True)


@thorough
@given(executions)
def test_the_result_survives_the_snapshot(execution: Execution) -> None:
    stored = orjson.loads(encode_snapshot(execution, WIDE))

    assert result_of(stored) == result_of(to_snapshot(from_snapshot(stored)))


@thorough
@given(executions, st.integers(0, 4_000))
def test_a_small_snapshot_has_the_same_result_or_says_that_it_is_truncated(execution: Execution, size: int) -> None:
    whole, small = _result(execution), _result(execution, size)

    assert small == whole or small == Result(None, is_truncated=True)


@thorough
@given(st.lists(events, max_size=12))
def test_only_nodes_that_succeeded_are_part_of_the_result_of_any_log(log: list[Any]) -> None:
    execution = fold(log, empty_execution(RUN_ID))

    found = result_nodes(execution, tuple(execution.nodes))

    assert all(execution.nodes[node_id].status is NodeStatus.SUCCEEDED for node_id in found)
