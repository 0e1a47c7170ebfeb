"""What an operator wants to know at a glance, gathered from counters: it looks at no run and never scans.

Figures of runs come from this gateway's index, which follows all runs: every gateway shows the same. Figures of the
process are its own. Whoever sees one tenant only gets that tenant's runs, and no figure of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.steps import StepKind
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores
from pyoco_server.services.projections.indexer import Indexer

# More tags than this are shown as one: each is a series that somebody else has to keep.
MAX_TAGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """Of the runs a caller sees; `waiting` has the deepest queues only."""

    counts: Mapping[str, int]
    waiting: Sequence[Waiting]
    tallies: Tallies
    taken_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMetrics:
    """Of what all tenants share."""

    workers_alive: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMetrics:
    """Of this gateway alone."""

    nats_connected: bool
    append_conflicts: int
    index_caught_up: bool
    index_failures: int
    index_behind: int
    watchers: int
    claims_waiting: int
    nodes: Mapping[StepKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """One look; `process` is None for a caller who sees one tenant only."""

    runs: RunMetrics
    fleet: FleetMetrics
    process: ProcessMetrics | None


async def figures(
    stores: Stores,
    index: RunIndex,
    follower: Indexer,
    *,
    tenant_filter: str | None,
    workers_alive: int,
    watchers: int,
    claims_waiting: int,
) -> Metrics:
    """Look now; the broker is asked two small questions, at the same time."""
    letters, behind = await asyncio.gather(stores.dead_letters.count(), follower.behind())
    process = ProcessMetrics(
        nats_connected=stores.broker.connected,
        append_conflicts=stores.counters.append_conflicts,
        index_caught_up=follower.is_caught_up,
        index_failures=follower.failures,
        index_behind=behind,
        watchers=watchers,
        claims_waiting=claims_waiting,
        nodes=index.steps_count(),
    )
    return Metrics(
        runs=RunMetrics(
            counts=index.counts(tenant_filter),
            waiting=index.waiting(tenant_filter, limit=MAX_TAGS),
            tallies=index.tallies(tenant_filter),
            taken_at=stores.clock.now(),
        ),
        fleet=FleetMetrics(workers_alive=workers_alive, dead_letters=letters),
        process=process if tenant_filter is None else None,
    )
