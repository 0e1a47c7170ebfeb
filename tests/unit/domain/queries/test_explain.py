"""Explanations of a run's state: every reason code, with texts in both languages."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import (
    CancelReceipt,
    Execution,
    Failure,
    Holder,
    Node,
    NodeStatus,
    Request,
    Status,
    StopHow,
    TimeoutReceipt,
    Work,
)
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerState
from pyoco_server.domain.fleet.worker_status import QueueState, WorkerStatus
from pyoco_server.domain.ids import InstanceId, NodeId, RunId, WorkerId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, STOPPING
from pyoco_server.domain.queries.explain import Evidence, Reason, ServedTag, explain, served_tags
from pyoco_server.domain.queries.explain_texts import TEXTS, render_reason
from pyoco_server.errors import ExecutionFailedError, FlowNotFound, RunTimedOut
from support.samples import new_run_id, worker

NOW = 1_000.0
RULES = {
    "alive_within_sec": 15.0,
    "run_heartbeat_sec": 1.0,
    "ack_wait_sec": 30.0,
    "requeue_after_sec": 90.0,
    "max_attempts": 20,
    "cancel_grace_sec": 30.0,
    "confirm_after_grace_sec": 10.0,
}
PENDING = Execution(
    execution_id=RunId("0190a5b2-7c4e-7abc-8def-0123456789ab"),
    request=Request(flow_name="train", tag="gpu"),
    created_at=900.0,
    updated_at=900.0,
)
HOLDER = Holder(attempt=1, worker_id=WorkerId("w1"), instance_id=InstanceId("i1"))
STARTED = structs.replace(PENDING, started_at=950.0, holder=HOLDER)
ASKED = CancelReceipt(requested_at=990.0, requested_by="ann", reason="wrong data")
CANCELLING = structs.replace(STARTED, cancel=ASKED)
RUN = new_run_id()


def status_of(
    name: str = "w1", *tags: str, busy: int = 0, state: WorkerState = WorkerState.IDLE, silent: float = 1.0
) -> Any:
    record = replace(
        worker(name, last_seen_at=NOW - silent), tags=tags or ("gpu",), slots=1, current_run_ids=(RUN,) * busy
    )
    return WorkerStatus(record=record, silent_sec=silent, state=state)


def announcing(*names: str) -> WorkerStatus:
    one: WorkerStatus = status_of()
    return replace(one, record=replace(one.record, flows=tuple(AnnouncedFlow(name=name) for name in names)))


def evidence(*fleet: WorkerStatus, **changed: Any) -> Evidence:
    values: dict[str, Any] = {"now": NOW, "heartbeat_at": 999.0, "fleet": fleet}
    return Evidence(**values | RULES | changed)


def request_of(execution: Execution, *labels: str) -> Execution:
    """The same as a request of the PDCA API."""
    request = structs.replace(execution.request, flow_name=REQUEST_FLOW)
    return structs.replace(execution, request=request, labels=labels)


def stopped(how: StopHow) -> Execution:
    receipt = structs.replace(ASKED, how=how, stopped_at=995.0)
    return structs.replace(STARTED, status=Status.CANCELED, ended_at=995.0, cancel=receipt)


def failed(code: str, *nodes: Node, attempt: int = 1) -> Execution:
    return structs.replace(
        STARTED,
        status=Status.FAILED,
        ended_at=990.0,
        error=Failure(code=code, message="ZeroDivisionError: division by zero"),
        nodes={node.node_id: node for node in nodes},
        holder=structs.replace(HOLDER, attempt=attempt),
    )


BROKEN = Node(
    node_id=NodeId("divide"),
    status=NodeStatus.FAILED,
    error=Failure(code="ZeroDivisionError", message="division by zero"),
)
LATE = TimeoutReceipt(limit_sec=30.0, reached_at=980.0, stopped_at=990.0, how=StopHow.KILLED)
LOST = status_of(state=WorkerState.DISCONNECTED, silent=40.0)
GONE = status_of("w0", state=WorkerState.STOPPED_GRACEFUL, silent=500.0)
LEFT = replace(GONE, record=replace(worker(), tags=("gpu",), stopped_at=980.0, stop_reason="SIGTERM"))
OF_A_FILE = structs.replace(PENDING, request=structs.replace(PENDING.request, workflow_yaml_sha256="00"))
JUST = structs.replace(PENDING, created_at=999.0)
JUST_ASKED = structs.replace(STARTED, cancel=structs.replace(ASKED, requested_at=999.0))
AGAIN = structs.replace(STARTED, holder=structs.replace(HOLDER, attempt=3))
FULL = QueueState(waiting=5, in_work=200, redelivered=0, most_in_work=200)

UNSTARTED = structs.replace(PENDING, request=structs.replace(PENDING.request, work=Work.ON_START))
NODES = {
    "ready": Node(node_id=NodeId("ready"), status=NodeStatus.READY),
    "waiting": Node(node_id=NodeId("waiting"), status=NodeStatus.WAITING, wait_key="k"),
    "leased": Node(node_id=NodeId("leased"), status=NodeStatus.RUNNING, worker_id=WorkerId("ann"), lease_until=NOW + 1),
    "silent": Node(node_id=NodeId("silent"), status=NodeStatus.RUNNING, worker_id=WorkerId("bob"), lease_until=NOW),
}


def taken(*names: str) -> Execution:
    """An execution with claimable nodes, with these nodes."""
    request = structs.replace(PENDING.request, work=Work.NODES, tag="")
    return structs.replace(STARTED, request=request, holder=None, nodes={NodeId(name): NODES[name] for name in names})


def after_stop(**changes: Any) -> Execution:
    """An execution of a graph in which `stop` was chosen, so that `deploy` is skipped."""
    approve, deploy = NodeId("approve"), NodeId("deploy")
    edge = (approve, deploy)
    chosen = Node(node_id=approve, status=NodeStatus.SUCCEEDED, choice="stop")
    skipped = Node(node_id=deploy, status=NodeStatus.CANCELED, reason="skipped")
    nodes = (GraphNode(node_id=approve), GraphNode(node_id=deploy))
    graph = Graph(nodes=nodes, edges=(edge,), when={edge: ("ship",)})
    begun = taken("leased")
    return structs.replace(begun, graph=graph, nodes={**begun.nodes, approve: chosen, deploy: skipped}, **changes)


def over_http(execution: Execution) -> Execution:
    """The same, with claimable nodes."""
    return structs.replace(execution, request=structs.replace(execution.request, work=Work.NODES, tag=""), holder=None)


CASES: list[tuple[Execution, Evidence, list[str]]] = [
    (PENDING, evidence(), ["no_worker_for_tag"]),
    (failed("ERR-PYOCO-0080"), evidence(events_lost=True), ["events_lost", "run_failed"]),
    (PENDING, evidence(status_of("w1", "cpu")), ["no_worker_for_tag"]),
    (PENDING, evidence(status_of("w1", "gpu1")), ["no_worker_for_tag", "similar_tag"]),
    (PENDING, evidence(GONE, LOST), ["workers_for_tag_are_gone"]),
    (PENDING, evidence(status_of(busy=1), ahead=7), ["all_slots_busy"]),
    (PENDING, evidence(status_of(), queue=FULL), ["queue_at_its_limit"]),
    (PENDING, evidence(status_of(), ahead=1), ["about_to_start"]),
    (JUST, evidence(status_of()), ["about_to_start"]),
    (PENDING, evidence(status_of()), ["waits_although_free"]),
    (PENDING, evidence(announcing("trian"), status_of()), ["waits_although_free"]),
    (PENDING, evidence(announcing("trian"), announcing("x", "train")), ["waits_although_free"]),
    (PENDING, evidence(announcing("trian"), status_of("w2", "cpu")), ["waits_although_free", "flow_not_announced"]),
    (OF_A_FILE, evidence(announcing("trian")), ["waits_although_free"]),
    (UNSTARTED, evidence(status_of()), ["not_started"]),
    (taken("ready"), evidence(), ["nodes_wait_to_be_taken"]),
    (taken("ready", "silent"), evidence(), ["nodes_wait_to_be_taken", "nodes_of_silent_holders"]),
    (taken("ready", "leased"), evidence(), ["nodes_are_worked_on", "nodes_wait_their_turn"]),
    (taken("waiting"), evidence(), ["nodes_wait_for_somebody"]),
    (taken("leased", "silent"), evidence(), ["nodes_of_silent_holders", "nodes_are_worked_on"]),
    (taken(), evidence(), ["waits_for_its_end"]),
    (after_stop(), evidence(), ["nodes_are_worked_on", "nodes_were_skipped"]),
    (after_stop(status=Status.COMPLETED, ended_at=960.0), evidence(), ["completed", "nodes_were_skipped"]),
    (structs.replace(taken("leased"), cancel=ASKED), evidence(), ["cancel_waits_for_holders"]),
    (STARTED, evidence(status_of(busy=1)), ["running"]),
    (structs.replace(STARTED, holder=None), evidence(), ["running"]),
    (STARTED, evidence(status_of(busy=1), heartbeat_at=960.0), ["run_is_stale"]),
    (AGAIN, evidence(status_of(busy=1)), ["running", "tried_again"]),
    (STARTED, evidence(LOST, status_of("w2")), ["worker_silent"]),
    (STARTED, evidence(LOST), ["worker_silent", "workers_for_tag_are_gone"]),
    (STARTED, evidence(LEFT, status_of("w2")), ["worker_stopped"]),
    (STARTED, evidence(status_of("w2")), ["worker_restarted_or_unknown"]),
    (JUST_ASKED, evidence(status_of(busy=1)), ["cancel_on_its_way"]),
    (CANCELLING, evidence(status_of(busy=1)), ["cancel_delivered"]),
    (CANCELLING, evidence(LOST), ["cancel_without_worker"]),
    (failed(FlowNotFound.err_id), evidence(), ["flow_not_found"]),
    (failed(ExecutionFailedError.err_id, BROKEN), evidence(), ["task_failed"]),
    (over_http(failed("REJECTED", BROKEN)), evidence(), ["node_failed"]),
    (failed(ExecutionFailedError.err_id, attempt=2), evidence(), ["run_failed", "tried_again"]),
    (structs.replace(failed(RunTimedOut.err_id, BROKEN), timeout=LATE), evidence(), ["timed_out"]),
    *((stopped(how), evidence(), [f"cancelled_{how.value}"]) for how in StopHow),
    (request_of(stopped(StopHow.UNCONFIRMED), STOPPING), evidence(), ["cancelled_batches_stopping"]),
    (request_of(stopped(StopHow.UNCONFIRMED)), evidence(), ["cancelled_batches_stopped"]),
    (request_of(stopped(StopHow.IDLE)), evidence(), ["cancelled_idle"]),
    (structs.replace(STARTED, status=Status.COMPLETED, ended_at=960.0), evidence(), ["completed"]),
]


@pytest.mark.parametrize(("execution", "known", "codes"), CASES, ids=["+".join(case[2]) for case in CASES])
def test_every_state_has_its_reasons(execution: Execution, known: Evidence, codes: list[str]) -> None:
    assert [reason.code for reason in explain(execution, known)] == codes


def test_the_duration_of_a_run_uses_the_clock_of_its_worker() -> None:
    at_work = status_of(busy=1)
    slow = replace(at_work, record=replace(at_work.record, last_seen_at=NOW - 3601.0))

    (reason,) = explain(structs.replace(STARTED, started_at=NOW - 3650.0), evidence(slow, heartbeat_at=NOW - 3602.0))

    assert (reason.code, reason.facts["running_sec"], reason.facts["heartbeat_sec"]) == ("running", 50.0, 2.0)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_reason_has_a_complete_text_and_every_text_a_reason(language: str) -> None:
    used = set()
    for execution, known, _ in CASES:
        for reason in explain(execution, known):
            message, hint = render_reason(reason, language)
            assert not re.search(r"[{}]|None", message + hint)
            assert re.search("[ぁ-ん]", message + hint) is not None if language == "ja" else (message + hint).isascii()
            used.add(reason.code)

    assert used == TEXTS.keys()


def test_every_code_is_documented() -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "workers.md").read_text("utf-8")

    assert {code for code in TEXTS if f"`{code}`" not in text} == set()


def test_a_skipped_node_is_explained_by_what_was_chosen() -> None:
    _, reason = explain(after_stop(status=Status.COMPLETED), evidence())

    message, _ = render_reason(reason, "en")
    assert message == ("1 node(s) were skipped, because no edge to them was followed: deploy (answers: approve=stop).")


def test_texts_contain_the_relevant_facts() -> None:
    (reason,) = explain(PENDING, evidence(status_of("w1", "cpu", "batch")))

    message, hint = render_reason(reason, "en")

    assert message == "No worker serves the tag gpu."
    assert hint.endswith(" pyoco-worker --tags gpu --flow-resolver flows.py:resolve")  # as it can be copied
    assert "batch, cpu" in hint


@pytest.mark.parametrize(
    ("tag", "served", "similar"),
    [("GPU", "gpu", "gpu"), ("gpu_large", "gpu-large", "gpu-large"), ("defalt", "default", "default")],
)
def test_a_mistyped_tag_is_noticed(tag: str, served: str, similar: str) -> None:
    misspelled = structs.replace(PENDING, request=structs.replace(PENDING.request, tag=tag))

    _, slip = explain(misspelled, evidence(status_of("w1", served)))

    assert slip.facts["similar"] == similar


def test_a_hidden_worker_serves_its_tags() -> None:
    hidden = replace(status_of(), record=replace(status_of().record, hidden=True))

    assert [reason.code for reason in explain(JUST, evidence(hidden))] == ["about_to_start"]


def test_a_cancel_is_explained_with_its_maximum_duration() -> None:
    (reason,) = explain(CANCELLING, evidence(status_of(busy=1)))

    assert (reason.facts["grace_left_sec"], reason.facts["at_the_latest_sec"]) == (20.0, 30.0)
    assert (reason.facts["by"], reason.facts["reason"]) == ("ann", "wrong data")


def test_a_failed_task_is_named_with_its_own_error() -> None:
    (reason,) = explain(failed(ExecutionFailedError.err_id, BROKEN), evidence())

    assert render_reason(reason, "en")[0] == "The task divide failed: ZeroDivisionError: division by zero"


def test_an_error_of_the_catalogue_has_its_own_hint() -> None:
    (reason,) = explain(failed(ExecutionFailedError.err_id), evidence())

    assert render_reason(reason, "en")[1] == ExecutionFailedError.hint
    assert render_reason(reason, "ja")[1] == ExecutionFailedError.hint_ja


def test_text_of_users_is_never_used_as_a_template() -> None:
    hostile = Reason(code="run_failed", facts={"error": "{tag.__class__} {0}"})

    assert render_reason(hostile, "en")[0] == "The run failed: {tag.__class__} {0}"


def test_served_tags_count_live_workers_and_are_bounded() -> None:
    fleet = [status_of("w1", "gpu", "cpu", busy=1), status_of("w2", "gpu"), LOST]

    assert served_tags(fleet) == [
        ServedTag(tag="cpu", workers=1, slots=1, slots_busy=1),
        ServedTag(tag="gpu", workers=2, slots=2, slots_busy=1),
    ]
    assert len(served_tags([status_of("w1", *(f"t{nth}" for nth in range(500)))])) == 50
