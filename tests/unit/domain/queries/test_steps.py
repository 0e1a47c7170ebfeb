"""Snapshots as steps: nodes that are claimable, waiting or possibly overdue."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Execution, Node, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import RunRow, change_of
from pyoco_server.domain.queries.steps import Step, StepKind
from support.steps import CANCELLING, ENDED, done, execution_of, leased, ready, stored, waiting

RUN = RunId("01900000-0000-7000-8000-000000000000")
IDLE = Node(node_id=NodeId("idle"))
NAME = NodeId("n")


def steps_of(snapshot: Execution | dict[str, Any]) -> tuple[Step, ...]:
    plain = stored(snapshot) if isinstance(snapshot, Execution) else snapshot
    change = change_of(SnapshotSeen(sequence=1, run_id=RUN, plain=plain))
    assert isinstance(change, RunRow)
    return change.steps


def test_only_ready_leased_and_waiting_nodes_are_steps() -> None:
    nodes = [Node(node_id=NodeId(status.value), status=status, lease_until=5.0) for status in NodeStatus]

    steps = steps_of(execution_of(RUN, *nodes))

    assert [(step.node_id, step.kind.value) for step in steps] == [
        ("READY", "ready"),
        ("RUNNING", "leased"),
        ("WAITING", "waiting"),
    ]


def test_a_ready_node_of_a_graph_is_claimable_in_order() -> None:
    steps = steps_of(execution_of(RUN, done("first"), ready("n", attempt=2)))

    assert steps == (Step(node_id=NAME, place=1, kind=StepKind.READY, attempt=2, claimable=True),)
    assert steps_of(execution_of(RUN, ready("n"), graph=False)) == ()


def test_an_execution_before_its_start_has_steps() -> None:
    (step,) = steps_of(execution_of(RUN, ready("n"), started_at=None))

    assert step.claimable


@pytest.mark.parametrize("graph", [True, False])
def test_an_expired_lease_is_claimable_in_a_graph_only(graph: bool) -> None:
    (step,) = steps_of(execution_of(RUN, leased("n", 50.0, attempt=3), graph=graph))

    assert (step.kind, step.attempt, step.lease_until, step.worker_id) == (StepKind.LEASED, 3, 50.0, "w-1")
    assert (step.claimable, step.due_at) == (graph, None)


@pytest.mark.parametrize(("drawn", "is_last"), [({}, False), ({"maxAttempts": 3}, True), ({"maxAttempts": 4}, False)])
def test_the_lease_of_the_last_attempt_is_overdue_at_its_end(drawn: dict[str, int], is_last: bool) -> None:
    plain = stored(execution_of(RUN, leased("n", 50.0, attempt=3)))
    plain["state"]["graph"]["nodes"][0] |= drawn

    (step,) = steps_of(plain)

    assert (step.claimable, step.due_at) == (not is_last, 50.0 if is_last else None)


def test_a_running_node_without_a_lease_is_no_step() -> None:
    assert steps_of(execution_of(RUN, leased("n", None))) == ()


@pytest.mark.parametrize("graph", [True, False])
def test_a_waiting_node_shows_its_key_prompt_and_deadline(graph: bool) -> None:
    node = waiting("n", "approve", prompt={"text": "Deploy?", "to": ["staging"]}, deadline_at=70.0)

    (step,) = steps_of(execution_of(RUN, node, graph=graph))

    assert (step.kind, step.claimable, step.wait_key, step.due_at) == (StepKind.WAITING, False, "approve", 70.0)
    assert orjson.loads(step.prompt or b"") == {"text": "Deploy?", "to": ["staging"]}


def test_a_wait_without_a_start_began_at_the_last_update() -> None:
    execution = execution_of(RUN, waiting("n"), updated_at=40.0)
    began = execution_of(RUN, replace(waiting("n"), waiting_since=30.0), updated_at=40.0)

    assert [step.since for one in (execution, began) for step in steps_of(one)] == [40.0, 30.0]


def test_a_wait_whose_record_was_dropped_has_an_empty_prompt() -> None:
    execution = execution_of(RUN, waiting("n", "approve", prompt="x" * 1000))
    plain = orjson.loads(encode_snapshot(execution, 500))

    (step,) = steps_of(plain)

    assert (step.wait_key, step.prompt) == ("approve", b"")


def test_a_prompt_nested_too_deep_is_left_out() -> None:
    prompt: list[Any] = []
    for _ in range(400):
        prompt = [prompt]
    plain = stored(execution_of(RUN, waiting("n")))
    plain["task_records"]["n"]["prompt"] = prompt

    (step,) = steps_of(plain)

    assert step.prompt is None


@pytest.mark.parametrize("fields", [ENDED, CANCELLING])
def test_a_finished_or_cancelling_execution_has_no_steps(fields: dict[str, Any]) -> None:
    assert steps_of(execution_of(RUN, ready("a"), leased("b", 5.0), waiting("c"), **fields)) == ()
