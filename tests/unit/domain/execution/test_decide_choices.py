"""The rules of `decide` for answers with choices, and for the edges that are followed on some of them only."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    ConfirmCanceled,
    CreateExecution,
    ExpireNode,
    PutNodeWaiting,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, RejectionReason, decide
from pyoco_server.domain.execution.events import (
    ExecutionCompleted,
    NodeCanceled,
    NodeReady,
    NodeResumed,
    NodeSucceeded,
)
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.snapshot import from_snapshot, to_snapshot
from pyoco_server.domain.execution.state import MAX_NAMES_BYTES, Execution, NodeStatus, Request, Status, StopHow, Work
from pyoco_server.domain.ids import NodeId
from unit.domain.execution.strategies import RUN_ID, after

BUILD, APPROVE, DEPLOY, NOTIFY, REPORT = (NodeId(name) for name in ("build", "approve", "deploy", "notify", "report"))
ASK = {"question": "Ship it?", "choices": ["ship", "stop"]}
REQUEST = Request(flow_name="release", work=Work.NODES)
START = StartExecution(at=2.0)


def _edge(text: str) -> tuple[NodeId, NodeId]:
    source, _, target = text.partition(" ")
    return NodeId(source), NodeId(target)


def _graph(*names: NodeId, **edges: str) -> CreateExecution:
    """A graph of tasks and the wait node `approve`; edges as `_("build approve", **{"approve deploy": "ship"})`."""
    nodes = tuple(
        GraphNode(node_id=name, wait_key="go", prompt=ASK) if name == APPROVE else GraphNode(node_id=name)
        for name in names
    )
    when = {_edge(edge): tuple(choices.split()) for edge, choices in edges.items() if choices}
    return CreateExecution(at=1.0, request=REQUEST, graph=Graph(nodes=nodes, edges=tuple(map(_edge, edges)), when=when))


RELEASE = _graph(APPROVE, DEPLOY, **{"approve deploy": "ship"})


def _answer(answer: Any, node_id: NodeId = APPROVE, at: float = 5.0) -> ResumeNode:
    return ResumeNode(at=at, node_id=node_id, resume_key="go", answer=answer, from_outside=True)


def _do(*names: NodeId) -> tuple[Command, ...]:
    return tuple(
        command for name in names for command in (StartNode(at=3.0, node_id=name), SucceedNode(at=4.0, node_id=name))
    )


def _skipped(node_id: NodeId, at: float = 5.0) -> NodeCanceled:
    return NodeCanceled(at=at, node_id=node_id, by_execution=False, reason="skipped")


def _statuses(execution: Execution) -> dict[NodeId, str]:
    return {name: "skipped" if node.is_skipped else node.status.value for name, node in execution.nodes.items()}


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["ship", {"choice": "ship"}, {"choice": "ship", "comment": "at last"}])
def test_an_answer_that_names_a_choice_is_accepted_and_its_choice_is_recorded(answer: Any) -> None:
    assert decide(after(RELEASE, START), _answer(answer)) == (
        NodeResumed(at=5.0, node_id=APPROVE, attempt=1, answer=answer, choice="ship"),
        NodeSucceeded(at=5.0, node_id=APPROVE, attempt=1, output=answer),
        NodeReady(at=5.0, node_id=DEPLOY),
    )


@pytest.mark.parametrize("answer", ["banana", {"choice": "banana"}, None, {}, True, ["ship"], "Ship", {"ship": True}])
def test_an_answer_outside_the_choices_is_refused_with_their_list(answer: Any) -> None:
    assert decide(after(RELEASE, START), _answer(answer)) == Rejection(
        why=RejectionReason.NOT_A_CHOICE,
        detail="the answer must be one of the choices: ship, stop",
        choices=("ship", "stop"),
    )


def test_the_key_is_checked_before_the_answer() -> None:
    wrong = ResumeNode(at=5.0, node_id=APPROVE, resume_key="other", answer="banana", from_outside=True)

    verdict = decide(after(RELEASE, START), wrong)

    assert verdict == Rejection(why=RejectionReason.WRONG_RESUME_KEY, detail=RejectionReason.WRONG_RESUME_KEY.value)


def test_a_prompt_without_choices_accepts_any_answer() -> None:
    asked = PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt={"question": "Ship it?"})
    waiting = after(_graph(BUILD), START, StartNode(at=3.0, node_id=BUILD), asked)

    assert decide(waiting, _answer("banana", BUILD)) == (
        NodeResumed(at=5.0, node_id=BUILD, attempt=1, answer="banana"),
    )


def test_the_choices_of_a_holder_are_kept_until_they_are_answered() -> None:
    asked = PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt=ASK)
    waiting = after(_graph(BUILD), START, StartNode(at=3.0, node_id=BUILD), asked)
    answered = after(_graph(BUILD), START, StartNode(at=3.0, node_id=BUILD), asked, _answer("stop", BUILD))

    assert isinstance(decide(waiting, _answer("banana", BUILD)), Rejection)
    node = answered.nodes[BUILD]
    assert (node.status, node.choice, node.choices) == (NodeStatus.RUNNING, "stop", ())


def test_a_prompt_with_choices_that_cannot_be_answered_is_refused() -> None:
    running = after(_graph(BUILD), START, StartNode(at=3.0, node_id=BUILD))

    verdict = decide(running, PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt={"choices": []}))

    assert verdict == Rejection(
        why=RejectionReason.INVALID_VALUE, detail="choices of the prompt: must be a list of 1 to 100 choices"
    )


def test_choices_of_holders_count_towards_the_limit_of_names() -> None:
    create = CreateExecution(at=1.0, request=REQUEST)
    many = {"choices": [f"{number:03}{'x' * 125}" for number in range(100)]}
    script: list[Command] = [create, START]
    for number in range(MAX_NAMES_BYTES // (100 * 131) - 1):
        name = NodeId(f"n{number}")
        script += [
            StartNode(at=3.0, node_id=name),
            PutNodeWaiting(at=4.0, node_id=name, wait_key="go", prompt=many),
        ]
    last = NodeId("last")
    waiting = after(*script, StartNode(at=3.0, node_id=last))

    verdict = decide(waiting, PutNodeWaiting(at=4.0, node_id=last, wait_key="go", prompt=many))

    assert isinstance(verdict, Rejection)
    assert verdict.why is RejectionReason.NAMES_TOO_LONG


def test_a_wait_that_was_stored_before_choices_were_kept_is_checked_by_its_prompt() -> None:
    asked = PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt=ASK)
    waiting = after(CreateExecution(at=1.0, request=REQUEST), START, StartNode(at=3.0, node_id=BUILD), asked)
    stored = to_snapshot(waiting)
    del stored["state"]["nodes"][0][2]["C"]

    assert decide(from_snapshot(stored), _answer("banana", BUILD)) == decide(waiting, _answer("banana", BUILD))


# --- edges ------------------------------------------------------------------------------------------------------------


def test_a_choice_that_no_edge_follows_ends_the_execution_with_the_rest_skipped() -> None:
    waiting = after(RELEASE, START)

    assert decide(waiting, _answer("stop")) == (
        NodeResumed(at=5.0, node_id=APPROVE, attempt=1, answer="stop", choice="stop"),
        NodeSucceeded(at=5.0, node_id=APPROVE, attempt=1, output="stop"),
        _skipped(DEPLOY),
        ExecutionCompleted(at=5.0),
    )
    ended = after(RELEASE, START, _answer("stop"))
    assert (ended.status, _statuses(ended)) == (Status.COMPLETED, {APPROVE: "SUCCEEDED", DEPLOY: "skipped"})
    assert not ended.nodes[DEPLOY].canceled_by_execution


def test_each_choice_follows_its_own_edges() -> None:
    graph = _graph(
        APPROVE, DEPLOY, NOTIFY, REPORT, **{"approve deploy": "ship", "approve notify": "stop", "approve report": ""}
    )

    assert _statuses(after(graph, START, _answer("ship"))) == {
        APPROVE: "SUCCEEDED",
        DEPLOY: "READY",
        NOTIFY: "skipped",
        REPORT: "READY",
    }
    assert _statuses(after(graph, START, _answer("stop"))) == {
        APPROVE: "SUCCEEDED",
        DEPLOY: "skipped",
        NOTIFY: "READY",
        REPORT: "READY",
    }


def test_a_join_waits_for_those_that_were_not_skipped() -> None:
    graph = _graph(
        BUILD, APPROVE, DEPLOY, REPORT, **{"approve deploy": "ship", "deploy report": "", "build report": ""}
    )

    stopped = after(graph, START, _answer("stop"))
    built = after(graph, START, _answer("stop"), *_do(BUILD))
    late = after(graph, START, *_do(BUILD), _answer("stop"))
    done = after(graph, START, *_do(BUILD), _answer("stop"), *_do(REPORT))

    assert _statuses(stopped) == {BUILD: "READY", APPROVE: "SUCCEEDED", DEPLOY: "skipped", REPORT: "IDLE"}
    assert _statuses(built)[REPORT] == _statuses(late)[REPORT] == "READY"
    assert done.status is Status.COMPLETED


def test_a_join_of_an_edge_that_is_not_followed_and_one_that_is_runs() -> None:
    graph = _graph(BUILD, APPROVE, REPORT, **{"approve report": "ship", "build report": ""})

    assert _statuses(after(graph, START, *_do(BUILD), _answer("stop")))[REPORT] == "READY"
    assert _statuses(after(graph, START, _answer("stop"), *_do(BUILD)))[REPORT] == "READY"


def test_the_choice_of_a_task_counts_when_its_holder_reports_success() -> None:
    graph = _graph(BUILD, DEPLOY, NOTIFY, **{"build deploy": "ship", "build notify": "stop"})
    asked = PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt=ASK)
    running = after(graph, START, StartNode(at=3.0, node_id=BUILD), asked, _answer("stop", BUILD))

    succeeded = decide(running, SucceedNode(at=6.0, node_id=BUILD, output="ok"))

    assert succeeded == (
        NodeSucceeded(at=6.0, node_id=BUILD, attempt=1, output="ok"),
        _skipped(DEPLOY, at=6.0),
        NodeReady(at=6.0, node_id=NOTIFY),
    )


def test_the_last_answer_that_chose_counts() -> None:
    graph = _graph(BUILD, DEPLOY, NOTIFY, **{"build deploy": "ship", "build notify": "stop"})
    ask, plain = (PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt=prompt) for prompt in (ASK, None))
    chosen = (_answer("stop", BUILD), ask, _answer("ship", BUILD), plain, _answer("any", BUILD))

    running = after(graph, START, StartNode(at=3.0, node_id=BUILD), ask, *chosen)

    assert running.nodes[BUILD].choice == "ship"


def test_a_task_that_succeeds_without_a_choice_follows_no_edge_with_when() -> None:
    graph = _graph(BUILD, DEPLOY, REPORT, **{"build deploy": "ship", "build report": ""})

    assert _statuses(after(graph, START, *_do(BUILD))) == {BUILD: "SUCCEEDED", DEPLOY: "skipped", REPORT: "READY"}


def test_the_choice_of_an_earlier_attempt_does_not_count() -> None:
    graph = _graph(BUILD, DEPLOY, **{"build deploy": "ship"})
    asked = PutNodeWaiting(at=4.0, node_id=BUILD, wait_key="go", prompt=ASK)
    answered = (StartNode(at=3.0, node_id=BUILD, lease_until=4.5), asked, _answer("ship", BUILD))
    again = (StartNode(at=9.0, node_id=BUILD, attempt=2), SucceedNode(at=10.0, node_id=BUILD, attempt=2))

    ended = after(graph, START, *answered, *again)

    assert (ended.status, _statuses(ended)[DEPLOY]) == (Status.COMPLETED, "skipped")


def test_a_skipped_node_cannot_be_started() -> None:
    graph = _graph(BUILD, APPROVE, DEPLOY, **{"approve deploy": "ship"})
    stopped = after(graph, START, _answer("stop"))

    assert decide(stopped, StartNode(at=6.0, node_id=DEPLOY)) == Rejection(
        why=RejectionReason.NODE_FINISHED, detail="the node is CANCELED (skipped)"
    )
    assert stopped.status is Status.ACTIVE


def test_a_requested_cancel_wins_over_a_choice() -> None:
    canceling = after(_graph(BUILD, APPROVE), START, CancelExecution(at=4.0))

    verdict = decide(canceling, _answer("ship"))
    ended = after(
        _graph(BUILD, APPROVE, DEPLOY, **{"approve deploy": "ship"}),
        START,
        _answer("stop"),
        CancelExecution(at=6.0),
        ConfirmCanceled(at=7.0, how=StopHow.IDLE),
    )

    assert isinstance(verdict, Rejection)
    assert verdict.why is RejectionReason.CANCEL_REQUESTED
    assert ended.status is Status.CANCELED
    assert [name for name, node in ended.nodes.items() if node.canceled_by_execution] == [BUILD]


def test_a_wait_that_times_out_fails_the_graph_and_skips_nothing() -> None:
    wait = GraphNode(node_id=APPROVE, wait_key="go", prompt=ASK, timeout_sec=60.0)
    edge = (APPROVE, DEPLOY)
    graph = Graph(nodes=(wait, GraphNode(node_id=DEPLOY)), edges=(edge,), when={edge: ("ship",)})
    create = CreateExecution(at=1.0, request=REQUEST, graph=graph)

    ended = after(create, START, ExpireNode(at=63.0, node_id=APPROVE, attempt=1))

    assert (ended.status, _statuses(ended)) == (Status.FAILED, {APPROVE: "FAILED", DEPLOY: "IDLE"})


def test_a_graph_whose_edges_name_other_choices_than_its_wait_node_is_refused() -> None:
    verdict = decide(Execution(execution_id=RUN_ID), _graph(APPROVE, DEPLOY, **{"approve deploy": "shipp"}))

    assert isinstance(verdict, Rejection)
    assert verdict.why is RejectionReason.INVALID_GRAPH
    assert "shipp; the choices of 'approve' are ship, stop" in verdict.detail
