"""`GET /metrics`: the metrics of a gateway for Prometheus. Every metric is declared here once; nothing is counted here.

Labels are bounded and never free text of users: no flow names, no labels of runs, no paths. A routing tag is a label
only when it is well-formed; a snapshot of foreign origin may hold anything in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
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
from pyoco_server.domain.ids import is_tag
from pyoco_server.domain.queries import histograms
from pyoco_server.domain.queries.histograms import NOTHING, Histogram, HistogramDelta
from pyoco_server.http_api.dependencies import CallerDep, MetricsDep
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.query_names import accepts_any_query
from pyoco_server.http_api.responses.problems import RUNS
from pyoco_server.services.projections.metrics import Metrics
from pyoco_server.services.projections.run_figures import RunFigures

router = APIRouter(tags=["metrics"])

CONTENT_TYPE = "text/plain; version=0.0.4"
# No tag has parentheses.
OTHER_TAGS = "(other)"

# Without SUBMIT_FAILED: no user requested that one.
_STOP_HOWS = tuple(how for how in StopHow if how is not StopHow.SUBMIT_FAILED)

Kind = Literal["counter", "gauge", "histogram"]
Who = Literal["everyone", "operators"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One name: what it counts, by which labels, and who may see it (operators see all tenants)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    who: Who = "everyone"


_internal = partial(Metric, who="operators")

METRICS = (
    Metric("pyoco_runs_total", "gauge", "Runs that are stored, by status.", ("status",)),
    Metric("pyoco_workers_alive_total", "gauge", "Workers with a recent heartbeat."),
    _internal("pyoco_dlq_messages_total", "gauge", "Dead letters that are kept, of all tenants."),
    Metric("pyoco_queue_depth", "gauge", "Runs that wait for a worker of their tag.", ("tag",)),
    Metric(
        "pyoco_queue_oldest_age_seconds",
        "gauge",
        "For how long the oldest waiting run of the tag has not changed.",
        ("tag",),
    ),
    Metric("pyoco_runs_submitted_total", "counter", "Runs that were accepted."),
    Metric("pyoco_runs_finished_total", "counter", "Runs that have come to an end.", ("status",)),
    Metric("pyoco_queue_wait_seconds", "histogram", "From submit to the first start."),
    Metric("pyoco_run_duration_seconds", "histogram", "From the first start to the end, by final status.", ("status",)),
    Metric(
        "pyoco_cancel_latency_seconds",
        "histogram",
        "From the request of a cancel to the stop of the run, by how it stopped.",
        ("how",),
    ),
    _internal(
        "pyoco_http_request_duration_seconds",
        "histogram",
        "From a request to the beginning of its answer, in this gateway.",
        ("route", "method", "status"),
    ),
    _internal(
        "pyoco_api_requests_total",
        "counter",
        "Requests to the APIs but /pdca and /gui, by route and outcome, in this gateway.",
        ("api", "endpoint", "outcome"),
    ),
    _internal(
        "pyoco_api_idempotency_conflicts_total",
        "counter",
        "Requests to the APIs but /pdca whose idempotency key was used for another request before, in this gateway.",
        ("api",),
    ),
    _internal(
        "pdca_api_requests_total",
        "counter",
        "Requests to /pdca and /gui, by route and outcome, in this gateway.",
        ("endpoint", "outcome"),
    ),
    _internal(
        "pdca_api_latency_ms",
        "histogram",
        "From a request to /pdca or /gui to the beginning of its answer, in milliseconds, in this gateway.",
        ("endpoint",),
    ),
    _internal(
        "pdca_api_idempotency_conflicts_total",
        "counter",
        "Requests to /pdca whose idempotency key was used for another request before, in this gateway.",
    ),
    _internal(
        "pyoco_append_conflicts_total",
        "counter",
        "Appends of this gateway that lost to another writer; each was decided again.",
    ),
    _internal(
        "pyoco_index_caught_up",
        "gauge",
        "1 when this gateway's index has all that was stored when it last started to follow.",
    ),
    _internal("pyoco_stale_lists_total", "counter", "Lists of this gateway that may have lacked its own last writes."),
    _internal(
        "pyoco_index_behind", "gauge", "Changes of runs that are stored and not yet in this gateway's index, at most."
    ),
    _internal("pyoco_index_failures_total", "counter", "How often this gateway's index had to start to follow again."),
    _internal(
        "pyoco_runs_with_lost_events",
        "gauge",
        "Runs whose stored events end before their snapshot: the broker has lost some. Checked hourly by this gateway.",
    ),
    _internal("pyoco_lost_event_bytes", "gauge", "Bytes of the event log that the broker dropped when it started."),
    _internal("pyoco_watchers", "gauge", "Streams of runs that are open at this gateway."),
    _internal(
        "pyoco_nodes",
        "gauge",
        "Nodes that can be claimed (ready), are held with a lease (leased), or wait to be resumed (waiting).",
        ("state",),
    ),
    _internal("pyoco_claims_waiting", "gauge", "Claims that wait at this gateway for a node."),
    _internal(
        "pyoco_rate_limited_total",
        "counter",
        "Requests that this gateway refused because of a rate limit, by its class.",
        ("class",),
    ),
    _internal(
        "airflow_adapter_requests_total",
        "counter",
        "Requests of this gateway to Airflow, by what they are for and how they ended.",
        ("endpoint", "outcome"),
    ),
    _internal(
        "airflow_adapter_circuit",
        "gauge",
        "1 for the state of the circuit breaker towards Airflow: closed, open (requests fail at once) or half_open.",
        ("state",),
    ),
    _internal("pyoco_nats_connected", "gauge", "1 when this gateway reaches its broker."),
    _internal("pyoco_build_info", "gauge", "Always 1; the label has the version.", ("version",)),
)

CIRCUIT_STATES = ("closed", "open", "half_open")
_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
_BOUNDS = (*map(str, histograms.BOUNDS), "+Inf")


class Scrape(Collector):
    """The metrics of one scrape; `durations` and `api_metrics` are about the requests to this process."""

    def __init__(self, metrics: Metrics, durations: prometheus_client.Histogram, api_metrics: ApiMetrics) -> None:
        self._families: dict[str, Any] = {
            metric.name: _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels) for metric in METRICS
        }
        self._is_operator = metrics.process is not None
        self._add_runs(metrics.runs)
        self._add_tallies(metrics.tallies)
        self._add("pyoco_workers_alive_total", metrics.workers_alive)
        self._add("pyoco_dlq_messages_total", metrics.runs.dead_letters)
        for name, value in (metrics.process or {}).items():
            self._add(name, value)
        for kind, count in metrics.runs.nodes.items():
            self._add("pyoco_nodes", count, kind.value)
        for limit, count in metrics.rate_limited.items():
            self._add("pyoco_rate_limited_total", count, limit.value)
        self._add_airflow(metrics)
        self._add("pyoco_build_info", 1, __version__)
        counted = {_declared_name(family): family for family in (*durations.collect(), *api_metrics.collect())}
        for name, family in counted.items():
            self._families[name].samples = [sample for sample in family.samples if not sample.name.endswith("_created")]

    def collect(self) -> Iterator[prometheus_client.Metric]:
        for metric in METRICS:
            if self._is_operator or metric.who == "everyone":
                yield self._families[metric.name]
        if self._is_operator:
            yield from ProcessCollector(registry=None).collect()

    def _add(self, name: str, value: float, *labels: str) -> None:
        self._families[name].add_metric(labels, value)

    def _add_histogram(self, name: str, found: Histogram, *labels: str) -> None:
        buckets = list(zip(_BOUNDS, accumulate(found.counts), strict=True))
        self._families[name].add_metric(labels, buckets, found.seconds)

    def _add_runs(self, runs: RunFigures) -> None:
        for status in RUN_STATUSES:
            self._add("pyoco_runs_total", runs.counts.get(status, 0), status)
        shown = 0
        for queue in runs.waiting:
            if is_tag(queue.tag):
                self._add("pyoco_queue_depth", queue.runs, queue.tag)
                self._add("pyoco_queue_oldest_age_seconds", max(0.0, runs.taken_at - queue.since), queue.tag)
                shown += queue.runs
            elif not queue.tag:
                shown += queue.runs  # without a tag it waits for its start and is in no queue
        self._add("pyoco_queue_depth", max(0, runs.counts.get("PENDING", 0) - shown), OTHER_TAGS)

    def _add_airflow(self, metrics: Metrics) -> None:
        for (endpoint, outcome), count in metrics.airflow_requests.items():
            self._add("airflow_adapter_requests_total", count, endpoint, outcome)
        for state in CIRCUIT_STATES if metrics.airflow_circuit else ():
            self._add("airflow_adapter_circuit", state == metrics.airflow_circuit, state)

    def _add_tallies(self, tallies: histograms.Tallies) -> None:
        # All possible series exist from the start: a rate needs a zero to begin with.
        def tally(delta: HistogramDelta, label: str = "") -> Histogram:
            return tallies.get((delta, label), NOTHING)

        self._add("pyoco_runs_submitted_total", tally(HistogramDelta.SUBMITTED).total)
        self._add_histogram("pyoco_queue_wait_seconds", tally(HistogramDelta.WAITED))
        for status in TERMINAL_RUN_STATUSES:
            self._add("pyoco_runs_finished_total", tally(HistogramDelta.FINISHED, status).total, status)
            self._add_histogram("pyoco_run_duration_seconds", tally(HistogramDelta.RAN, status), status)
        for how in _STOP_HOWS:
            self._add_histogram("pyoco_cancel_latency_seconds", tally(HistogramDelta.STOPPED, how.value), how.value)


def _declared_name(family: prometheus_client.Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


EXAMPLE = """\
# HELP pyoco_runs_total Runs that are stored, by status.
# TYPE pyoco_runs_total gauge
pyoco_runs_total{status="COMPLETED"} 1.0
"""
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}},
    },
    503: {"description": "The broker does not answer, or the index is being built.", "content": RUNS.content},
}


@router.get("/metrics", response_class=PlainTextResponse, responses=RESPONSES)
@accepts_any_query
@requires_scope(Scope.METRICS_READ)
async def get_metrics(request: Request, metrics: MetricsDep, caller: CallerDep) -> Response:
    """Metrics for Prometheus. A caller of one tenant gets those of that tenant's runs."""
    gathered = await metrics.gather(tenant_filter=caller.tenant_filter)
    page = generate_latest(Scrape(gathered, request.app.state.http_durations, request.app.state.api_metrics))
    return Response(page, headers={"Content-Type": CONTENT_TYPE})
