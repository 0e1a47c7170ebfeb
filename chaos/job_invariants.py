"""The invariants of jobs: their log as followers receive it, their labels, and what a deletion leaves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from chaos.evidence import Check, Evidence, Finding
from chaos.journal import Journal
from chaos.states import final
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Status

JOB_STATUSES = {"COMPLETED": "completed", "FAILED": "failed", "CANCELLED": "canceled"}


def follower_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A follower receives every stored line once and in order, and the final status."""
    for followed in journal.followed:
        printed = evidence.printed.get(followed.job_id, ())
        stored = tuple((number, line.attempt, line.text) for number, line in enumerate(printed, start=1))
        status = JOB_STATUSES.get(run_status(final(followed.job_id, evidence.logs.get(followed.job_id, ()))))
        if followed.how == "hung":
            yield followed.job_id, f"a follower by {followed.by} did not end after {len(followed.lines)} lines"
        elif followed.lines != stored[: len(followed.lines)]:
            yield followed.job_id, f"a follower by {followed.by} received {followed.lines}, stored are {stored}"
        elif followed.how == "ended" and (followed.status, len(followed.lines)) != (status, len(stored)):
            received = f"{followed.status} after {len(followed.lines)} lines"
            yield followed.job_id, f"a follower by {followed.by} received {received}; stored: {status}, {len(stored)}"


def label_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A job has the labels that were added and not removed; lists by label and the counts agree."""
    listed: dict[str, set[str]] = {}
    for job_id, labels in journal.labels.items():
        snapshot = evidence.snapshots.get(job_id)
        if snapshot is None:
            continue
        if sorted(snapshot["tags"]) != sorted(labels):
            yield job_id, f"has the labels {snapshot['tags']} instead of {labels}"
        if snapshot.get("archived_at") is None:
            for label in snapshot["tags"]:
                listed.setdefault(label, set()).add(job_id)
    for one in evidence.labels:
        expected = listed.get(one.label, set())
        if Counter(one.job_ids) != Counter(expected) or list(one.job_ids) != sorted(one.job_ids, reverse=True):
            yield one.label, f"{one.gateway} lists {one.job_ids}, {sorted(expected)} have it"
        if one.count != len(expected):
            yield one.label, f"{one.gateway} counts {one.count} jobs, {len(expected)} have it"


def unhonoured_deletions(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A deleted job is canceled, or it had ended and is archived."""
    for job_id in journal.deleted:
        execution = final(job_id, evidence.logs.get(job_id, ()))
        if execution.status is not Status.CANCELED and execution.archived_at is None:
            yield job_id, f"was deleted, but it is {run_status(execution)} and not archived"


def changed_excerpts(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A token and a range of bytes of a log stay valid at every gateway."""
    for one in evidence.excerpts:
        if one.part != one.excerpt.part:
            yield one.excerpt.job_id, f"{one.gateway} returns {one.part!r}, it was {one.excerpt.part!r}"
        if one.following not in (None, one.excerpt.first_lines + 1):
            yield one.excerpt.job_id, f"{one.gateway} continues with line {one.following} after the token"


JOB_CHECKS: Mapping[str, Check] = {
    "logs followed with other content": follower_mismatches,
    "labels that differ from the changes": label_mismatches,
    "deletions without effect": unhonoured_deletions,
    "excerpts of logs that changed": changed_excerpts,
}
