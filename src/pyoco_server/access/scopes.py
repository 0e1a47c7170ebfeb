"""What a caller may be allowed to do. A scope holds for a thing in whatever dialect it is spoken of."""

from __future__ import annotations

from enum import Enum


class Scope(Enum):
    """One permission; `admin` is all of them, for every tenant."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    RUNS_CANCEL = "runs:cancel"
    WORKERS_READ = "workers:read"
    WORKERS_WRITE = "workers:write"
    WHEELS_READ = "wheels:read"
    WHEELS_WRITE = "wheels:write"
    DLQ_READ = "dlq:read"
    DLQ_WRITE = "dlq:write"
    GRAPHS_WRITE = "graphs:write"
    NODES_WORK = "nodes:work"
    METRICS_READ = "metrics:read"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)
