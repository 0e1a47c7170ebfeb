"""Figures about the last runs of a flow: counts by status, and how long the completed ones took. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# How many runs are named, the others only count.
NAMED = 10


class NamedRun(NamedTuple):
    """A run and its status."""

    run_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The runs that count, by status; times of the completed ones from start to end, without the queue.

    `last` are the first ones in the given order.
    """

    runs: int
    statuses: Mapping[str, int]
    last_submitted_at: float | None
    median_sec: float | None
    p95_sec: float | None
    last: Sequence[NamedRun]


def recent(summaries: Iterable[Mapping[str, Any]]) -> Recent:
    """The figures of these summaries of runs; what a summary lacks does not count."""
    found = list(summaries)
    submitted = [at for one in found if isinstance(at := one.get("submitted_at"), int | float)]
    taken = sorted(
        max(0.0, end - start)
        for one in found
        if one.get("status") == "COMPLETED"
        and isinstance(start := one.get("start_time"), int | float)
        and isinstance(end := one.get("end_time"), int | float)
    )
    return Recent(
        runs=len(found),
        statuses=dict(Counter(str(one.get("status")) for one in found).most_common()),
        last_submitted_at=max(submitted, default=None),
        median_sec=_quantile(taken, 50),
        p95_sec=_quantile(taken, 95),
        last=[NamedRun(str(one.get("run_id")), str(one.get("status"))) for one in found[:NAMED]],
    )


def _quantile(ordered: Sequence[float], percent: int) -> float | None:
    """The least value that so many percent do not exceed (nearest rank): a time that was measured."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None
