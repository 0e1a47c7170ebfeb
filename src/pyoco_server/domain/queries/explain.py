"""Why a run does not run, or why it ended as it did: reasons with their facts, the most important first.

Derives codes and facts only; `explain_texts` has the sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, Node, NodeStatus, Request, Work
from pyoco_server.domain.fleet.worker_status import QueueState, WorkerStatus, is_alive, is_stale, worker_now
from pyoco_server.errors import FlowNotFound

# With a free worker a run starts within milliseconds; a longer wait has another reason.
SOON_SEC = 5.0
# A holder is signalled at once and reads the log with every heartbeat, so it knows of a cancel after two. (The receipt
# has the exact time, but arrives with the end.)
CANCEL_HEARD_HEARTBEATS = 2
MOST_TAGS = 50
MOST_TASKS = 5
MOST_FLOWS = 5
MAX_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings that the reasons depend on."""

    alive_within_sec: float
    run_heartbeat_sec: float
    ack_wait_sec: float
    requeue_after_sec: float
    max_attempts: int
    cancel_grace_sec: float
    confirm_after_grace_sec: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The observed state around the run. `ahead`: older waiting runs of the tag, counted up to a limit."""

    now: float
    heartbeat_at: float
    fleet: Sequence[WorkerStatus]
    rules: Rules
    queue: QueueState | None = None
    ahead: int = 0

    def serving(self, tag: str) -> list[WorkerStatus]:
        return [seen for seen in self.fleet if seen.serves(tag)]

    def since(self, at: float | None) -> float:
        return max(0.0, self.now - at) if at is not None else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for the run's state; `code` is stable, and `err_id` refers to the error catalogue."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    err_id: str | None = None


def explain(execution: Execution, evidence: Evidence) -> tuple[Reason, ...]:
    """At least one reason, whatever the run's state."""
    rule = {
        "PENDING": _pending,
        "RUNNING": _running,
        "CANCELLING": _cancelling,
        "FAILED": _failed,
        "CANCELLED": _cancelled,
        "COMPLETED": _completed,
    }[run_status(execution)]
    return tuple(rule(execution, evidence))


def served_tags(fleet: Sequence[WorkerStatus]) -> list[dict[str, Any]]:
    """Which tags are served now, by how many workers and with how many slots; bounded."""
    tags: dict[str, dict[str, Any]] = {}
    for seen in fleet:
        for tag in seen.record.tags if seen.is_active else ():
            row = tags.setdefault(tag, {"tag": tag, "workers": 0, "slots": 0, "slots_busy": 0})
            row["workers"] += 1
            row["slots"] += seen.record.slots
            row["slots_busy"] += seen.busy
    return [tags[tag] for tag in sorted(tags)[:MOST_TAGS]]


def holder_status(execution: Execution, evidence: Evidence) -> WorkerStatus | None:
    """The worker instance that has or had the run."""
    holder = execution.holder
    if holder is None or holder.worker_id is None:
        return None
    found = (seen for seen in evidence.fleet if seen.record.worker_id == holder.worker_id)
    return next((seen for seen in found if seen.record.instance_id == holder.instance_id), None)


def is_holder_alive(execution: Execution, evidence: Evidence) -> bool:
    holder = execution.holder
    return holder is not None and is_alive(
        holder_status(execution, evidence), holder.instance_id, within_sec=evidence.rules.alive_within_sec
    )


# --- unfinished runs --------------------------------------------------------------------------------------------------


def _pending(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    if not execution.is_queued:
        facts = {"execution_id": execution.execution_id, "waiting_sec": evidence.since(execution.created_at)}
        yield Reason(code="not_started", facts=facts)
        return
    tag = execution.request.tag
    live = [seen for seen in evidence.serving(tag) if seen.is_active]
    if not live:
        yield from _no_worker_for(tag, evidence)
        return
    slots, busy = sum(seen.record.slots for seen in live), sum(seen.busy for seen in live)
    waiting_sec = evidence.since(execution.created_at)
    facts = {
        "tag": tag,
        "workers": len(live),
        "slots": slots,
        "slots_busy": busy,
        "ahead": evidence.ahead,
        "waiting_sec": waiting_sec,
    }
    queue = evidence.queue
    if queue is not None and queue.most_in_work is not None and queue.in_work >= queue.most_in_work:
        yield Reason(code="queue_at_its_limit", facts={**facts, "limit": queue.most_in_work, "in_work": queue.in_work})
    elif busy >= slots:
        yield Reason(code="all_slots_busy", facts=facts)
    elif waiting_sec <= SOON_SEC or evidence.ahead > 0:
        yield Reason(code="about_to_start", facts=facts)
    else:
        yield Reason(code="waits_although_free", facts={**facts, "requeue_after_sec": evidence.rules.requeue_after_sec})
    yield from _flow_not_announced(execution.request, live)


def _flow_not_announced(request: Request, live: Sequence[WorkerStatus]) -> Iterator[Reason]:
    """Whether the name may be misspelled. Only a hint: a worker may serve flows that it does not announce."""
    announced = {flow.name for seen in live for flow in seen.record.flows}
    all_announce = all(seen.record.flows for seen in live)
    if request.workflow_yaml_sha256 is None and all_announce and request.flow_name not in announced:
        flows = get_close_matches(request.flow_name, announced, n=MOST_FLOWS, cutoff=0.0)
        facts = {"flow_name": request.flow_name, "tag": request.tag, "announced_flows": flows}
        yield Reason(code="flow_not_announced", facts=facts)


def _no_worker_for(tag: str, evidence: Evidence) -> Iterator[Reason]:
    """Why no worker takes runs of this tag: all of them are gone, or there never was one."""
    served = [row["tag"] for row in served_tags(evidence.fleet)]
    facts: dict[str, Any] = {"tag": tag, "served_tags": served}
    gone = sorted(evidence.serving(tag), key=lambda seen: seen.record.last_seen_at)
    if gone:
        last = gone[-1]
        lost = {"last_worker": last.record.worker_id, "last_state": last.state.value, "last_seen_sec": last.silent_sec}
        yield Reason(code="workers_for_tag_are_gone", facts={**facts, "workers": len(gone), **lost})
    else:
        yield Reason(code="no_worker_for_tag", facts=facts)
    similar = _similar(tag, served)
    if similar is not None:
        yield Reason(code="similar_tag", facts={"tag": tag, "similar": similar})


def _similar(tag: str, served: Sequence[str]) -> str | None:
    by_letters = {name.lower().replace("_", "-"): name for name in served}
    found = get_close_matches(tag.lower().replace("_", "-"), by_letters, n=1, cutoff=0.7)
    return by_letters[found[0]] if found else None


def _running(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    if execution.request.work is Work.NODES:
        yield from (Reason(code=code, facts=facts) for code, facts in node_reasons(execution, evidence.now))
        return
    holder = execution.holder
    running = [name for name, node in execution.nodes.items() if node.status is NodeStatus.RUNNING]
    now = worker_now(holder_status(execution, evidence), evidence.now)
    facts = {
        "worker_id": holder.worker_id if holder else None,
        "running_sec": 0.0 if execution.started_at is None else max(0.0, now - execution.started_at),
        "heartbeat_sec": max(0.0, now - evidence.heartbeat_at),
        "tasks": running[:MOST_TASKS],
    }
    if holder is None or holder.instance_id is None or is_holder_alive(execution, evidence):
        stale = is_stale(
            "RUNNING",
            evidence.heartbeat_at,
            now=now,
            run_heartbeat_sec=evidence.rules.run_heartbeat_sec,
        )
        yield Reason(code="run_is_stale" if stale else "running", facts=facts)
    else:
        yield _lost(execution, evidence, facts)
        tag = execution.request.tag
        if not any(seen.is_active for seen in evidence.serving(tag)):
            yield from _no_worker_for(tag, evidence)
    yield from _tried_again(execution, evidence)


def _lost(execution: Execution, evidence: Evidence, facts: Mapping[str, Any]) -> Reason:
    """The reason why the holder is lost."""
    seen = holder_status(execution, evidence)
    real_sec = evidence.queue.ack_wait_sec if evidence.queue else None
    more = {"tag": execution.request.tag, "takeover_sec": real_sec or evidence.rules.ack_wait_sec}
    if seen is None:
        return Reason(code="worker_restarted_or_unknown", facts={**facts, **more})
    if seen.record.stopped_at is not None:
        return Reason(code="worker_stopped", facts={**facts, **more, "stop_reason": seen.record.stop_reason})
    return Reason(code="worker_silent", facts={**facts, **more, "silent_sec": seen.silent_sec})


def _tried_again(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    attempt = execution.attempt
    if attempt > 1:
        facts = {"attempt": attempt, "lost": attempt - 1, "max_attempts": evidence.rules.max_attempts}
        yield Reason(code="tried_again", facts=facts)


def _cancelling(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    receipt, holder = execution.cancel, execution.holder
    requested_at = receipt.requested_at if receipt else evidence.now
    ends_at = requested_at + evidence.rules.cancel_grace_sec
    facts: dict[str, Any] = {
        "worker_id": holder.worker_id if holder else None,
        "by": receipt.requested_by if receipt else None,
        "reason": receipt.reason if receipt else None,
        "requested_at": requested_at,
        "requested_sec": evidence.since(requested_at),
        "grace_until": ends_at,
        "grace_left_sec": max(0.0, ends_at - evidence.now),
        "at_the_latest_sec": max(0.0, ends_at + evidence.rules.confirm_after_grace_sec - evidence.now),
    }
    if execution.request.work is Work.NODES:
        yield Reason(code="cancel_waits_for_holders", facts=facts | holder_facts(execution, evidence.now))
    elif execution.is_held and not is_holder_alive(execution, evidence):
        yield Reason(code="cancel_without_worker", facts=facts)
    elif facts["requested_sec"] > CANCEL_HEARD_HEARTBEATS * evidence.rules.run_heartbeat_sec:
        yield Reason(code="cancel_delivered", facts=facts)
    else:
        yield Reason(code="cancel_on_its_way", facts=facts)


# --- finished runs ----------------------------------------------------------------------------------------------------


def _failed(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    error = execution.error
    broken = [node for node in execution.nodes.values() if node.status is NodeStatus.FAILED]
    facts: dict[str, Any] = {
        "run_id": execution.execution_id,
        "flow_name": execution.request.flow_name,
        "workflow_yaml_sha256": execution.request.workflow_yaml_sha256,
        "tag": execution.request.tag,
        "worker_id": execution.holder.worker_id if execution.holder else None,
        "attempt": execution.attempt,
        "err_id": error.code if error else None,
        "error": error.message[:MAX_ERROR_CHARS] if error else None,
        "tasks": [node.node_id for node in broken[:MOST_TASKS]],
    }
    err_id = error.code if error else None
    if err_id == FlowNotFound.err_id:
        yield Reason(code="flow_not_found", facts=facts, err_id=err_id)
    elif execution.timeout is not None:
        receipt = execution.timeout
        more = {"limit_sec": receipt.limit_sec, "how": receipt.how.value}
        yield Reason(code="timed_out", facts={**facts, **more}, err_id=err_id)
    elif broken:
        own = broken[0].error
        message = f"{own.code}: {own.message}"[:MAX_ERROR_CHARS] if own else facts["error"]
        # Nodes that fail over HTTP have no traceback.
        code = "node_failed" if execution.request.work is Work.NODES else "task_failed"
        yield Reason(code=code, facts={**facts, "task": broken[0].node_id, "error": message}, err_id=err_id)
    else:
        yield Reason(code="run_failed", facts=facts, err_id=err_id)
    yield from _tried_again(execution, evidence)


def _cancelled(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    receipt = execution.cancel
    how = receipt.how.value if receipt and receipt.how else "unconfirmed"
    facts = {
        "by": receipt.requested_by if receipt else None,
        "reason": receipt.reason if receipt else None,
        "how": how,
        "worker_id": execution.holder.worker_id if execution.holder else None,
        "took_sec": max(0.0, (execution.ended_at or evidence.now) - receipt.requested_at) if receipt else None,
    }
    yield Reason(code=f"cancelled_{how}", facts=facts)


def _completed(execution: Execution, evidence: Evidence) -> Iterator[Reason]:
    started_at = execution.started_at or execution.created_at or evidence.now
    facts = {
        "worker_id": execution.holder.worker_id if execution.holder else None,
        "ran_sec": max(0.0, (execution.ended_at or started_at) - started_at),
        "waited_sec": max(0.0, started_at - (execution.created_at or started_at)),
        "attempt": execution.attempt,
    }
    yield Reason(code="completed", facts=facts)


MAX_NODES_NAMED = 5


def node_reasons(execution: Execution, now: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Codes and facts by importance: waits, unclaimed nodes, holders; unclaimed nodes come last while others run."""
    by_status: dict[NodeStatus, list[Node]] = {}
    for node in execution.nodes.values():
        by_status.setdefault(node.status, []).append(node)
    running = by_status.get(NodeStatus.RUNNING, [])
    silent = [node for node in running if node.lease_until is not None and node.lease_until <= now]
    at_work = [node for node in running if node not in silent]
    ready = by_status.get(NodeStatus.READY, [])
    for code, nodes in (
        ("nodes_wait_for_somebody", by_status.get(NodeStatus.WAITING, [])),
        ("nodes_wait_to_be_taken", [] if at_work else ready),
        ("nodes_of_silent_holders", silent),
        ("nodes_are_worked_on", at_work),
        ("nodes_wait_their_turn", ready if at_work else []),
    ):
        if nodes:
            yield code, _node_facts(execution, nodes)
    if not by_status.keys() & {NodeStatus.WAITING, NodeStatus.READY, NodeStatus.RUNNING}:
        yield "waits_for_its_end", _node_facts(execution, [])


def holder_facts(execution: Execution, now: float) -> dict[str, Any]:
    """Facts about the holders that must stop before a cancel is complete."""
    return _node_facts(execution, [node for node in execution.nodes.values() if node.is_worked_on(now)])


def _node_facts(execution: Execution, nodes: list[Node]) -> dict[str, Any]:
    holders = sorted({node.worker_id for node in nodes if node.worker_id is not None})
    return {
        "execution_id": execution.execution_id,
        "graph_id": execution.request.flow_name,
        "count": len(nodes),
        "nodes": [node.node_id for node in nodes[:MAX_NODES_NAMED]],
        "holders": holders[:MAX_NODES_NAMED],
    }
