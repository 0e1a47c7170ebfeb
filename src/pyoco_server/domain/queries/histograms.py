"""Counters and histograms of runs: how many were submitted and ended, how long they waited, ran and took to stop.

A counter counts transitions (submitted, started, ended), each when first seen, and never decreases: removing a run does
not undo it. A missed state is not lost, because a later state implies the earlier transitions; a repeated state adds
nothing, because the stored row has made those transitions already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES

# Upper bounds in seconds: from a task of milliseconds to a run of a day. The last bucket has none.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
# The most that one observation may add to a sum: an absurd time in one snapshot must not dominate it.
LONGEST_SEC = 1e9


class HistogramDelta(Enum):
    """What is counted; the values are stored. Counters without a duration use only their first bucket."""

    SUBMITTED = "submitted"
    WAITED = "waited"
    RAN = "ran"
    FINISHED = "finished"
    STOPPED = "stopped"


class Times(NamedTuple):
    """The times in a run's snapshot; `how` is from the receipt of its cancel."""

    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    cancel_requested_at: float | None = None
    stopped_at: float | None = None
    how: str = ""


class Waiting(NamedTuple):
    """Pending runs of a tag, and when the longest waiting one last changed."""

    tag: str
    runs: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many observations fell into each bucket (not added up), and the sum of their seconds."""

    counts: tuple[int, ...]
    seconds: float

    @property
    def total(self) -> int:
        return sum(self.counts)


NOTHING = Histogram(counts=(0,) * (len(BOUNDS) + 1), seconds=0.0)

Observation = tuple[HistogramDelta, str, float]
Key = tuple[HistogramDelta, str]
Tallies = Mapping[Key, Histogram]


def news(status: str, times: Times, *, before: str | None) -> Iterator[Observation]:
    """The transitions of a run since its status was `before` (None: unknown), each with its seconds."""
    if before is None:
        yield HistogramDelta.SUBMITTED, "", 0.0
    if before in (None, "PENDING") and status != "PENDING":
        yield from _took(HistogramDelta.WAITED, "", times.submitted_at, times.started_at)
    if status in TERMINAL_RUN_STATUSES and before not in TERMINAL_RUN_STATUSES:
        yield HistogramDelta.FINISHED, status, 0.0
        yield from _took(HistogramDelta.RAN, status, times.started_at, times.ended_at)
        if status == "CANCELLED":
            yield from _took(HistogramDelta.STOPPED, times.how, times.cancel_requested_at, times.stopped_at)


def bucket_of(seconds: float) -> int:
    """The index of the first bound that is not below."""
    return bisect_left(BOUNDS, seconds)


def gathered(cells: Iterable[tuple[str, str, int, int, float]]) -> Tallies:
    """Histograms from stored counters: (tally, label, bucket, runs, seconds)."""
    counts: dict[Key, list[int]] = {}
    sums: dict[Key, float] = {}
    for tally, label, bucket, runs, seconds in cells:
        key = (HistogramDelta(tally), label)
        counts.setdefault(key, [0] * (len(BOUNDS) + 1))[bucket] += runs
        sums[key] = sums.get(key, 0.0) + seconds
    return {key: Histogram(counts=tuple(found), seconds=sums[key]) for key, found in counts.items()}


def _took(tally: HistogramDelta, label: str, began: float | None, ended: float | None) -> Iterator[Observation]:
    if began is not None and ended is not None:
        seconds = ended - began
        # Clocks may disagree about the order, and a foreign snapshot may hold anything.
        yield tally, label, min(seconds, LONGEST_SEC) if seconds > 0 else 0.0
