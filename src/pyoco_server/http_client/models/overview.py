"""Answers about the present and the past of all runs. A newer gateway may send more fields than are listed here."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Queue(TypedDict):
    """A tag: the runs that wait for a worker of it, and its workers; those are None without `workers:read`."""

    tag: str
    pending: int
    oldest_since: float | None
    workers: int | None
    slots: int | None
    slots_free: int | None


class GatewayHealth(TypedDict):
    """Whether the gateway accepts runs, and why not."""

    status: Literal["ready", "unready"]
    reasons: list[dict[str, Any]]
    index_behind: int


class Overview(TypedDict):
    """The present; `runs` and `workers` are counts by status. Parts that no scope covers are None."""

    runs: dict[str, int]
    queues: list[Queue]
    workers: dict[str, int] | None
    waits: int
    dead_letters: int | None
    health: GatewayHealth
    durability: str
    retention_sec: float
    version: str
    taken_at: float


class RunTotals(TypedDict):
    """How many runs were submitted and ended, and percentiles of their times in seconds."""

    submitted: int
    completed: int
    failed: int
    cancelled: int
    queue_p50_sec: float | None
    queue_p95_sec: float | None
    run_p50_sec: float | None
    run_p95_sec: float | None


class StatsPoint(RunTotals):
    """An interval, which begins at `at`."""

    at: int


class Stats(TypedDict):
    """Intervals of `step_sec` from `since` to `until`; runs that ended before `kept_since` are removed."""

    since: int
    until: int
    step_sec: int
    points: list[StatsPoint]
    total: RunTotals
    retention_sec: float
    kept_since: float | None
    taken_at: float
