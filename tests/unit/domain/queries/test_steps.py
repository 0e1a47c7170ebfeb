"""Snapshots as steps: which nodes something may be done about, and that no snapshot is an error."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.snapshot import encode_snapshot
from pyoco_server.domain.execution.state import Node, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.json_values import moment
from pyoco_server.domain.queries.steps import Step, StepKind, steps_of
from support.steps import CANCELLING, ENDED, done, execution_of, leased, ready, stored, waiting

RUN = RunId("01900000-0000-7000-8000-000000000000")
IDLE = Node(node_id=NodeId("idle"))
NAME = NodeId("n")


def test_a_node_that_is_done_or_not_yet_reached_is_no_step() -> None:
    assert steps_of(stored(execution_of(RUN, IDLE, done("n")))) == ()


def test_a_ready_node_of_a_graph_can_be_claimed_at_its_place() -> None:
    steps = steps_of(stored(execution_of(RUN, done("first"), ready("n", attempt=2))))

    assert steps == (Step(node_id=NAME, place=1, kind=StepKind.READY, attempt=2, claimable=True),)


def test_a_ready_node_without_a_graph_is_nobodys_to_claim() -> None:
    assert steps_of(stored(execution_of(RUN, ready("n"), graph=False))) == ()


@pytest.mark.parametrize("graph", [True, False])
def test_a_lease_has_an_end_and_can_be_claimed_then_in_a_graph_only(graph: bool) -> None:
    (step,) = steps_of(stored(execution_of(RUN, leased("n", 50.0, attempt=3), graph=graph)))

    assert (step.kind, step.attempt, step.lease_until, step.worker_id) == (StepKind.LEASED, 3, 50.0, "w-1")
    assert (step.claimable, step.due_at) == (graph, None)


@pytest.mark.parametrize(("drawn", "is_last"), [({}, False), ({"maxAttempts": 3}, True), ({"maxAttempts": 4}, False)])
def test_the_lease_of_the_last_attempt_is_over_for_good_at_its_end(drawn: dict[str, int], is_last: bool) -> None:
    plain = stored(execution_of(RUN, leased("n", 50.0, attempt=3)))
    plain["state"]["graph"]["nodes"][0] |= drawn

    (step,) = steps_of(plain)

    assert (step.claimable, step.due_at) == (not is_last, 50.0 if is_last else None)


def test_a_running_node_without_a_lease_is_no_step() -> None:
    assert steps_of(stored(execution_of(RUN, leased("n", None)))) == ()


@pytest.mark.parametrize("graph", [True, False])
def test_a_waiting_node_shows_its_key_what_it_asks_and_its_deadline(graph: bool) -> None:
    node = waiting("n", "approve", prompt={"text": "Deploy?", "to": ["staging"]}, deadline_at=70.0)

    (step,) = steps_of(stored(execution_of(RUN, node, graph=graph)))

    assert (step.kind, step.claimable, step.wait_key, step.due_at) == (StepKind.WAITING, False, "approve", 70.0)
    assert orjson.loads(step.prompt or b"") == {"text": "Deploy?", "to": ["staging"]}


def test_a_wait_began_when_the_snapshot_says_so_or_else_with_its_last_update() -> None:
    plain = stored(execution_of(RUN, waiting("n"), updated_at=40.0))
    (guessed,) = steps_of(plain)

    plain["state"]["nodes"][0][2]["s"] = 30

    (said,) = steps_of(plain)
    assert (guessed.since, said.since) == (40.0, 30.0)


def test_a_wait_whose_record_was_given_up_is_shown_without_its_prompt() -> None:
    execution = execution_of(RUN, waiting("n", "approve", prompt="x" * 1000))
    plain = orjson.loads(encode_snapshot(execution, 500))

    (step,) = steps_of(plain)

    assert (step.wait_key, step.prompt) == ("approve", b"")


def test_an_execution_that_has_not_started_has_steps_too() -> None:
    (step,) = steps_of(stored(execution_of(RUN, ready("n"), started_at=None)))

    assert step.claimable


@pytest.mark.parametrize("fields", [ENDED, CANCELLING])
def test_an_execution_that_is_over_or_being_cancelled_has_no_steps(fields: dict[str, Any]) -> None:
    execution = execution_of(RUN, ready("a"), leased("b", 5.0), waiting("c"), **fields)

    assert steps_of(stored(execution)) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status", None),
        ("status", ["RUNNING"]),
        ("tasks", ["n"]),
        ("tasks", {}),
        ("tasks", {"n": "PENDING", "m": "PENDING"}),
        ("state", None),
        ("state", {}),
        ("state", {"nodes": {"n": 1}, "graph": {}}),
        ("state", {"nodes": [None], "graph": {}}),
        ("state", {"nodes": [[]], "graph": {}}),
        ("state", {"nodes": [[1]], "graph": {}}),
        ("state", {"nodes": [[99, 1]], "graph": {}}),
        ("state", {"nodes": [[[1], 1]], "graph": {}}),
        ("state", {"nodes": [[2, 1]], "graph": {}}),
        ("state", {"nodes": [[2, 1, {"l": "soon"}]], "graph": {}}),
        ("state", {"nodes": [[2, 1, "lease"]], "graph": {}}),
    ],
)
def test_an_odd_snapshot_has_no_steps(key: str, value: Any) -> None:
    plain = stored(execution_of(RUN, ready("n")))
    assert len(steps_of(plain)) == 1

    assert steps_of(plain | {key: value}) == ()


def test_a_prompt_nested_too_deep_to_be_written_is_left_out() -> None:
    prompt: list[Any] = []
    for _ in range(400):
        prompt = [prompt]
    plain = stored(execution_of(RUN, waiting("n")))
    plain["task_records"]["n"]["prompt"] = prompt

    (step,) = steps_of(plain)

    assert step.prompt is None


def test_the_codes_of_a_snapshot_are_those_that_steps_are_read_by() -> None:
    nodes = [Node(node_id=NodeId(status.value), status=status, lease_until=5.0) for status in NodeStatus]

    steps = steps_of(stored(execution_of(RUN, *nodes)))

    assert [(step.node_id, step.kind.value) for step in steps] == [
        ("READY", "ready"),
        ("RUNNING", "leased"),
        ("WAITING", "waiting"),
    ]


@pytest.mark.parametrize("value", [None, True, "5", float("nan"), float("inf"), -1e300, 10**400])
def test_what_is_no_time_is_no_moment(value: Any) -> None:
    assert moment(value) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**64 - 1) | st.floats() | st.text("a\0é😀", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("wlLkdsc"), inner, max_size=3),
    max_leaves=6,
)
NODE = ANYTHING | st.tuples(st.integers(0, 7) | ANYTHING, ANYTHING, ANYTHING).map(list)


@given(nodes=st.lists(NODE, max_size=3) | ANYTHING, records=ANYTHING, graph=ANYTHING, extra=ANYTHING)
def test_whatever_lies_in_the_bucket_has_steps_or_none(nodes: Any, records: Any, graph: Any, extra: Any) -> None:
    names = [f"n{place}" for place in range(len(nodes))] if isinstance(nodes, list) else ["n0"]
    plain = {
        "status": "RUNNING",
        "tasks": dict.fromkeys(names, "PENDING"),
        "task_records": {"n0": records, "n1": {"prompt": extra}},
        "updated_at": extra,
        "state": {"nodes": nodes, "graph": graph},
    }

    for step in steps_of(plain):
        assert step.node_id == names[step.place]
        assert 0 <= step.attempt < 2**63
        assert (step.since is not None) is (step.kind is StepKind.WAITING)
