"""What the metrics and the overview both show of the stored runs, gathered without a scan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.queries.histograms import Waiting
from pyoco_server.domain.queries.steps import StepKind
from pyoco_server.services.projections.lists import ListService

# Further tags are shown as one: each is a time series that a monitoring system has to keep.
MAX_TAGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The runs that a caller may see, and what all tenants share: `dead_letters` and `index_behind`.

    `waiting` has the deepest queues only.
    """

    counts: Mapping[str, int]
    waiting: Sequence[Waiting]
    nodes: Mapping[StepKind, int]
    dead_letters: int
    index_behind: int
    taken_at: float


async def run_figures(lists: ListService, *, tenant_filter: str | None) -> RunFigures:
    """The figures now; the broker gets two small requests, at the same time."""
    await lists.fresh()
    dead_letters, behind = await asyncio.gather(lists.stores.dead_letters.count(), lists.indexer.behind())
    return RunFigures(
        counts=lists.index.counts(tenant_filter),
        waiting=lists.index.waiting(tenant_filter, limit=MAX_TAGS),
        nodes=lists.index.steps_count(tenant_filter),
        dead_letters=dead_letters,
        index_behind=behind,
        taken_at=lists.stores.clock.now(),
    )
