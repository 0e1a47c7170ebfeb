"""Statistics of a run: requests, faults, repetitions and recovery times. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaos.evidence import Evidence
from chaos.journal import Journal, Kill
from chaos.node_invariants import is_node_execution
from chaos.states import final, starts_of
from pyoco_server.domain.execution.events import (
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionStarted,
    NodeFailed,
    NodeStarted,
    StoredCommit,
)
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, StopHow, Work
from pyoco_server.domain.pdca.recheck import BATCH_FLOW, REQUEST_FLOW

ENDS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Count, median and maximum of durations; None without any."""

    count: int
    median_sec: float | None
    max_sec: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        if not seconds:
            return cls(count=0, median_sec=None, max_sec=None)
        return cls(count=len(seconds), median_sec=round(median(seconds), 3), max_sec=round(max(seconds), 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of one run."""

    accepted: int
    ended: Mapping[str, int]
    executions: Mapping[str, int]
    rechecks: Mapping[str, int]
    batches: Mapping[str, int]
    commands: Mapping[str, int]
    nodes_taken_over: int
    nodes_given_up: Mapping[str, int]
    watched: Mapping[str, int]
    followed: Mapping[str, int]
    answers: Mapping[str, int]
    kills: Mapping[str, int]
    restarts: Mapping[str, int]
    started_again: int
    most_attempts: int
    executed_again: int
    executed_after_end: int
    not_promised: int
    undone: int
    cancelled_how: Mapping[str, int]
    until_submit: Mapping[str, Spread]
    until_end: Mapping[str, Spread]
    until_taken_over: Spread


def statistics(evidence: Evidence, journal: Journal) -> Statistics:
    """Computes all statistics."""
    finals = {run_id: final(run_id, log) for run_id, log in evidence.logs.items()}
    attempts = [len(starts_of(log)) for log in evidence.logs.values()]
    hows = [execution.cancel.how for execution in finals.values() if execution.cancel and execution.cancel.how]
    begun = [
        sum(line.what == "begin" for line in lines)
        for run_id, lines in evidence.side_effects.items()
        if run_id in finals
    ]

    def others(chosen: Callable[[Execution], bool]) -> list[Execution]:
        pdca = (REQUEST_FLOW, BATCH_FLOW)
        return [one for one in finals.values() if chosen(one) and one.request.flow_name not in pdca]

    return Statistics(
        accepted=len(journal.accepted),
        ended=dict(Counter(map(run_status, others(lambda execution: not _has_node_work(execution))))),
        executions=dict(Counter(execution.status.value for execution in others(_has_node_work))),
        rechecks=dict(Counter(run_status(one) for one in finals.values() if one.request.flow_name == REQUEST_FLOW)),
        batches=dict(Counter(run_status(one) for one in finals.values() if one.request.flow_name == BATCH_FLOW)),
        commands=_commands(journal),
        nodes_taken_over=sum(event.attempt > 1 for event in _node_starts(evidence)),
        nodes_given_up=dict(Counter(_node_failures(evidence))),
        watched=dict(Counter(watched.how for watched in journal.watched)),
        followed=dict(Counter(f"{one.by} {one.how}" for one in journal.followed)),
        answers=dict(sorted(journal.answers.items())),
        kills=dict(Counter(kill.kind for kill in journal.kills)),
        restarts=dict(journal.restarts),
        started_again=sum(count > 1 for count in attempts),
        most_attempts=max(attempts, default=0),
        executed_again=sum(count > 1 for count in begun),
        executed_after_end=sum(_began_after_end(evidence, run_id) for run_id in evidence.side_effects),
        not_promised=len(
            {one.execution_id for one in others(lambda _: True)} - journal.accepted.keys() - set(journal.executions)
        ),
        undone=sum(how is StopHow.SUBMIT_FAILED for how in hows),
        cancelled_how=dict(Counter(how.value for how in hows)),
        until_submit=_by_kind(journal.kills, lambda kill: _until_submit(kill, journal)),
        until_end=_by_kind(journal.kills, lambda kill: _until_end(kill, evidence)),
        until_taken_over=Spread.of([s for kill in journal.kills for s in _until_taken_over(kill, evidence)]),
    )


def _has_node_work(execution: Execution) -> bool:
    return execution.request.work is Work.NODES


def _commands(journal: Journal) -> dict[str, int]:
    """Commands by outcome; the first response to a key counts."""
    first = {one.key: one.is_done for one in reversed(journal.responses)}
    done = sum(first.values())
    again = sum(one.replayed for one in journal.responses)
    return {"accepted": done, "refused": len(first) - done, "answered again": again}


def _node_starts(evidence: Evidence) -> Iterator[NodeStarted]:
    for log in evidence.logs.values():
        if is_node_execution(log):
            yield from (e for stored in log for e in stored.commit.events if isinstance(e, NodeStarted))


def _node_failures(evidence: Evidence) -> Iterator[str]:
    for log in evidence.logs.values():
        if is_node_execution(log):
            yield from (e.error.code for stored in log for e in stored.commit.events if isinstance(e, NodeFailed))


def _by_kind(kills: Iterable[Kill], measure: Callable[[Kill], float | None]) -> dict[str, Spread]:
    found: dict[str, list[float]] = {}
    for kill in kills:
        seconds = measure(kill)
        if seconds is not None:
            found.setdefault(kill.kind, []).append(seconds)
    return {kind: Spread.of(seconds) for kind, seconds in sorted(found.items())}


def _until_submit(kill: Kill, journal: Journal) -> float | None:
    """Time until a submit sent after the kill was accepted; for a gateway: by that gateway."""
    wanted = (
        run.answered_at - kill.at
        for run in journal.accepted.values()
        if run.asked_at > kill.at and (not kill.kind.startswith("gateway") or run.gateway == kill.target)
    )
    return min(wanted, default=None)


def _until_end(kill: Kill, evidence: Evidence) -> float | None:
    """Time until the next end of a run was stored."""
    ends = (
        evidence.stored_at[stored.sequence]
        for log in evidence.logs.values()
        for stored in log
        if any(isinstance(event, ENDS) for event in stored.commit.events)
    )
    return min((at - kill.at for at in ends if at > kill.at), default=None)


def _until_taken_over(kill: Kill, evidence: Evidence) -> Iterator[float]:
    """Time until each run of a killed worker was taken over or ended."""
    if kill.kind not in ("worker", "installing"):
        return
    for log in evidence.logs.values():
        events = [
            event for stored in log for event in stored.commit.events if isinstance(event, (ExecutionStarted, *ENDS))
        ]
        for event, following in pairwise(events):
            held = isinstance(event, ExecutionStarted) and event.worker_id == kill.target
            if held and event.at < kill.at < following.at:
                yield following.at - kill.at


def _ends(log: Sequence[StoredCommit]) -> Iterator[float]:
    return (event.at for stored in log for event in stored.commit.events if isinstance(event, ENDS))


def _began_after_end(evidence: Evidence, run_id: str) -> bool:
    end = min(_ends(evidence.logs.get(run_id, ())), default=None)
    return end is not None and any(line.what == "begin" and line.at > end for line in evidence.side_effects[run_id])
