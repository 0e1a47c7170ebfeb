"""What an operator wants to know at a glance, gathered from counters: it looks at no run and never scans.

Figures of runs come from this gateway's index, which follows all runs: every gateway shows the same. Figures of the
process are its own. Whoever sees one tenant only gets that tenant's runs, and no figure of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.application.indexing import IndexFollower
from pyoco_server.application.ports import RunIndex
from pyoco_server.application.stores import Stores
from pyoco_server.readmodel.steps import StepKind
from pyoco_server.readmodel.tallies import Tallies, Waiting

# More tags than this are shown as one: each is a series that somebody else has to keep.
MAX_TAGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Of the runs a caller sees; `waiting` has the deepest queues only."""

    counts: Mapping[str, int]
    waiting: Sequence[Waiting]
    tallies: Tallies
    taken_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """Of what all tenants share."""

    workers_alive: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
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
class Figures:
    """One look; `process` is None for a caller who sees one tenant only."""

    runs: RunFigures
    fleet: FleetFigures
    process: ProcessFigures | None


async def figures(
    stores: Stores,
    index: RunIndex,
    follower: IndexFollower,
    *,
    sees: str | None,
    workers_alive: int,
    watchers: int,
    claims_waiting: int,
) -> Figures:
    """Look now; the broker is asked two small questions, at the same time."""
    letters, behind = await asyncio.gather(stores.dead_letters.count(), follower.behind())
    process = ProcessFigures(
        nats_connected=stores.broker.connected,
        append_conflicts=stores.happened.append_conflicts,
        index_caught_up=follower.is_caught_up,
        index_failures=follower.failures,
        index_behind=behind,
        watchers=watchers,
        claims_waiting=claims_waiting,
        nodes=index.steps_count(),
    )
    return Figures(
        runs=RunFigures(
            counts=index.counts(sees),
            waiting=index.waiting(sees, limit=MAX_TAGS),
            tallies=index.tallies(sees),
            taken_at=stores.clock.now(),
        ),
        fleet=FleetFigures(workers_alive=workers_alive, dead_letters=letters),
        process=process if sees is None else None,
    )
