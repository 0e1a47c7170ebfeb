"""Metrics, gathered from counters without a scan.

Metrics of runs come from this gateway's index, which has all runs: every gateway shows the same. Metrics of the process
are its own. A caller of one tenant gets that tenant's runs, and no metric of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyoco_server.domain.queries.histograms import Tallies
from pyoco_server.domain.rate_limits import LimitClass
from pyoco_server.services.claims.claim_queue import ClaimQueue
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.projections.lists import ListService
from pyoco_server.services.projections.run_figures import RunFigures, run_figures
from pyoco_server.services.rate_limiter import RateLimiter
from pyoco_server.services.streaming.topics import RunTopics


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """One scrape: the runs that a caller may see, what all tenants share, and for operators the process.

    `process` has values by metric name; it is None for a caller of one tenant.
    `rate_limited` has the classes with a limit. `airflow_requests` are counted by endpoint and outcome;
    `airflow_circuit` is empty where no Airflow is configured.
    """

    runs: RunFigures
    tallies: Tallies
    workers_alive: int
    process: Mapping[str, float] | None
    rate_limited: Mapping[LimitClass, int]
    airflow_requests: Mapping[tuple[str, str], int]
    airflow_circuit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsService:
    """Gathers the metrics of one gateway."""

    lists: ListService
    fleet: FleetView
    topics: RunTopics
    claims: ClaimQueue
    rate_limiter: RateLimiter

    async def gather(self, *, tenant_filter: str | None) -> Metrics:
        figures = await run_figures(self.lists, tenant_filter=tenant_filter)
        stores, indexer = self.lists.stores, self.lists.indexer
        process = {
            "pyoco_nats_connected": stores.broker.connected,
            "pyoco_append_conflicts_total": stores.counters.append_conflicts,
            "pyoco_stale_lists_total": stores.counters.stale_lists,
            "pyoco_index_caught_up": indexer.is_caught_up,
            "pyoco_index_failures_total": indexer.failures,
            "pyoco_index_behind": figures.index_behind,
            "pyoco_runs_with_lost_events": stores.counters.runs_with_lost_events,
            "pyoco_lost_event_bytes": stores.counters.lost_event_bytes,
            "pyoco_watchers": self.topics.open_count,
            "pyoco_claims_waiting": self.claims.waiting,
        }
        return Metrics(
            runs=figures,
            tallies=self.lists.index.tallies(tenant_filter),
            workers_alive=self.fleet.alive(),
            process=process if tenant_filter is None else None,
            rate_limited=self.rate_limiter.refused,
            airflow_requests=stores.counters.airflow_requests,
            airflow_circuit=stores.counters.airflow_circuit,
        )
