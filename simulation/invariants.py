"""The invariants, each a function that yields its violations. Pure: evidence in, violations out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyoco_server.domain.execution.events import NodeFailed, NodeSucceeded
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, NodeStatus, Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from simulation.evidence import Evidence, Finding, IndexSeen, NodeAt, is_at_rest
from simulation.history_invariants import (
    after_the_end,
    cancel_lost,
    out_of_order,
    superseded_reports,
)
from simulation.response_invariants import answered_differently, done_twice, not_done, wrong_holders


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken invariant."""

    broken: str
    subject: str
    detail: str


Check = Callable[[Evidence], Iterator[Finding]]


def stuck(evidence: Evidence) -> Iterator[Finding]:
    for run_id, execution in evidence.ends.items():
        if not is_at_rest(execution):
            nodes = {node.node_id: node.status.value for node in execution.nodes.values()}
            yield run_id, f"{run_status(execution)} at the end, its nodes {nodes}"


def not_idle(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.quiet:
        yield "world", "snapshots or indexes are behind the logs, or a request has no response"


def cancels_without_effect(evidence: Evidence) -> Iterator[Finding]:
    ends = evidence.ends
    for response in evidence.responses:
        if response.request.name == "CancelExecution" and response.accepted:
            end = None if response.request.run_id is None else ends.get(response.request.run_id)
            status = "nowhere" if end is None else run_status(end)
            if status != "CANCELLED":
                yield (
                    str(response.request.run_id),
                    f"a cancel was accepted ({response.request.key}), but it is {status}",
                )


def unlike_their_log(evidence: Evidence) -> Iterator[Finding]:
    for run_id, execution in evidence.ends.items():
        shown = evidence.snapshots.get(run_id)
        if shown is None:
            yield run_id, "log without a snapshot"
        elif shown != execution:
            yield (
                run_id,
                f"the snapshot shows version {shown.version}, the log has {execution.version}, or other content",
            )


def unlike_the_snapshots(evidence: Evidence) -> Iterator[Finding]:
    ends = evidence.ends
    claimable, waits = frozenset(_claimable(ends)), frozenset(_waits(ends))
    known = {run_id: (execution.version, run_status(execution)) for run_id, execution in ends.items()}
    for index in evidence.indexes:
        yield from _unlike(index, claimable, waits, known)


def batches_left_running(evidence: Evidence) -> Iterator[Finding]:
    for run_id, number in evidence.batches_running:
        if evidence.ends[run_id].status.is_terminal:
            yield run_id, f"batch {number} runs although its request is {run_status(evidence.ends[run_id])}"


def batches_that_do_not_add_up(evidence: Evidence) -> Iterator[Finding]:
    for run_id, execution in evidence.ends.items():
        if execution.request.flow_name != REQUEST_FLOW:
            continue
        ends = Counter(
            event.node_id
            for stored in evidence.logs[run_id]
            for event in stored.commit.events
            if isinstance(event, NodeSucceeded | NodeFailed)
        )
        statuses = {node.status for node in execution.nodes.values()}
        if any(number > 1 for number in ends.values()):
            yield run_id, f"batches have ended more than once: {dict(ends)}"
        if execution.status is Status.COMPLETED and statuses != {NodeStatus.SUCCEEDED}:
            yield run_id, f"it is COMPLETED, its batches are {statuses}"
        if execution.status is Status.FAILED and (
            len(ends) < len(execution.nodes) or NodeStatus.FAILED not in statuses
        ):
            yield run_id, f"it is FAILED, its batches are {statuses}"


def unexpected(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.troubles:
        yield "world", trouble


INVARIANTS: Mapping[str, Check] = {
    "executions stuck": stuck,
    "systems that do not become idle": not_idle,
    "events after an end": lambda evidence: after_the_end(evidence.logs),
    "accepted cancels without effect": cancels_without_effect,
    "events after a cancel request": lambda evidence: cancel_lost(evidence.logs),
    "nodes out of order": lambda evidence: out_of_order(evidence.logs),
    "reports of superseded attempts": lambda evidence: superseded_reports(evidence.logs),
    "nodes with a wrong holder": wrong_holders,
    "requests done twice": done_twice,
    "requests with different responses": answered_differently,
    "accepted requests that were not done": not_done,
    "snapshots unlike their log": unlike_their_log,
    "indexes unlike the snapshots": unlike_the_snapshots,
    "batches that run after the end of their request": batches_left_running,
    "requests whose batches do not add up": batches_that_do_not_add_up,
    "unexpected errors": unexpected,
}


def violations(evidence: Evidence) -> Iterator[Violation]:
    for broken, check in INVARIANTS.items():
        for subject, detail in check(evidence):
            yield Violation(broken=broken, subject=subject, detail=detail)


def _claimable(ends: Mapping[RunId, Execution]) -> Iterator[NodeAt]:
    for run_id, execution in ends.items():
        if execution.graph is None or execution.status.is_terminal or execution.cancel is not None:
            continue
        for node in execution.nodes.values():
            if node.status is NodeStatus.READY:
                yield run_id, node.node_id, node.attempt


def _waits(ends: Mapping[RunId, Execution]) -> Iterator[NodeAt]:
    for run_id, execution in ends.items():
        if not execution.status.is_terminal and execution.cancel is None:
            for node in execution.nodes.values():
                if node.status is NodeStatus.WAITING:
                    yield run_id, node.node_id, node.attempt


def _unlike(
    index: IndexSeen, claimable: frozenset[NodeAt], waits: frozenset[NodeAt], known: Mapping[RunId, tuple[int, str]]
) -> Iterator[Finding]:
    if index.claimable != claimable:
        yield index.gateway, f"proposes {sorted(index.claimable)}, but {sorted(claimable)} can be taken"
    if index.waits != waits:
        yield index.gateway, f"shows {sorted(index.waits)}, but {sorted(waits)} wait"
    if index.known != known:
        yield index.gateway, f"knows {dict(index.known)}, but it is {dict(known)}"
