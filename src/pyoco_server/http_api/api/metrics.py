"""`GET /metrics`: the metrics of a gateway for Prometheus. Every metric is declared here once; nothing is counted here.

Labels are bounded and never free text of users: no flow names, no labels of runs, no paths. A routing tag is a label
only when it is well-formed; a snapshot of foreign origin may hold anything in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import prometheus_client
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pyoco_server import __version__
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import RUN_STATUSES, TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import parse_tag
from pyoco_server.domain.queries import histograms
from pyoco_server.domain.queries.histograms import NOTHING, Histogram, HistogramDelta
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.dependencies import CallerDep, MetricsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.services.projections.metrics import Metrics, ProcessMetrics, RunMetrics

router = APIRouter(tags=["metrics"])

CONTENT_TYPE = "text/plain; version=0.0.4"
# No tag has parentheses.
OTHER_TAGS = "(other)"

# Without SUBMIT_FAILED: no user requested that one.
_STOP_HOWS = tuple(how for how in StopHow if how is not StopHow.SUBMIT_FAILED)

Kind = Literal["counter", "gauge", "histogram"]
Who = Literal["everyone", "operators"]
Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One name: what it counts, by which labels, and who may see it (operators see all tenants)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    who: Who = "everyone"


METRICS = (
    Metric(name="pyoco_runs_total", kind="gauge", labels=("status",), help="Runs that are stored, by status."),
    Metric(name="pyoco_workers_alive_total", kind="gauge", help="Workers that have shown life lately."),
    Metric(name="pyoco_dlq_messages_total", kind="gauge", help="Dead letters that are kept."),
    Metric(name="pyoco_queue_depth", kind="gauge", labels=("tag",), help="Runs that wait for a worker of their tag."),
    Metric(
        name="pyoco_queue_oldest_age_seconds",
        kind="gauge",
        labels=("tag",),
        help="For how long the oldest waiting run of the tag has not changed.",
    ),
    Metric(name="pyoco_runs_submitted_total", kind="counter", help="Runs that were accepted."),
    Metric(name="pyoco_runs_finished_total", kind="counter", labels=("status",), help="Runs that have come to an end."),
    Metric(name="pyoco_queue_wait_seconds", kind="histogram", help="From submit to the first start."),
    Metric(
        name="pyoco_run_duration_seconds",
        kind="histogram",
        labels=("status",),
        help="From the first start to the end, by final status.",
    ),
    Metric(
        name="pyoco_cancel_latency_seconds",
        kind="histogram",
        labels=("how",),
        help="From the request of a cancel to the stop of the run, by how it stopped.",
    ),
    Metric(
        name="pyoco_http_request_duration_seconds",
        kind="histogram",
        labels=("route", "method", "status"),
        help="From a request to the beginning of its answer, in this gateway.",
        who="operators",
    ),
    Metric(
        name="pyoco_append_conflicts_total",
        kind="counter",
        help="Appends of this gateway for which somebody else was faster; each was decided again.",
        who="operators",
    ),
    Metric(
        name="pyoco_index_caught_up",
        kind="gauge",
        help="1 when this gateway's index has all that was stored when it last started to follow.",
        who="operators",
    ),
    Metric(
        name="pyoco_stale_lists_total",
        kind="counter",
        help="Lists of this gateway that may have lacked its own last writes.",
        who="operators",
    ),
    Metric(
        name="pyoco_index_behind",
        kind="gauge",
        help="Changes of runs that are stored and not yet in this gateway's index, at most.",
        who="operators",
    ),
    Metric(
        name="pyoco_index_failures_total",
        kind="counter",
        help="How often this gateway's index had to start to follow again.",
        who="operators",
    ),
    Metric(name="pyoco_watchers", kind="gauge", help="Streams of runs that are open at this gateway.", who="operators"),
    Metric(
        name="pyoco_nodes",
        kind="gauge",
        labels=("state",),
        help="Nodes that can be taken (ready), are held with a lease (leased), or wait for somebody (waiting).",
        who="operators",
    ),
    Metric(
        name="pyoco_claims_waiting",
        kind="gauge",
        help="Those who wait at this gateway for a node to take.",
        who="operators",
    ),
    Metric(name="pyoco_nats_connected", kind="gauge", help="1 when this gateway reaches its broker.", who="operators"),
    Metric(
        name="pyoco_build_info",
        kind="gauge",
        labels=("version",),
        help="Always 1; the label tells the version.",
        who="operators",
    ),
)


_FAMILIES: dict[Kind, type[Family]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Scrape(Collector):
    """The metrics of one scrape; `durations` are the HTTP times of this process."""

    def __init__(self, metrics: Metrics, durations: prometheus_client.Histogram) -> None:
        self._families: dict[str, Any] = {
            metric.name: _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels) for metric in METRICS
        }
        self._is_operator = metrics.process is not None
        self._add_runs(metrics.runs)
        self._add("pyoco_workers_alive_total", metrics.fleet.workers_alive)
        self._add("pyoco_dlq_messages_total", metrics.fleet.dead_letters)
        if metrics.process is not None:
            self._add_process(metrics.process, durations)

    def collect(self) -> Iterator[prometheus_client.Metric]:
        for metric in METRICS:
            if self._is_operator or metric.who == "everyone":
                yield self._families[metric.name]
        if self._is_operator:
            yield from ProcessCollector(registry=None).collect()

    def _add(self, name: str, value: float, *labels: str) -> None:
        self._families[name].add_metric(labels, value)

    def _add_histogram(self, name: str, found: Histogram, *labels: str) -> None:
        bounds = (*map(str, histograms.BOUNDS), "+Inf")
        buckets = list(zip(bounds, accumulate(found.counts), strict=True))
        self._families[name].add_metric(labels, buckets, found.seconds)

    def _add_runs(self, runs: RunMetrics) -> None:
        for status in RUN_STATUSES:
            self._add("pyoco_runs_total", runs.counts.get(status, 0), status)
        shown = 0
        for queue in runs.waiting:
            if _is_tag(queue.tag):
                self._add("pyoco_queue_depth", queue.runs, queue.tag)
                self._add("pyoco_queue_oldest_age_seconds", max(0.0, runs.taken_at - queue.since), queue.tag)
                shown += queue.runs
            elif not queue.tag:
                shown += queue.runs  # without a tag it waits for its start and is in no queue
        self._add("pyoco_queue_depth", max(0, runs.counts.get("PENDING", 0) - shown), OTHER_TAGS)
        self._add_tallies(runs.tallies)

    def _add_tallies(self, tallies: histograms.Tallies) -> None:
        # All possible series exist from the start: a rate needs a zero to begin with.
        self._add("pyoco_runs_submitted_total", tallies.get((HistogramDelta.SUBMITTED, ""), NOTHING).total)
        self._add_histogram("pyoco_queue_wait_seconds", tallies.get((HistogramDelta.WAITED, ""), NOTHING))
        for status in TERMINAL_RUN_STATUSES:
            finished = tallies.get((HistogramDelta.FINISHED, status), NOTHING)
            self._add("pyoco_runs_finished_total", finished.total, status)
            ran = tallies.get((HistogramDelta.RAN, status), NOTHING)
            self._add_histogram("pyoco_run_duration_seconds", ran, status)
        for how in _STOP_HOWS:
            stopped = tallies.get((HistogramDelta.STOPPED, how.value), NOTHING)
            self._add_histogram("pyoco_cancel_latency_seconds", stopped, how.value)

    def _add_process(self, process: ProcessMetrics, durations: prometheus_client.Histogram) -> None:
        (timed,) = durations.collect()
        http = self._families["pyoco_http_request_duration_seconds"]
        http.samples = [sample for sample in timed.samples if not sample.name.endswith("_created")]
        self._add("pyoco_append_conflicts_total", process.append_conflicts)
        self._add("pyoco_stale_lists_total", process.stale_lists)
        self._add("pyoco_index_caught_up", process.index_caught_up)
        self._add("pyoco_index_behind", process.index_behind)
        self._add("pyoco_index_failures_total", process.index_failures)
        self._add("pyoco_watchers", process.watchers)
        for kind, count in process.nodes.items():
            self._add("pyoco_nodes", count, kind.value)
        self._add("pyoco_claims_waiting", process.claims_waiting)
        self._add("pyoco_nats_connected", process.nats_connected)
        self._add("pyoco_build_info", 1, __version__)


def _is_tag(text: str) -> bool:
    try:
        return parse_tag(text) == text
    except InvalidRequest:
        return False


EXAMPLE = """\
# HELP pyoco_runs_total Runs that are stored, by status.
# TYPE pyoco_runs_total gauge
pyoco_runs_total{status="COMPLETED"} 1.0
# HELP pyoco_workers_alive_total Workers that have shown life lately.
# TYPE pyoco_workers_alive_total gauge
pyoco_workers_alive_total 1.0
# HELP pyoco_dlq_messages_total Dead letters that are kept.
# TYPE pyoco_dlq_messages_total gauge
pyoco_dlq_messages_total 0.0
"""
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}},
    },
    503: {
        "description": "The broker does not answer, or the index is being built.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
}


@router.get("/metrics", response_class=PlainTextResponse, responses=RESPONSES)
@requires_scope(Scope.METRICS_READ)
async def get_metrics(request: Request, metrics: MetricsDep, caller: CallerDep) -> Response:
    """Metrics for Prometheus. A caller of one tenant gets those of that tenant's runs."""
    gathered = await metrics.gather(tenant_filter=caller.tenant_filter)
    page = generate_latest(Scrape(gathered, request.app.state.http_durations))
    return Response(page, headers={"Content-Type": CONTENT_TYPE})
