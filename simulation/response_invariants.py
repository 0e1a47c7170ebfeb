"""Promises about what was told: done once per key, the same for all, true in the log, one holder per attempt. Pure."""

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
from simulation.requests import Request, Told

# What an accepted command has brought about, or found so already. (Of cancels, see `cancels_that_came_to_nothing`.)
_EVENT_OF: Mapping[str, type[Event]] = {
    "StartExecution": ExecutionStarted,
    "StartNode": NodeStarted,
    "ReportNodeProgress": NodeProgressReported,
    "PutNodeWaiting": NodeWaiting,
    "ResumeNode": NodeResumed,
    "SucceedNode": NodeSucceeded,
    "FailNode": NodeFailed,
}
# These always bring about something of their own.
_NEVER_SO_ALREADY = ("CreateExecution", "Claim", "ReportNodeProgress", "ResumeNode")
_REPORTS = ("ReportNodeProgress", "PutNodeWaiting", "SucceedNode", "FailNode")
_OF_HOLDERS = (NodeProgressReported, NodeWaiting, NodeSucceeded, NodeFailed)


def done_twice(evidence: Evidence) -> Iterator[Finding]:
    """A key is in all logs together once at most."""
    commits = Counter(commit.idempotency_key for _, commit in _commits(evidence) if commit.idempotency_key is not None)
    for key, times in commits.items():
        if times > 1:
            yield key, f"{times} commits bear this key"


def answered_differently(evidence: Evidence) -> Iterator[Finding]:
    """Whoever sent a request with the same key was told the same."""
    first: dict[str, Told] = {}
    for told in evidence.told:
        other = first.setdefault(told.request.key, told)
        if _said(told) != _said(other):
            words = f"{other.status} {other.body.decode()}, then {told.status} {told.body.decode()}"
            yield told.request.key, f"{told.request.name} was answered {words}"


def _said(told: Told) -> tuple[int, object]:
    """What has to be the same.

    Where it was so already, no commit of its own bears the version: it is the one as of which it was so, and may be a
    later one for who asks later, if the answer before could not be kept.
    """
    if not told.accepted or told.commit_ids:
        return told.status, told.body
    return told.status, {name: value for name, value in told.plain.items() if name != "version"}


def not_done(evidence: Evidence) -> Iterator[Finding]:
    """What was accepted stands in the log."""
    commits = {commit.commit_id: commit for _, commit in _commits(evidence)}
    for told in evidence.told:
        if not told.accepted:
            continue
        for commit_id in told.commit_ids - commits.keys():
            yield told.request.key, f"{told.request.name} was accepted, but its commit {commit_id} is in no log"
        if told.commit_ids:
            continue
        if told.request.name in _NEVER_SO_ALREADY:
            yield told.request.key, f"{told.request.name} was accepted without a commit"
        elif not _is_so(evidence, told.request):
            yield told.request.key, f"{told.request.name} was accepted as done before, but no log has it"


def not_what_was_told(evidence: Evidence) -> Iterator[Finding]:
    """Of each attempt at a node one holder was told that it is theirs, and only that one is heard of it later."""
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
                    words = f"{type(event).__name__} of {commit.actor.id} at attempt {event.attempt}, held by {holder}"
                    yield run_id, f"{event.node_id}: {words}"


def _claimed_by_others(evidence: Evidence, holders: Mapping[NodeAt, str | None]) -> Iterator[Finding]:
    given: dict[NodeAt, Request] = {}
    for told in evidence.told:
        if told.request.claim is None or not told.accepted:
            continue
        plain = told.plain
        node = RunId(plain["executionId"]), NodeId(plain["nodeId"]), int(plain["attempt"])
        other = given.setdefault(node, told.request)
        if other.key != told.request.key:
            yield node[0], f"attempt {node[2]} at {node[1]} was given to {other.worker_id} and {told.request.worker_id}"
        if holders.get(node) != told.request.worker_id:
            yield node[0], f"attempt {node[2]} at {node[1]} is not held by {told.request.worker_id}, who claimed it"


def _is_so(evidence: Evidence, request: Request) -> bool:
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
