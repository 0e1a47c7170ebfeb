"""Time series of the stored runs: how many were submitted and ended, how long they waited and ran. Pure.

A run counts in the minute of its submission; with its wait in that of its start; with its outcome and its duration in
that of its end. It counts as long as it is stored. So the figures are a function of the rows, and a rebuilt index has
those of a grown one.

Durations are counted in buckets, each a fourth root of two (19 %) wider than the one before. A quantile is the middle
of the bucket of its rank: less than 10 % beside the duration of that rank, from a millisecond to ten days.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

MINUTE, HOUR, DAY = 60, 3600, 86_400
# Every one divides a day, so that its intervals begin at the same times whatever the window.
STEPS_SEC = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY)
# Counters are kept by the minute and by the hour; a longer window is added up from hours.
LONGEST_BY_MINUTE = DAY
MAX_WINDOW_SEC = 31 * DAY
MAX_POINTS = 500
# The latest time that counts, in the year 5138: a snapshot of foreign origin may hold any number.
_LATEST = 1e11

_PER_OCTAVE = 4
_SHORTEST_SEC = 0.001
BUCKETS = 120

# The counters of an interval: four counts, then the buckets of both durations in turn. So the many counters of long
# durations, which are zero, are at the end.
SUBMITTED = 0
OUTCOMES = {"COMPLETED": 1, "FAILED": 2, "CANCELLED": 3}
_WAITED, _RAN = 4, 5
COUNTERS = 4 + 2 * BUCKETS

Counters = Sequence[int]
"""All `COUNTERS` of an interval."""


def _middle(bucket: int) -> float:
    """The duration that stands for a bucket: as many times its least one as its greatest is of it."""
    return _SHORTEST_SEC if bucket == 0 else float(f"{_SHORTEST_SEC * 2 ** ((bucket - 0.5) / _PER_OCTAVE):.4g}")


_BOUNDS = tuple(_SHORTEST_SEC * 2 ** (bucket / _PER_OCTAVE) for bucket in range(BUCKETS - 1))
_MIDDLES = tuple(map(_middle, range(BUCKETS)))


class RunTimes(NamedTuple):
    """What decides where a run counts. `ended_at` is that of retention, which every finished run has."""

    status: str
    submitted_at: float
    started_at: float | None
    finished_at: float | None
    ended_at: float | None


Counted = tuple[int, int]
"""A minute, by its first second, and a counter of it."""


def counted(run: RunTimes) -> list[Counted]:
    """Where a run counts, each once."""
    status, submitted_at, started_at, finished_at, ended_at = run
    found = []
    if 0 <= submitted_at < _LATEST:
        found.append((_minute(submitted_at), SUBMITTED))
    if started_at is not None and 0 <= started_at < _LATEST:
        found.append((_minute(started_at), _WAITED + 2 * bucket_of(started_at - submitted_at)))
    if ended_at is not None and 0 <= ended_at < _LATEST and status in OUTCOMES:
        minute = _minute(ended_at)
        found.append((minute, OUTCOMES[status]))
        if started_at is not None and finished_at is not None:
            found.append((minute, _RAN + 2 * bucket_of(finished_at - started_at)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsQuery:
    """Which runs and intervals: whole ones of `step_sec` from `since` to before `until`. None means any."""

    since: int
    until: int
    step_sec: int
    tenant_id: str | None = None
    flow: str | None = None
    tag: str | None = None

    def covers(self, tenant_id: str, flow: str, tag: str, minute: int) -> bool:
        return (
            self.since <= minute < self.until
            and self.tenant_id in (None, tenant_id)
            and self.flow in (None, flow)
            and self.tag in (None, tag)
        )

    def start_of(self, minute: int) -> int:
        """The beginning of its interval."""
        return minute // self.step_sec * self.step_sec


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counters by the beginning of an interval, without the empty ones, and those of all together."""

    points: Mapping[int, Counters]
    total: Counters


class Figures(NamedTuple):
    """What is shown of counters; a quantile is None where nothing was counted."""

    submitted: int
    completed: int
    failed: int
    cancelled: int
    queue_p50_sec: float | None
    queue_p95_sec: float | None
    run_p50_sec: float | None
    run_p95_sec: float | None


NO_RUNS = Figures(0, 0, 0, 0, None, None, None, None)


def steps_of(since: float, until: float, points: int) -> tuple[int, int, int]:
    """The whole intervals that cover the window: their beginning, their end and their step.

    The shortest step of which `points` are as long as the window: one interval more where it begins within one.
    """
    window = until - since
    longest = STEPS_SEC[-1]
    fits = (step for step in STEPS_SEC if window <= points * step and (step >= HOUR or window <= LONGEST_BY_MINUTE))
    step = next(fits, longest)
    return int(since // step) * step, -int(-until // step) * step, step


def figures(counters: Counters) -> Figures:
    waited, ran = counters[_WAITED::2], counters[_RAN::2]
    submitted, completed, failed, cancelled = counters[:4]
    return Figures(submitted, completed, failed, cancelled, *_quantiles(waited), *_quantiles(ran))


def bucket_of(seconds: float) -> int:
    """The index of the first bucket that is as wide; the last one has all that are longer."""
    return bisect_left(_BOUNDS, seconds)


def _quantiles(buckets: Counters) -> tuple[float | None, float | None]:
    """The 50th and the 95th percentile by nearest rank."""
    ranks = list(accumulate(buckets))
    if not ranks[-1]:
        return None, None
    p50, p95 = (_MIDDLES[bisect_left(ranks, -(-ranks[-1] * percent // 100))] for percent in (50, 95))
    return p50, p95


def _minute(at: float) -> int:
    return int(at) // MINUTE * MINUTE
