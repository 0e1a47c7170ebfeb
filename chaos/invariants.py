"""The invariants, each a function that yields its violations. Pure: evidence and journal in, violations out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson

from chaos.audit_invariants import AUDIT_CHECKS
from chaos.code_changes import code_mismatches
from chaos.evidence import LIST_LIMIT, Check, Evidence, Finding, Listed, Plain, Printed
from chaos.job_invariants import JOB_CHECKS
from chaos.journal import Journal, Seen
from chaos.node_invariants import NODE_CHECKS, is_node_execution
from chaos.recheck_invariants import RECHECK_CHECKS
from chaos.replay import rule_violations
from chaos.states import final, starts_of, states
from chaos.wheel_invariants import leftover_files, outdated_workers, registry_mismatches, wheel_mismatches
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

# Tolerance between a flow's own record and the matching event on a busy machine.
SLACK_SEC = 0.25
# Fields of a response that no snapshot has.
DERIVED = (*RUN_FACTS, "result", "result_truncated")
LIST_FIELDS = ("status", "version", "attempt", "flow_name", "tag", "worker_id", "updated_at", "end_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken invariant; `subject` is a run id if it concerns a run."""

    broken: str
    subject: str
    detail: str


def lost_runs(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id in (*journal.accepted, *journal.executions):
        if run_id not in evidence.logs:
            yield run_id, "accepted, but it has no events"
        for shown in evidence.shown.get(run_id, ()):
            if shown.body is None:
                yield run_id, f"accepted, but {shown.gateway} answers 404"


def stuck_runs(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        execution = final(run_id, log)
        if not execution.status.is_terminal:
            yield run_id, f"still {run_status(execution)} after the idle period"


def changed_terminal_states(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        ends = [run_status(execution) for execution in states(run_id, log) if execution.status.is_terminal]
        seen = [seen.status for seen in journal.seen.get(run_id, ()) if seen.status in TERMINAL_RUN_STATUSES]
        shown = [shown.body["status"] for shown in evidence.shown.get(run_id, ()) if shown.body is not None]
        terminal = [status for status in (*ends, *seen, *shown) if status in TERMINAL_RUN_STATUSES]
        if len(set(terminal)) > 1:
            yield run_id, f"log {ends}, seen {seen}, shown at the end {shown}"


def stale_reads(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, seen in journal.seen.items():
        for earlier, later in _pairs(seen):
            if later.version < earlier.version:
                yield run_id, f"version {earlier.version} ({earlier.status}), then {later.version} ({later.status})"


def unhonoured_cancels(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, seen in journal.seen.items():
        accepted = any(one.to_cancel and one.status == "CANCELLING" for one in seen)
        status = run_status(final(run_id, evidence.logs.get(run_id, ())))
        if accepted and status != "CANCELLED":
            yield run_id, f"a cancel was accepted (CANCELLING), but it ended {status}"


def completed_after_cancel(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        events = [event for stored in log for event in stored.commit.events]
        requested = [place for place, event in enumerate(events) if isinstance(event, ExecutionCancelRequested)]
        done = [place for place, event in enumerate(events) if isinstance(event, ExecutionCompleted)]
        if requested and done and done[-1] > requested[0]:
            yield run_id, "EXECUTION_COMPLETED follows EXECUTION_CANCEL_REQUESTED"


def snapshot_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        execution = final(run_id, log)
        stored = evidence.snapshots.get(run_id)
        if stored is not None:
            yield from ((run_id, difference) for difference in _differences(execution, stored))
        elif not _was_undone(execution):
            yield run_id, "log without a snapshot"
        for shown in evidence.shown.get(run_id, ()):
            if shown.body is None or stored is None:
                continue
            kept = {name: value for name, value in shown.body.items() if name not in DERIVED}
            if kept != public_view(stored, records=True):
                yield run_id, f"{shown.gateway} returns other content than the stored snapshot"
    for run_id in evidence.snapshots.keys() - evidence.logs.keys():
        yield run_id, "snapshot without a log"


def illegal_histories(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for run_id, log in evidence.logs.items():
        yield from ((run_id, detail) for detail in rule_violations(run_id, log))


def list_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for listed in evidence.lists:
        name = f"{listed.gateway} flow={listed.flow} tag={listed.tag} status={listed.status}"
        expected = {run_id: plain for run_id, plain in evidence.snapshots.items() if _fits(listed, plain)}
        ids = [item["run_id"] for item in listed.items]
        if len(ids) != min(len(expected), LIST_LIMIT) or len(set(ids)) != len(ids):
            missing = [run_id for run_id in expected if run_id not in ids]
            yield name, f"{len(ids)} items, {len(expected)} expected; missing: {missing[:5]}"
        for item in listed.items:
            plain = expected.get(item["run_id"])
            if plain is None:
                yield item["run_id"], f"{name} shows it as {item.get('status')}, which does not match the filter"
            elif any(item.get(key) != plain.get(key) for key in LIST_FIELDS):
                yield item["run_id"], f"{name} shows {item}, the snapshot has {_list_fields(plain)}"
        yield from ((name, wrong) for wrong in _misordered(listed, expected, ids))


def leftover_jobs(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for job in evidence.jobs:
        yield str(job.get("run_id")), "its job is still in the queue"


def unrecorded_executions(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A start is stored before the flow runs, and only a flow that reached its end completes a run."""
    for run_id in evidence.side_effects.keys() | evidence.logs.keys():
        log, lines = evidence.logs.get(run_id, ()), evidence.side_effects.get(run_id, ())
        begun = [line for line in lines if line.what == "begin"]
        starts = starts_of(log)
        if len(begun) > len(starts):
            yield run_id, f"executed {len(begun)} times, but started {len(starts)} times in the log"
        completed = run_status(final(run_id, log)) == "COMPLETED" and not is_node_execution(log)
        if completed and not any(line.what == "end" for line in lines):
            yield run_id, "COMPLETED, but the flow did not reach its end"


def work_after_stop(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A receipt with `cooperative` or `killed` confirms that the work has stopped, also after a time limit."""
    for run_id, log in evidence.logs.items():
        for how, stopped_at in (receipt for stored in log for receipt in _receipts(stored.commit.events)):
            if how not in (StopHow.COOPERATIVE, StopHow.KILLED):
                continue
            late = [line.at for line in evidence.side_effects.get(run_id, ()) if line.at > stopped_at + SLACK_SEC]
            # A superseded attempt may outlive the run; its reports are rejected.
            if late and len(starts_of(log)) == 1:
                yield run_id, f"stopped ({how.value}), but it continued for {max(late) - stopped_at:.2f} s"


def _receipts(events: Events) -> Iterator[tuple[StopHow | None, float]]:
    for event in events:
        if isinstance(event, ExecutionCanceled):
            yield event.how, event.stopped_at or event.at
        elif isinstance(event, ExecutionFailed) and event.timeout is not None:
            yield event.timeout.how, event.timeout.stopped_at


def early_timeouts(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """No attempt is stopped by a time limit before that time has passed since its start."""
    for run_id, log in evidence.logs.items():
        begun_at: float | None = None
        for event in (event for stored in log for event in stored.commit.events):
            if isinstance(event, ExecutionStarted):
                begun_at = event.at
            elif isinstance(event, ExecutionFailed) and event.timeout is not None and begun_at is not None:
                passed_sec = event.timeout.reached_at - begun_at
                if passed_sec < event.timeout.limit_sec - SLACK_SEC:
                    yield run_id, f"stopped after {passed_sec:.2f} s by a limit of {event.timeout.limit_sec} s"


def stream_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for watched in journal.watched:
        log = evidence.logs.get(watched.run_id, ())
        stored = {commit.sequence for commit in log}
        if any(later <= earlier for earlier, later in pairwise(watched.versions)):
            yield watched.run_id, f"a stream of {watched.gateway} repeated or reversed versions: {watched.versions}"
        if unknown := [version for version in watched.versions if version not in stored]:
            yield watched.run_id, f"a stream of {watched.gateway} delivered {unknown}, which the log does not contain"
        if watched.how == "ended" and (not log or watched.status != run_status(final(watched.run_id, log))):
            yield watched.run_id, f"a stream of {watched.gateway} ended with {watched.status or 'no status'}"
        if watched.how == "hung":
            yield watched.run_id, f"a stream of {watched.gateway} did not end; last status: {watched.status or 'none'}"


# Every flow numbers its lines from 1, with its pid, and records their count at its end.
def log_line_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Stored lines of an attempt start with the first, without gaps or duplicates; the completing attempt has all."""
    for run_id, lines in evidence.printed.items():
        if any(later.attempt < earlier.attempt for earlier, later in pairwise(lines)):
            yield run_id, "lines of an earlier attempt follow those of a later one"
        for attempt in sorted({line.attempt for line in lines}):
            texts = _stdout_lines(lines, attempt)
            if texts and texts != _expected_lines(_pid_of(texts[0]), len(texts)):
                yield run_id, f"attempt {attempt} printed {texts}"
        execution = final(run_id, evidence.logs.get(run_id, ()))
        if run_status(execution) != "COMPLETED":
            continue
        ended = [line for line in evidence.side_effects.get(run_id, ()) if line.what == "end" and line.detail]
        texts = _stdout_lines(lines, execution.attempt)
        if texts not in [_expected_lines(str(line.pid), int(line.detail)) for line in ended]:
            counts = [(line.pid, int(line.detail)) for line in ended]
            yield run_id, f"completed by attempt {execution.attempt}, which has {texts}; processes and lines: {counts}"


CHECKS: Mapping[str, Check] = {
    "accepted runs that were lost": lost_runs,
    "runs that are stuck": stuck_runs,
    "terminal states that changed": changed_terminal_states,
    "reads that went back in time": stale_reads,
    "cancels that ended other than CANCELLED": unhonoured_cancels,
    "completions after a cancel request": completed_after_cancel,
    "snapshots that differ from their log": snapshot_mismatches,
    "histories that violate the rules": illegal_histories,
    "lists that differ from the snapshots": list_mismatches,
    "jobs left in the queue": leftover_jobs,
    "executions missing from the log": unrecorded_executions,
    "work that continued after its end": work_after_stop,
    "time limits that came too early": early_timeouts,
    "streams that delivered other content": stream_mismatches,
    "log lines lost, repeated or reordered": log_line_mismatches,
    "wheels that were lost or came back": registry_mismatches,
    "runs with other wheels than recorded": wheel_mismatches,
    "workers without the latest wheels": outdated_workers,
    "environments left behind": leftover_files,
    "runs that mixed versions of their code": code_mismatches,
    **JOB_CHECKS,
    **NODE_CHECKS,
    **RECHECK_CHECKS,
    **AUDIT_CHECKS,
}
# Detected during the run by clients and killer, and recorded in the journal under these names.
RECORDED_DURING_RUN = (
    "error responses",
    "requests without a response",
    "processes that exited unexpectedly",
    "processes that did not stop on SIGTERM",
    "worker ids in use twice",
    "orphan processes",
)
INVARIANTS = (*CHECKS, *RECORDED_DURING_RUN)


def violations(evidence: Evidence, journal: Journal) -> list[Violation]:
    """All violations."""
    found = [
        Violation(broken=name, subject=subject, detail=detail)
        for name, check in CHECKS.items()
        for subject, detail in check(evidence, journal)
    ]
    faults = (Violation(broken=fault.broken, subject=fault.subject, detail=fault.detail) for fault in journal.faults)
    return [*found, *faults]


def _pairs(seen: Sequence[Seen]) -> Iterator[tuple[Seen, Seen]]:
    """Observations of which the first was complete before the second was requested."""
    for earlier in seen:
        for later in seen:
            if earlier.answered_at < later.asked_at:
                yield earlier, later


def _differences(execution: Execution, stored: Plain) -> Iterator[str]:
    expected = orjson.loads(orjson.dumps(to_snapshot(execution)))
    for key in sorted(expected.keys() | stored.keys()):
        if key != "heartbeat_at" and expected.get(key) != stored.get(key):
            yield f"{key} is {stored.get(key)!r}, the log has {expected.get(key)!r}"


def _was_undone(execution: Execution) -> bool:
    return execution.cancel is not None and execution.cancel.how is StopHow.SUBMIT_FAILED


def _fits(listed: Listed, plain: Plain) -> bool:
    filters = ((listed.flow, "flow_name"), (listed.tag, "tag"), (listed.status, "status"))
    return plain.get("archived_at") is None and all(wanted in (None, plain[key]) for wanted, key in filters)


def _misordered(listed: Listed, expected: Mapping[str, Plain], ids: Sequence[str]) -> Iterator[str]:
    times = [item["updated_at"] for item in listed.items]
    if times != sorted(times, reverse=True):
        yield "not in the order of updated_at"
    newer = [
        run_id for run_id, plain in expected.items() if run_id not in ids and times and plain["updated_at"] > times[-1]
    ]
    if newer:
        yield f"missing, though newer than the last item: {newer[:5]}"


def _list_fields(plain: Plain) -> Plain:
    return {key: plain.get(key) for key in LIST_FIELDS}


def _stdout_lines(lines: Sequence[Printed], attempt: int) -> list[str]:
    return [line.text for line in lines if line.attempt == attempt and line.stream == "stdout"]


def _expected_lines(process: str, count: int) -> list[str]:
    return [f"line {process} {number}" for number in range(1, count + 1)]


def _pid_of(text: str) -> str:
    return text.split()[1] if len(text.split()) == 3 else ""
