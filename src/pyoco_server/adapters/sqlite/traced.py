"""The run index with a span for each query of a request; used only where traces are exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery
from pyoco_server.domain.queries.query import KnownRun, Listed, RunQuery, SearchPage
from pyoco_server.domain.queries.stats import Stats, StatsQuery
from pyoco_server.domain.queries.steps import WaitingNode, WaitQuery
from pyoco_server.tracing.spans import Span, child_span


class TracedRunIndex(SqliteRunIndex):
    def rows(self, query: RunQuery) -> Sequence[Listed]:
        with _span("rows"):
            return super().rows(query)

    def search(self, query: RunQuery) -> SearchPage:
        with _span("search"):
            return super().search(query)

    def count(self, query: RunQuery) -> int | None:
        with _span("count"):
            return super().count(query)

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        with _span("changed"):
            return super().changed(query, since=since, after=after, upto=upto)

    def jobs(self, query: JobQuery) -> JobPage:
        with _span("jobs"):
            return super().jobs(query)

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        with _span("labels"):
            return super().labels(query)

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        with _span("known"):
            return super().known(run_ids)

    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        with _span("counts"):
            return super().counts(tenant_id)

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        with _span("waiting"):
            return super().waiting(tenant_id, limit=limit)

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        with _span("tallies"):
            return super().tallies(tenant_id)

    def stats(self, query: StatsQuery) -> Stats:
        with _span("stats"):
            return super().stats(query)

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        with _span("waits"):
            return super().waits(query)


def _span(query: str) -> Span:
    return child_span(f"index {query}", {"db.system.name": "sqlite", "db.operation.name": query}, "client")
