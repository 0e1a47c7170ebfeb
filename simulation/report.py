"""Formats the outcome as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pyoco_server.domain.execution.events import type_name
from simulation.batch import Total
from simulation.evidence import Log
from simulation.invariants import INVARIANTS, Violation
from simulation.play import Played

WIDTH = 46
SHOWN_SEEDS = 20
FIGURES = {
    "events": "events in their logs",
    "calls": "calls of a store and their returns",
    "faults": "of these failed",
    "steps": "steps of the event loop",
    "answers": "responses",
    "refusals": "rejections",
    "lost": "requests without a response",
    "crashes": "crashes of gateways",
}


def progress_line(total: Total) -> str:
    rate = total.interleavings / max(total.seconds, 1e-9)
    return f"{total.interleavings:,} interleavings, {rate:.0f}/s, {len(total.broken)} broken"


def to_plain(total: Total, first_seed: int) -> dict[str, Any]:
    return {
        "clean": total.is_clean,
        "first_seed": first_seed,
        "interleavings": total.interleavings,
        "seconds": total.seconds,
        "figures": dict(total.figures),
        "broken": [asdict(broken) for broken in total.broken],
    }


def to_text(total: Total, first_seed: int) -> str:
    return "\n".join((*_figures(total, first_seed), *_invariants(total), *_findings(total)))


def played_to_text(played: Played) -> str:
    """One interleaving: its trace, its logs and the violations."""
    return "\n".join((*played.trace, "", *_logs(played), "", *_verdict(played.seed, played.violations)))


def _figures(total: Total, first_seed: int) -> Iterator[str]:
    figures = total.figures
    ends = {name.removeprefix("ended "): number for name, number in figures.items() if name.startswith("ended ")}
    rate = total.interleavings / max(total.seconds, 1e-9)
    yield f"{total.interleavings:,} interleavings from seed {first_seed}, in {total.seconds:.0f} s ({rate:.0f}/s)"
    yield _row("executions, by their end", ", ".join(f"{name} {ends[name]:,}" for name in sorted(ends)))
    for name, words in FIGURES.items():
        yield _row(words, f"{figures[name]:,}")


def _invariants(total: Total) -> Iterator[str]:
    broken = Counter(name for one in total.broken for name in {violation.broken for violation in one.violations})
    yield "\nviolations, by interleavings"
    for name in INVARIANTS:
        yield _row(name, broken[name])


def _findings(total: Total) -> Iterator[str]:
    for broken in total.broken[:SHOWN_SEEDS]:
        yield f"\nseed {broken.seed}: scripts/simulate --replay {broken.seed}"
        for violation in broken.violations:
            yield f"  {violation.broken}: {violation.subject}: {violation.detail}"
    if len(total.broken) > SHOWN_SEEDS:
        yield f"\n… and {len(total.broken) - SHOWN_SEEDS} seeds more"
    yield "\nclean" if total.is_clean else f"\nBROKEN: {len(total.broken)} of {total.interleavings:,} interleavings"


def _logs(played: Played) -> Iterator[str]:
    for run_id, log in played.evidence.logs.items():
        yield f"log of {run_id}"
        yield from _log(log)


def _log(log: Log) -> Iterator[str]:
    for stored in log:
        events = ", ".join(_event(event) for event in stored.commit.events)
        key = stored.commit.idempotency_key or "-"
        yield f"  {stored.sequence:>4} {stored.commit.command} {key} {stored.commit.actor.id or '-'}: {events}"


def _event(event: Any) -> str:
    about = [str(getattr(event, name)) for name in ("node_id", "attempt", "worker_id") if getattr(event, name, None)]
    return " ".join((type_name(event), *about))


def _verdict(seed: int, violations: tuple[Violation, ...]) -> Iterator[str]:
    for violation in violations:
        yield f"{violation.broken}: {violation.subject}: {violation.detail}"
    yield "clean" if not violations else f"BROKEN: seed {seed}"


def _row(name: str, value: object) -> str:
    return f"  {name:<{WIDTH}} {value}"
