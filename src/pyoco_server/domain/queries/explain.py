"""Why a run does not run, or why it ended as it did: reasons with their facts, the most important first.

Derives codes and facts only; `explain_texts` has the sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, Node, NodeStatus, Work
from pyoco_server.domain.fleet.worker_status import QueueState, WorkerStatus, is_alive, is_stale, worker_now
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, is_stopping
from pyoco_server.errors import FlowNotFound

# With a free worker a run starts within milliseconds; a longer wait has another reason.
SOON_SEC = 5.0
# A holder is signalled at once and reads the log with every heartbeat, so it knows of a cancel after two. (The receipt
# has the exact time, but arrives with the end.)
CANCEL_KNOWN_HEARTBEATS = 2
MOST_TAGS = 50
# Tasks, nodes, holders and flows in a fact.
MOST_NAMES = 5
MAX_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The settings and the observed state around the run. `ahead`: older waiting runs of the tag, up to a limit."""

    now: float
    heartbeat_at: float
    fleet: Sequence[WorkerStatus]
    alive_within_sec: float
    run_heartbeat_sec: float
    ack_wait_sec: float
    requeue_after_sec: float
    max_attempts: int
    cancel_grace_sec: float
    confirm_after_grace_sec: float
    queue: QueueState | None = None
    ahead: int = 0
    events_lost: bool = False

    def serving(self, tag: str) -> list[WorkerStatus]:
        return [seen for seen in self.fleet if seen.serves(tag)]

    def since(self, at: float | None) -> float:
        return max(0.0, self.now - at) if at is not None else 0.0


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for the run's state; `code` is stable."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTag:
    tag: str
    workers: int
    slots: int
    slots_busy: int


Reasons = Iterator[Reason]


def explain(execution: Execution, evidence: Evidence) -> tuple[Reason, ...]:
    """At least one reason, whatever the run's state."""
    lost = (Reason("events_lost"),) if evidence.events_lost else ()
    return (*lost, *_RULES[run_status(execution)](execution, evidence))


def served_tags(fleet: Sequence[WorkerStatus]) -> list[ServedTag]:
    """Which tags are served now, by how many workers and with how many slots; bounded."""
    tags: dict[str, list[WorkerStatus]] = defaultdict(list)
    for seen in fleet:
        for tag in seen.record.tags if seen.is_active else ():
            tags[tag].append(seen)
    return [ServedTag(tag=tag, workers=len(tags[tag]), **_slots(tags[tag])) for tag in sorted(tags)[:MOST_TAGS]]


def holder_status(execution: Execution, evidence: Evidence) -> WorkerStatus | None:
    """The worker instance that has or had the run."""
    holder = execution.holder
    if holder is None or holder.worker_id is None:
        return None
    held_by = (holder.worker_id, holder.instance_id)
    return next((seen for seen in evidence.fleet if (seen.record.worker_id, seen.record.instance_id) == held_by), None)


def is_holder_alive(execution: Execution, evidence: Evidence) -> bool:
    holder, within_sec = execution.holder, evidence.alive_within_sec
    return holder is not None and is_alive(
        holder_status(execution, evidence), holder.instance_id, within_sec=within_sec
    )


def _slots(workers: Sequence[WorkerStatus]) -> dict[str, int]:
    return {"slots": sum(seen.record.slots for seen in workers), "slots_busy": sum(seen.busy for seen in workers)}


def _worker_id(execution: Execution) -> str | None:
    return execution.holder.worker_id if execution.holder else None


# --- unfinished runs --------------------------------------------------------------------------------------------------


def _pending(execution: Execution, evidence: Evidence) -> Reasons:
    waiting_sec = evidence.since(execution.created_at)
    if not execution.is_queued:
        yield Reason("not_started", {"execution_id": execution.execution_id, "waiting_sec": waiting_sec})
        return
    tag, queue = execution.request.tag, evidence.queue
    active = [seen for seen in evidence.serving(tag) if seen.is_active]
    if not active:
        yield from _no_worker_for(tag, evidence)
        return
    slots = _slots(active)
    facts: dict[str, Any] = {
        "tag": tag,
        "workers": len(active),
        **slots,
        "ahead": evidence.ahead,
        "waiting_sec": waiting_sec,
    }
    if queue is not None and queue.most_in_work is not None and queue.in_work >= queue.most_in_work:
        yield Reason("queue_at_its_limit", {**facts, "limit": queue.most_in_work, "in_work": queue.in_work})
    elif slots["slots_busy"] >= slots["slots"]:
        yield Reason("all_slots_busy", facts)
    elif waiting_sec <= SOON_SEC or evidence.ahead > 0:
        yield Reason("about_to_start", facts)
    else:
        yield Reason("waits_although_free", {**facts, "requeue_after_sec": evidence.requeue_after_sec})
    # Only a hint at a misspelled name: a worker may serve flows that it does not announce.
    announced = {flow.name for seen in active for flow in seen.record.flows}
    flow_name, is_file = execution.request.flow_name, execution.request.workflow_yaml_sha256 is not None
    if not is_file and flow_name not in announced and all(seen.record.flows for seen in active):
        flows = get_close_matches(flow_name, announced, n=MOST_NAMES, cutoff=0.0)
        yield Reason("flow_not_announced", {"flow_name": flow_name, "tag": tag, "announced_flows": flows})


def _no_worker_for(tag: str, evidence: Evidence) -> Reasons:
    """Why no worker takes runs of this tag: all of them are gone, or there never was one."""
    served = [row.tag for row in served_tags(evidence.fleet)]
    facts: dict[str, Any] = {"tag": tag, "served_tags": served}
    gone = evidence.serving(tag)
    if gone:
        last = max(gone, key=lambda seen: seen.record.last_seen_at)
        lost = {"last_worker": last.record.worker_id, "last_state": last.state.value, "last_seen_sec": last.silent_sec}
        yield Reason("workers_for_tag_are_gone", {**facts, "workers": len(gone), **lost})
    else:
        yield Reason("no_worker_for_tag", facts)
    by_letters = {_letters(name): name for name in served}
    for similar in get_close_matches(_letters(tag), by_letters, n=1, cutoff=0.7):
        yield Reason("similar_tag", {"tag": tag, "similar": by_letters[similar]})


def _letters(tag: str) -> str:
    return tag.lower().replace("_", "-")


def _running(execution: Execution, evidence: Evidence) -> Reasons:
    if execution.request.work is Work.NODES:
        yield from _node_reasons(execution, evidence.now)
        return
    holder, tag = execution.holder, execution.request.tag
    seen = holder_status(execution, evidence)
    running = [name for name, node in execution.nodes.items() if node.status is NodeStatus.RUNNING]
    now = worker_now(seen, evidence.now)
    facts: dict[str, Any] = {
        "worker_id": _worker_id(execution),
        "running_sec": 0.0 if execution.started_at is None else max(0.0, now - execution.started_at),
        "heartbeat_sec": max(0.0, now - evidence.heartbeat_at),
        "tasks": running[:MOST_NAMES],
    }
    if holder is None or holder.instance_id is None or is_holder_alive(execution, evidence):
        heartbeat_sec = evidence.run_heartbeat_sec
        stale = is_stale("RUNNING", evidence.heartbeat_at, now=now, run_heartbeat_sec=heartbeat_sec)
        yield Reason("run_is_stale" if stale else "running", facts)
    else:
        takeover_sec = evidence.queue.ack_wait_sec if evidence.queue else None
        facts |= {"tag": tag, "takeover_sec": takeover_sec or evidence.ack_wait_sec}
        if seen is None:
            yield Reason("worker_restarted_or_unknown", facts)
        elif seen.record.stopped_at is not None:
            yield Reason("worker_stopped", {**facts, "stop_reason": seen.record.stop_reason})
        else:
            yield Reason("worker_silent", {**facts, "silent_sec": seen.silent_sec})
        if not any(other.is_active for other in evidence.serving(tag)):
            yield from _no_worker_for(tag, evidence)
    yield from _tried_again(execution, evidence)


def _tried_again(execution: Execution, evidence: Evidence) -> Reasons:
    attempt = execution.attempt
    if attempt > 1:
        facts = {"attempt": attempt, "lost": attempt - 1, "max_attempts": evidence.max_attempts}
        yield Reason("tried_again", facts)


def _cancelling(execution: Execution, evidence: Evidence) -> Reasons:
    receipt = execution.cancel
    requested_at = receipt.requested_at if receipt else evidence.now
    ends_at = requested_at + evidence.cancel_grace_sec
    facts: dict[str, Any] = {
        "worker_id": _worker_id(execution),
        "by": receipt.requested_by if receipt else None,
        "reason": receipt.reason if receipt else None,
        "requested_at": requested_at,
        "requested_sec": evidence.since(requested_at),
        "grace_until": ends_at,
        "grace_left_sec": max(0.0, ends_at - evidence.now),
        "at_the_latest_sec": max(0.0, ends_at + evidence.confirm_after_grace_sec - evidence.now),
    }
    if execution.request.work is Work.NODES:
        held = [node for node in execution.nodes.values() if node.is_worked_on(evidence.now)]
        yield Reason("cancel_waits_for_holders", facts | _node_facts(execution, held))
    elif execution.is_held and not is_holder_alive(execution, evidence):
        yield Reason("cancel_without_worker", facts)
    elif facts["requested_sec"] > CANCEL_KNOWN_HEARTBEATS * evidence.run_heartbeat_sec:
        yield Reason("cancel_delivered", facts)
    else:
        yield Reason("cancel_on_its_way", facts)


def _node_reasons(execution: Execution, now: float) -> Reasons:
    """By importance: waits, unclaimed nodes, holders; unclaimed nodes come last while others run."""
    by_status: dict[NodeStatus, list[Node]] = defaultdict(list)
    for node in execution.nodes.values():
        by_status[node.status].append(node)
    ready, waiting, running = (
        by_status[status] for status in (NodeStatus.READY, NodeStatus.WAITING, NodeStatus.RUNNING)
    )
    silent = [node for node in running if node.lease_until is not None and node.lease_until <= now]
    at_work = [node for node in running if node not in silent]
    for code, nodes in (
        ("nodes_wait_for_somebody", waiting),
        ("nodes_wait_to_be_taken", [] if at_work else ready),
        ("nodes_of_silent_holders", silent),
        ("nodes_are_worked_on", at_work),
        ("nodes_wait_their_turn", ready if at_work else []),
    ):
        if nodes:
            yield Reason(code, _node_facts(execution, nodes))
    if not (ready or waiting or running):
        yield Reason("waits_for_its_end", _node_facts(execution, []))
    yield from _skipped(execution)


def _skipped(execution: Execution) -> Reasons:
    """Which nodes were not reached, and the choices that led elsewhere."""
    skipped = [node for node in execution.nodes.values() if node.is_skipped]
    if skipped:
        when = execution.graph.when if execution.graph else {}
        asked = [execution.nodes[source] for source in dict.fromkeys(source for source, _ in when)]
        chosen = [f"{node.node_id}={node.choice or '-'}" for node in asked if node.status is NodeStatus.SUCCEEDED]
        yield Reason("nodes_were_skipped", _node_facts(execution, skipped) | {"choices": chosen[:MOST_NAMES]})


def _node_facts(execution: Execution, nodes: list[Node]) -> dict[str, Any]:
    holders = sorted({node.worker_id for node in nodes if node.worker_id is not None})
    return {
        "execution_id": execution.execution_id,
        "graph_id": execution.request.flow_name,
        "count": len(nodes),
        "nodes": [node.node_id for node in nodes[:MOST_NAMES]],
        "holders": holders[:MOST_NAMES],
    }


# --- finished runs ----------------------------------------------------------------------------------------------------


def _failed(execution: Execution, evidence: Evidence) -> Reasons:
    error, request = execution.error, execution.request
    broken = [node for node in execution.nodes.values() if node.status is NodeStatus.FAILED]
    facts: dict[str, Any] = {
        "run_id": execution.execution_id,
        "flow_name": request.flow_name,
        "workflow_yaml_sha256": request.workflow_yaml_sha256,
        "tag": request.tag,
        "worker_id": _worker_id(execution),
        "attempt": execution.attempt,
        "err_id": error.code if error else None,
        "error": error.message[:MAX_ERROR_CHARS] if error else None,
        "tasks": [node.node_id for node in broken[:MOST_NAMES]],
    }
    if error is not None and error.code == FlowNotFound.err_id:
        yield Reason("flow_not_found", facts)
    elif execution.timeout is not None:
        how = execution.timeout.how.value
        yield Reason("timed_out", {**facts, "limit_sec": execution.timeout.limit_sec, "how": how})
    elif broken:
        own = broken[0].error
        message = f"{own.code}: {own.message}"[:MAX_ERROR_CHARS] if own else facts["error"]
        # Nodes that fail over HTTP have no traceback.
        code = "node_failed" if request.work is Work.NODES else "task_failed"
        yield Reason(code, {**facts, "task": broken[0].node_id, "error": message})
    else:
        yield Reason("run_failed", facts)
    yield from _tried_again(execution, evidence)


def _cancelled(execution: Execution, evidence: Evidence) -> Reasons:
    receipt = execution.cancel
    how = receipt.how.value if receipt and receipt.how else "unconfirmed"
    facts = {
        "by": receipt.requested_by if receipt else None,
        "reason": receipt.reason if receipt else None,
        "how": how,
        "worker_id": _worker_id(execution),
        "took_sec": max(0.0, (execution.ended_at or evidence.now) - receipt.requested_at) if receipt else None,
    }
    if how == "unconfirmed" and execution.request.flow_name == REQUEST_FLOW:
        yield Reason("cancelled_batches_stopping" if is_stopping(execution) else "cancelled_batches_stopped", facts)
    else:
        yield Reason(f"cancelled_{how}", facts)


def _completed(execution: Execution, evidence: Evidence) -> Reasons:
    started_at = execution.started_at or execution.created_at or evidence.now
    facts = {
        "worker_id": _worker_id(execution),
        "ran_sec": max(0.0, (execution.ended_at or started_at) - started_at),
        "waited_sec": max(0.0, started_at - (execution.created_at or started_at)),
        "attempt": execution.attempt,
    }
    yield Reason("completed", facts)
    yield from _skipped(execution)


_RULES: Mapping[str, Callable[[Execution, Evidence], Reasons]] = {
    "PENDING": _pending,
    "RUNNING": _running,
    "CANCELLING": _cancelling,
    "FAILED": _failed,
    "CANCELLED": _cancelled,
    "COMPLETED": _completed,
}
