"""Formats the outcome as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chaos.evidence import Evidence
from chaos.invariants import INVARIANTS, Violation
from chaos.journal import Journal
from chaos.metrics import Spread, Statistics
from chaos.plan import Plan

WIDTH = 46
SHOWN_RUNS = 10
SHOWN_DETAILS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run."""

    plan: Plan
    evidence: Evidence
    journal: Journal
    figures: Statistics
    violations: Sequence[Violation]
    settled_after_sec: float | None

    @property
    def is_clean(self) -> bool:
        return not self.violations


def to_plain(outcome: Outcome) -> dict[str, Any]:
    broken = Counter(violation.broken for violation in outcome.violations)
    return {
        "clean": outcome.is_clean,
        "plan": outcome.plan.to_plain(),
        "invariants": {name: broken[name] for name in INVARIANTS},
        "settled_after_sec": outcome.settled_after_sec,
        "figures": asdict(outcome.figures),
        "violations": [asdict(violation) for violation in outcome.violations],
    }


def to_text(outcome: Outcome) -> str:
    return "\n".join(
        (*_heading(outcome.plan), *_figures(outcome), *_invariants(outcome), *_details(outcome), *_verdict(outcome))
    )


def _heading(plan: Plan) -> Iterator[str]:
    yield (
        f"chaos: {plan.seconds:g} s, seed {plan.seed}, a kill every {plan.kill_every_sec:g} s of "
        f"{', '.join(plan.kinds)}; {plan.gateways} gateways, {plan.workers} workers, nats sync {plan.sync}"
    )


def _figures(outcome: Outcome) -> Iterator[str]:
    figures = outcome.figures
    yield "\nstatistics"
    yield _row("runs accepted", figures.accepted)
    yield _row("runs in the log, by final status", _counts(figures.ended))
    yield _row("  not confirmed to the client (503 or cut)", f"{figures.not_promised} ({figures.undone} undone)")
    yield _row("cancelled runs, by method", _counts(figures.cancelled_how))
    yield _row("kills", _counts(figures.kills))
    yield _row("starts delayed by a missing broker", _counts(figures.restarts))
    yield _row("streams followed", _counts(figures.watched))
    yield _row("logs of jobs followed", _counts(figures.followed))
    yield _row("runs started more than once (log)", f"{figures.started_again} (at most {figures.most_attempts} times)")
    yield _row("runs executed more than once (side effects)", figures.executed_again)
    yield _row("runs executed after their end", figures.executed_after_end)
    yield _row("executions in the log, by final status", _counts(figures.executions))
    yield _row("rechecks in the log, by final status", _counts(figures.rechecks))
    yield _row("runs of their batches, by final status", _counts(figures.batches))
    yield _row("commands with a key", _counts(figures.commands))
    yield _row("nodes taken over", figures.nodes_taken_over)
    yield _row("node failures, by code", _counts(figures.nodes_given_up))
    for name, count in figures.answers.items():
        yield _row(f"  {name}", count)
    settled = outcome.settled_after_sec
    yield _row("idle after", "not in time" if settled is None else f"{settled:.1f} s")
    yield "\nrecovery after a kill                           count   median      max"
    for kind, spread in figures.until_submit.items():
        yield _spread(f"{kind}: next submit accepted", spread)
    for kind, spread in figures.until_end.items():
        yield _spread(f"{kind}: next run ended", spread)
    yield _spread("worker: a run it held was taken over or ended", figures.until_taken_over)


def _invariants(outcome: Outcome) -> Iterator[str]:
    broken = Counter(violation.broken for violation in outcome.violations)
    yield "\nviolations"
    for name in INVARIANTS:
        yield _row(name, broken[name] if not broken[name] else f"{broken[name]}   <──")


def _details(outcome: Outcome) -> Iterator[str]:
    by_subject: dict[str, list[Violation]] = {}
    for violation in outcome.violations:
        by_subject.setdefault(violation.subject, []).append(violation)
    for subject, found in list(by_subject.items())[:SHOWN_RUNS]:
        yield f"\n{subject}"
        for violation in found[:SHOWN_DETAILS]:
            yield f"  {violation.broken}: {violation.detail}"
        yield from _history(outcome, subject)
    if len(by_subject) > SHOWN_RUNS:
        yield f"\n… and {len(by_subject) - SHOWN_RUNS} more (all are in the JSON)"


def _history(outcome: Outcome, run_id: str) -> Iterator[str]:
    """The history of a run in order of time."""
    entries: list[tuple[float, str]] = []
    for stored in outcome.evidence.logs.get(run_id, ()):
        commit = stored.commit
        entries.append(
            (commit.occurred_at, f"#{stored.sequence} {commit.command} by {commit.actor.kind} {commit.actor.id or ''}")
        )
        entries += [(commit.occurred_at, f"    {event}"[:300]) for event in commit.events]
    for seen in outcome.journal.seen.get(run_id, ()):
        what = "cancel answered" if seen.to_cancel else "read"
        entries.append((seen.answered_at, f"{what}: {seen.status}, version {seen.version}"))
    for line in outcome.evidence.side_effects.get(run_id, ()):
        if line.what != "tick":
            entries.append((line.at, f"side effect: {line.what} in process {line.pid}"))
    accepted = outcome.journal.accepted.get(run_id)
    if accepted is not None:
        entries.append((accepted.answered_at, f"accepted by {accepted.gateway}"))
    if not entries:
        return
    first, last = min(entries)[0], max(entries)[0]
    near = (kill for kill in outcome.journal.kills if first - 5 < kill.at < last + 5)
    entries += [(kill.at, f"kill of {kill.kind} {kill.target} ({kill.pid})") for kill in near]
    for at, text in sorted(entries, key=lambda item: item[0]):
        yield f"    {at - first:+8.3f}  {text}"
    snapshot = outcome.evidence.snapshots.get(run_id)
    yield f"    snapshot: {dict(snapshot) if snapshot else None}"[:1000]


def _verdict(outcome: Outcome) -> Iterator[str]:
    if outcome.is_clean:
        yield "\nno violations"
    else:
        yield f"\n{len(outcome.violations)} violations; repeat with: scripts/chaos --seed {outcome.plan.seed}"


def _row(name: str, value: object) -> str:
    return f"  {name:<{WIDTH}}{value}"


def _spread(name: str, spread: Spread) -> str:
    if spread.median_sec is None or spread.max_sec is None:
        return _row(name, f"{0:>5}")
    return _row(name, f"{spread.count:>5}  {spread.median_sec:>6.2f} s  {spread.max_sec:>6.2f} s")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
