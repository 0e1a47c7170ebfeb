"""The invariants of responses: one commit per key, equal responses, one holder per attempt. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pyoco_server.domain.execution.events import (
    Commit,
    Event,
    ExecutionStarted,
    NodeFailed,
    NodeProgressReported,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.domain.ids import NodeId, RunId
from simulation.evidence import Evidence, Finding, NodeAt
from simulation.requests import Request, Response

# The effect of an accepted command, its own or an earlier one; for cancels see `cancels_without_effect`.
_EVENT_OF: Mapping[str, type[Event]] = {
    "StartExecution": ExecutionStarted,
    "StartNode": NodeStarted,
    "ReportNodeProgress": NodeProgressReported,
    "PutNodeWaiting": NodeWaiting,
    "ResumeNode": NodeResumed,
    "SucceedNode": NodeSucceeded,
    "FailNode": NodeFailed,
}
# These are never no-ops.
_NEVER_NO_OP = ("CreateExecution", "Claim", "ReportNodeProgress", "ResumeNode")
_REPORTS = ("ReportNodeProgress", "PutNodeWaiting", "SucceedNode", "FailNode")
_OF_HOLDERS = (NodeProgressReported, NodeWaiting, NodeSucceeded, NodeFailed)


def done_twice(evidence: Evidence) -> Iterator[Finding]:
    """A key is in all logs together at most once."""
    commits = Counter(commit.idempotency_key for _, commit in _commits(evidence) if commit.idempotency_key is not None)
    for key, times in commits.items():
        if times > 1:
            yield key, f"{times} commits have this key"


def answered_differently(evidence: Evidence) -> Iterator[Finding]:
    """All requests with the same key got the same response."""
    first: dict[str, Response] = {}
    for response in evidence.responses:
        other = first.setdefault(response.request.key, response)
        if _compared(response) != _compared(other):
            words = f"{other.status} {other.body.decode()}, then {response.status} {response.body.decode()}"
            yield response.request.key, f"{response.request.name} was answered {words}"


def _compared(response: Response) -> tuple[int, object]:
    """The part that must be equal. A no-op has no commit, and its version may be later in a later response."""
    if not response.accepted or response.commit_ids:
        return response.status, response.body
    return response.status, {name: value for name, value in response.plain.items() if name != "version"}


def not_done(evidence: Evidence) -> Iterator[Finding]:
    """An accepted request is in the log."""
    commits = {commit.commit_id: commit for _, commit in _commits(evidence)}
    for response in evidence.responses:
        if not response.accepted:
            continue
        for commit_id in response.commit_ids - commits.keys():
            yield response.request.key, f"{response.request.name} was accepted, but its commit {commit_id} is in no log"
        if response.commit_ids:
            continue
        if response.request.name in _NEVER_NO_OP:
            yield response.request.key, f"{response.request.name} was accepted without a commit"
        elif not _has_happened(evidence, response.request):
            yield response.request.key, f"{response.request.name} was accepted as a no-op, but no log has its effect"


def wrong_holders(evidence: Evidence) -> Iterator[Finding]:
    """Each attempt of a node is given to one holder, and only its reports are accepted."""
    holders = {
        (run_id, event.node_id, event.attempt): event.worker_id
        for run_id, commit in _commits(evidence)
        for event in commit.events
        if isinstance(event, NodeStarted)
    }
    yield from _claimed_by_others(evidence, holders)
    for run_id, commit in _commits(evidence):
        for event in commit.events:
            if isinstance(event, _OF_HOLDERS) and commit.idempotency_key is not None and commit.command in _REPORTS:
                holder = holders.get((run_id, event.node_id, event.attempt))
                if holder is not None and commit.actor.id != holder:
                    words = f"{type(event).__name__} of {commit.actor.id} of attempt {event.attempt}, held by {holder}"
                    yield run_id, f"{event.node_id}: {words}"


def _claimed_by_others(evidence: Evidence, holders: Mapping[NodeAt, str | None]) -> Iterator[Finding]:
    given: dict[NodeAt, Request] = {}
    for response in evidence.responses:
        if response.request.claim is None or not response.accepted:
            continue
        plain = response.plain
        node = RunId(plain["executionId"]), NodeId(plain["nodeId"]), int(plain["attempt"])
        other = given.setdefault(node, response.request)
        if other.key != response.request.key:
            yield (
                node[0],
                f"attempt {node[2]} of {node[1]} was given to {other.worker_id} and {response.request.worker_id}",
            )
        if holders.get(node) != response.request.worker_id:
            yield (
                node[0],
                f"attempt {node[2]} of {node[1]} is not held by {response.request.worker_id}, which claimed it",
            )


def _has_happened(evidence: Evidence, request: Request) -> bool:
    wanted = _EVENT_OF.get(request.name)
    if wanted is None or request.run_id is None:
        return True
    return any(
        isinstance(event, wanted)
        and request.node_id in (None, getattr(event, "node_id", None))
        and request.attempt in (None, getattr(event, "attempt", None))
        for stored in evidence.logs.get(request.run_id, ())
        for event in stored.commit.events
    )


def _commits(evidence: Evidence) -> Iterator[tuple[RunId, Commit]]:
    return ((run_id, stored.commit) for run_id, log in evidence.logs.items() for stored in log)
