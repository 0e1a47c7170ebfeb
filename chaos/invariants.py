"""The promises, each as a function that finds what broke it. Pure: evidence and journal in, violations out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

from chaos.evidence import LIST_LIMIT, Evidence, Finding, Listed, Plain
from chaos.journal import Journal, Seen
from chaos.log_checks import misprinted
from chaos.node_invariants import NODE_CHECKS, Check, is_for_hands
from chaos.replay import complaints
from chaos.states import final, starts_of, states
from chaos.wheel_invariants import behind_the_registry, left_behind, ran_with_other_wheels, unlike_the_registry
from pyoco_server.domain.execution.events import (
    Events,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionStarted,
)
from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES, public_view, run_status, to_snapshot
from pyoco_server.domain.execution.state import Execution, StopHow
from pyoco_server.domain.fleet.worker_status import RUN_FACTS

# What a clock reading may be late by on a busy machine: between a flow's own note and the event that tells of it.
SLACK_SEC = 0.25
IN_A_LIST = ("status", "version", "attempt", "flow_name", "tag", "worker_id", "updated_at", "end_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken; `subject` is a run id wherever it is about a run."""

    broken: str
    subject: str
    detail: str


def lost(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id in (*journal.accepted, *journal.executions):
        if run_id not in evidence.logs:
            yield run_id, "accepted, but it has no events"
        for shown in evidence.shown.get(run_id, ()):
            if shown.body is None:
                yield run_id, f"accepted, but {shown.gateway} answers 404"


def stuck(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        execution = final(run_id, log)
        if not execution.status.is_terminal:
            yield run_id, f"still {run_status(execution)} after everything had time to settle"


def changed(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        ends = [run_status(execution) for execution in states(run_id, log) if execution.status.is_terminal]
        seen = [seen.status for seen in journal.seen.get(run_id, ()) if seen.status in TERMINAL_RUN_STATUSES]
        shown = [shown.body["status"] for shown in evidence.shown.get(run_id, ()) if shown.body is not None]
        told = [status for status in (*ends, *seen, *shown) if status in TERMINAL_RUN_STATUSES]
        if len(set(told)) > 1:
            yield run_id, f"log {ends}, seen {seen}, shown at the end {shown}"


def went_back(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, seen in journal.seen.items():
        for earlier, later in _pairs(seen):
            if later.version < earlier.version:
                yield run_id, f"version {earlier.version} ({earlier.status}), then {later.version} ({later.status})"


def uncancelled(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, seen in journal.seen.items():
        promised = any(one.to_cancel and one.status == "CANCELLING" for one in seen)
        status = run_status(final(run_id, evidence.logs.get(run_id, ())))
        if promised and status != "CANCELLED":
            yield run_id, f"a cancel was accepted (CANCELLING), but it ended {status}"


def completed_after_cancel(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        events = [event for stored in log for event in stored.commit.events]
        asked = [place for place, event in enumerate(events) if isinstance(event, ExecutionCancelRequested)]
        done = [place for place, event in enumerate(events) if isinstance(event, ExecutionCompleted)]
        if asked and done and done[-1] > asked[0]:
            yield run_id, "EXECUTION_COMPLETED stands behind EXECUTION_CANCEL_REQUESTED"


def unlike_their_log(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        execution = final(run_id, log)
        stored = evidence.snapshots.get(run_id)
        if stored is not None:
            yield from ((run_id, difference) for difference in _differences(execution, stored))
        elif not _was_undone(execution):
            yield run_id, "there is a log but no snapshot"
        for shown in evidence.shown.get(run_id, ()):
            if shown.body is None or stored is None:
                continue
            kept = {name: value for name, value in shown.body.items() if name not in RUN_FACTS}
            if kept != public_view(stored, records=True):
                yield run_id, f"{shown.gateway} shows something else than the stored snapshot"
    for run_id in evidence.snapshots.keys() - evidence.logs.keys():
        yield run_id, "there is a snapshot but no log"


def illegal(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        yield from ((run_id, complaint) for complaint in complaints(run_id, log))


def unlike_their_lists(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for listed in evidence.lists:
        name = f"{listed.gateway} flow={listed.flow} tag={listed.tag} status={listed.status}"
        expected = {run_id: plain for run_id, plain in evidence.snapshots.items() if _fits(listed, plain)}
        ids = [item["run_id"] for item in listed.items]
        if len(ids) != min(len(expected), LIST_LIMIT) or len(set(ids)) != len(ids):
            missing = [run_id for run_id in expected if run_id not in ids]
            yield name, f"{len(ids)} items, {len(expected)} expected; not there: {missing[:5]}"
        for item in listed.items:
            plain = expected.get(item["run_id"])
            if plain is None:
                yield item["run_id"], f"{name} shows it as {item.get('status')}, where it does not belong"
            elif any(item.get(key) != plain.get(key) for key in IN_A_LIST):
                yield item["run_id"], f"{name} shows {item}, the snapshot says {_some_of(plain)}"
        yield from ((name, wrong) for wrong in _misordered(listed, expected, ids))


def left_in_queue(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for job in evidence.jobs:
        yield str(job.get("run_id")), "its job is still in the queue"


def executed_unrecorded(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A start is stored before the flow runs, so nothing can have run without one; nor can anything be complete that
    never ran to its end.
    """
    for run_id in evidence.witness.keys() | evidence.logs.keys():
        log, lines = evidence.logs.get(run_id, ()), evidence.witness.get(run_id, ())
        begun = [line for line in lines if line.what == "begin"]
        starts = starts_of(log)
        if len(begun) > len(starts):
            yield run_id, f"executed {len(begun)} times, but started {len(starts)} times in the log"
        completed = run_status(final(run_id, log)) == "COMPLETED" and not is_for_hands(log)
        if completed and not any(line.what == "end" for line in lines):
            yield run_id, "COMPLETED, but the flow itself never came to its end"


def worked_on(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A receipt that says `cooperative` or `killed` says that the work has stopped, of a limit too."""
    for run_id, log in evidence.logs.items():
        for how, stopped_at in (receipt for stored in log for receipt in _receipts(stored.commit.events)):
            if how not in (StopHow.COOPERATIVE, StopHow.KILLED):
                continue
            late = [line.at for line in evidence.witness.get(run_id, ()) if line.at > stopped_at + SLACK_SEC]
            # An attempt that was overtaken may live a little longer than the run; its words are refused.
            if late and len(starts_of(log)) == 1:
                yield run_id, f"stopped ({how.value}), but it worked on for {max(late) - stopped_at:.2f} s"


def _receipts(events: Events) -> Iterator[tuple[StopHow | None, float]]:
    for event in events:
        if isinstance(event, ExecutionCanceled):
            yield event.how, event.stopped_at or event.at
        elif isinstance(event, ExecutionFailed) and event.timeout is not None:
            yield event.timeout.how, event.timeout.stopped_at


def cut_short(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Nobody is stopped by a limit before that time has passed since the attempt began."""
    for run_id, log in evidence.logs.items():
        begun_at: float | None = None
        for event in (event for stored in log for event in stored.commit.events):
            if isinstance(event, ExecutionStarted):
                begun_at = event.at
            elif isinstance(event, ExecutionFailed) and event.timeout is not None and begun_at is not None:
                passed_sec = event.timeout.reached_at - begun_at
                if passed_sec < event.timeout.limit_sec - SLACK_SEC:
                    yield run_id, f"stopped after {passed_sec:.2f} s by a limit of {event.timeout.limit_sec} s"


def misheard(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for heard in journal.watched:
        log = evidence.logs.get(heard.run_id, ())
        stored = {commit.sequence for commit in log}
        if any(later <= earlier for earlier, later in pairwise(heard.versions)):
            yield heard.run_id, f"a stream of {heard.gateway} told twice or went back: {heard.versions}"
        if unknown := [version for version in heard.versions if version not in stored]:
            yield heard.run_id, f"a stream of {heard.gateway} told of {unknown}, which the log does not have"
        if heard.how == "ended" and (not log or heard.status != run_status(final(heard.run_id, log))):
            yield heard.run_id, f"a stream of {heard.gateway} ended with {heard.status or 'nothing'}"
        if heard.how == "hung":
            yield heard.run_id, f"a stream of {heard.gateway} had no end; last heard: {heard.status or 'nothing'}"


CHECKS: Mapping[str, Check] = {
    "accepted runs that were lost": lost,
    "runs that are stuck": stuck,
    "terminal states that changed": changed,
    "reads that went back in time": went_back,
    "cancels that ended other than CANCELLED": uncancelled,
    "completions behind a cancel request": completed_after_cancel,
    "snapshots that differ from their log": unlike_their_log,
    "histories against the rules": illegal,
    "lists that differ from the snapshots": unlike_their_lists,
    "jobs left in the queue": left_in_queue,
    "executions that the log does not know": executed_unrecorded,
    "work that went on after its end": worked_on,
    "time limits that came too early": cut_short,
    "streams that told something else": misheard,
    "lines that were lost, repeated or mixed": misprinted,
    "wheels that were lost or came back": unlike_the_registry,
    "runs with other wheels than they say": ran_with_other_wheels,
    "workers without the latest wheels": behind_the_registry,
    "environments left behind": left_behind,
    **NODE_CHECKS,
}
# Found while it happens, by clients and killer, and written into the journal under these names.
SEEN_ON_THE_WAY = (
    "answers that were errors",
    "requests without an answer",
    "processes that ended by themselves",
    "processes that did not stop when asked",
    "worker ids in use twice",
    "orphan processes",
)
INVARIANTS = (*CHECKS, *SEEN_ON_THE_WAY)


def violations(evidence: Evidence, journal: Journal) -> list[Violation]:
    """Everything that was broken."""
    found = [
        Violation(broken=name, subject=subject, detail=detail)
        for name, check in CHECKS.items()
        for subject, detail in check(evidence, journal)
    ]
    faults = (Violation(broken=fault.broken, subject=fault.subject, detail=fault.detail) for fault in journal.faults)
    return [*found, *faults]


def _pairs(seen: Sequence[Seen]) -> Iterator[tuple[Seen, Seen]]:
    """Observations of which the first was over when the second was asked for."""
    for earlier in seen:
        for later in seen:
            if earlier.answered_at < later.asked_at:
                yield earlier, later


def _differences(execution: Execution, stored: Plain) -> Iterator[str]:
    expected = orjson.loads(orjson.dumps(to_snapshot(execution)))
    for key in sorted(expected.keys() | stored.keys()):
        if key != "heartbeat_at" and expected.get(key) != stored.get(key):
            yield f"{key} is {stored.get(key)!r}, the log says {expected.get(key)!r}"


def _was_undone(execution: Execution) -> bool:
    return execution.cancel is not None and execution.cancel.how is StopHow.SUBMIT_FAILED


def _fits(listed: Listed, plain: Plain) -> bool:
    asked = ((listed.flow, "flow_name"), (listed.tag, "tag"), (listed.status, "status"))
    return all(wanted in (None, plain[key]) for wanted, key in asked)


def _misordered(listed: Listed, expected: Mapping[str, Plain], ids: Sequence[str]) -> Iterator[str]:
    times = [item["updated_at"] for item in listed.items]
    if times != sorted(times, reverse=True):
        yield "not in the order of updated_at"
    newer = [
        run_id for run_id, plain in expected.items() if run_id not in ids and times and plain["updated_at"] > times[-1]
    ]
    if newer:
        yield f"left out, though newer than the last shown: {newer[:5]}"


def _some_of(plain: Plain) -> Plain:
    return {key: plain.get(key) for key in IN_A_LIST}
