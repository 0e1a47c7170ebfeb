"""The promises, each as a function that finds what broke it. Pure: evidence in, findings out; the log is the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, NodeStatus
from pyoco_server.domain.ids import RunId
from simulation.evidence import Evidence, Finding, IndexSeen, NodeAt, is_at_rest
from simulation.history_invariants import (
    after_the_end,
    cancel_lost,
    out_of_order,
    overtaken_but_heard,
)
from simulation.response_invariants import answered_differently, done_twice, not_done, not_what_was_told


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken, and by what."""

    broken: str
    subject: str
    detail: str


Check = Callable[[Evidence], Iterator[Finding]]


def stuck(evidence: Evidence) -> Iterator[Finding]:
    for run_id, execution in evidence.ends.items():
        if not is_at_rest(execution):
            nodes = {node.node_id: node.status.value for node in execution.nodes.values()}
            yield run_id, f"{run_status(execution)} for ever, its nodes {nodes}"


def restless(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.quiet:
        yield "world", "snapshots and indexes did not catch up with the logs, or somebody never got an answer"


def cancels_that_came_to_nothing(evidence: Evidence) -> Iterator[Finding]:
    ends = evidence.ends
    for told in evidence.told:
        if told.request.name == "CancelExecution" and told.accepted:
            end = None if told.request.run_id is None else ends.get(told.request.run_id)
            status = "nowhere" if end is None else run_status(end)
            if status != "CANCELLED":
                yield str(told.request.run_id), f"a cancel was accepted ({told.request.key}), but it is {status}"


def unlike_their_log(evidence: Evidence) -> Iterator[Finding]:
    for run_id, execution in evidence.ends.items():
        shown = evidence.snapshots.get(run_id)
        if shown is None:
            yield run_id, "there is a log but no snapshot"
        elif shown != execution:
            yield run_id, f"the snapshot shows version {shown.version}, the log tells {execution.version}, or otherwise"


def unlike_the_snapshots(evidence: Evidence) -> Iterator[Finding]:
    ends = evidence.ends
    claimable, waits = frozenset(_claimable(ends)), frozenset(_waits(ends))
    known = {run_id: (execution.version, run_status(execution)) for run_id, execution in ends.items()}
    for index in evidence.indexes:
        yield from _unlike(index, claimable, waits, known)


def unexpected(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.troubles:
        yield "world", trouble


# By their names in reports.
INVARIANTS: Mapping[str, Check] = {
    "executions stuck": stuck,
    "worlds that never rest": restless,
    "events after a cancel or an end": after_the_end,
    "accepted cancels that came to nothing": cancels_that_came_to_nothing,
    "logs in which a cancel lost": cancel_lost,
    "nodes out of the graph's order": out_of_order,
    "reports of those who were overtaken": overtaken_but_heard,
    "nodes not held by whom they were given to": not_what_was_told,
    "requests done twice": done_twice,
    "requests answered in two ways": answered_differently,
    "accepted requests that were not done": not_done,
    "snapshots unlike their log": unlike_their_log,
    "indexes unlike the snapshots": unlike_the_snapshots,
    "errors that nobody expected": unexpected,
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
