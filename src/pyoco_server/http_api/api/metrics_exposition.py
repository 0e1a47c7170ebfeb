"""Figures → the text that Prometheus reads (format 0.0.4). Every metric is declared here once; nothing is counted here.

Labels are bounded and never taken from what users write freely: no flow names, no labels of runs, no paths. A routing
tag is one only when it is well-formed; a snapshot of foreign origin may hold anything in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from prometheus_client import ProcessCollector

from pyoco_server import __version__
from pyoco_server.domain.execution.snapshot import RUN_STATUSES, TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import parse_tag
from pyoco_server.domain.queries import histograms
from pyoco_server.domain.queries.histograms import NOTHING, Histogram, HistogramDelta
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.middleware import timing
from pyoco_server.http_api.middleware.timing import HttpTimes
from pyoco_server.services.projections.metrics import FleetMetrics, Metrics, ProcessMetrics, RunMetrics

CONTENT_TYPE = "text/plain; version=0.0.4"
# No tag has parentheses, so this is never somebody's.
OTHER_TAGS = "(other)"

_HOWS = tuple(how for how in StopHow if how is not StopHow.SUBMIT_FAILED)  # that one nobody asked for

Kind = Literal["counter", "gauge", "histogram"]
Who = Literal["everyone", "operators"]
Labels = dict[str, str]


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


class Page:
    """Samples by metric, written in the order of the declarations."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def put(self, name: str, value: float, labels: Labels | None = None) -> None:
        self._lines.setdefault(name, []).append(_sample(name, value, labels or {}))

    def put_histogram(self, name: str, found: Histogram, bounds: Sequence[float], labels: Labels | None = None) -> None:
        told = _told(labels or {})
        head, tail = f"{told}," if told else "", f"{{{told}}}" if told else ""
        lines = self._lines.setdefault(name, [])
        for bound, count in zip((*bounds, "+Inf"), accumulate(found.counts), strict=True):
            lines.append(f'{name}_bucket{{{head}le="{bound}"}} {count}\n')
        lines.append(f"{name}_sum{tail} {found.seconds}\n{name}_count{tail} {found.total}\n")

    def text(self, metrics: Iterable[Metric]) -> Iterator[str]:
        for metric in metrics:
            yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
            yield from self._lines.get(metric.name, ())


def exposition(figures: Metrics, http: HttpTimes) -> bytes:
    """The whole answer to one scrape."""
    page = Page()
    _put_runs(page, figures.runs)
    _put_fleet(page, figures.fleet)
    if figures.process is None:
        return "".join(page.text(metric for metric in METRICS if metric.who == "everyone")).encode()
    _put_process(page, figures.process, http)
    return "".join([*page.text(METRICS), *_operating_system()]).encode()


def _put_runs(page: Page, runs: RunMetrics) -> None:
    for status in RUN_STATUSES:
        page.put("pyoco_runs_total", runs.counts.get(status, 0), {"status": status})
    shown = 0
    for queue in runs.waiting:
        if _is_tag(queue.tag):
            page.put("pyoco_queue_depth", queue.runs, {"tag": queue.tag})
            age = max(0.0, runs.taken_at - queue.since)
            page.put("pyoco_queue_oldest_age_seconds", age, {"tag": queue.tag})
            shown += queue.runs
        elif not queue.tag:
            shown += queue.runs  # for no worker: it waits for its start, and is in no queue
    page.put("pyoco_queue_depth", max(0, runs.counts.get("PENDING", 0) - shown), {"tag": OTHER_TAGS})
    _put_tallies(page, runs.tallies)


def _put_tallies(page: Page, found: histograms.Tallies) -> None:
    # Those that could be there are there from the beginning: a rate needs a zero to start from.
    page.put("pyoco_runs_submitted_total", found.get((HistogramDelta.SUBMITTED, ""), NOTHING).total)
    waited = found.get((HistogramDelta.WAITED, ""), NOTHING)
    page.put_histogram("pyoco_queue_wait_seconds", waited, histograms.BOUNDS)
    for status in TERMINAL_RUN_STATUSES:
        labels = {"status": status}
        page.put("pyoco_runs_finished_total", found.get((HistogramDelta.FINISHED, status), NOTHING).total, labels)
        ran = found.get((HistogramDelta.RAN, status), NOTHING)
        page.put_histogram("pyoco_run_duration_seconds", ran, histograms.BOUNDS, labels)
    for how in _HOWS:
        stopped = found.get((HistogramDelta.STOPPED, how.value), NOTHING)
        page.put_histogram("pyoco_cancel_latency_seconds", stopped, histograms.BOUNDS, {"how": how.value})


def _put_fleet(page: Page, fleet: FleetMetrics) -> None:
    page.put("pyoco_workers_alive_total", fleet.workers_alive)
    page.put("pyoco_dlq_messages_total", fleet.dead_letters)


def _put_process(page: Page, process: ProcessMetrics, http: HttpTimes) -> None:
    for (route, method, status), found in http.histograms():
        labels = {"route": route, "method": method, "status": status}
        page.put_histogram("pyoco_http_request_duration_seconds", found, timing.BOUNDS, labels)
    page.put("pyoco_append_conflicts_total", process.append_conflicts)
    page.put("pyoco_index_caught_up", int(process.index_caught_up))
    page.put("pyoco_index_behind", process.index_behind)
    page.put("pyoco_index_failures_total", process.index_failures)
    page.put("pyoco_watchers", process.watchers)
    for kind, count in process.nodes.items():
        page.put("pyoco_nodes", count, {"state": kind.value})
    page.put("pyoco_claims_waiting", process.claims_waiting)
    page.put("pyoco_nats_connected", int(process.nats_connected))
    page.put("pyoco_build_info", 1, {"version": __version__})


def _operating_system() -> Iterator[str]:
    """Memory, processor time and files of this process, under the names that every Prometheus client gives them."""
    for family in ProcessCollector(registry=None).collect():
        suffix = "_total" if family.type == "counter" else ""
        yield f"# HELP {family.name}{suffix} {family.documentation}\n# TYPE {family.name}{suffix} {family.type}\n"
        for sample in family.samples:
            yield _sample(sample.name, sample.value, sample.labels)


def _sample(name: str, value: float, labels: Labels) -> str:
    told = _told(labels)
    return f"{name}{{{told}}} {value}\n" if told else f"{name} {value}\n"


def _told(labels: Labels) -> str:
    return ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _is_tag(text: str) -> bool:
    try:
        return parse_tag(text) == text
    except InvalidRequest:
        return False
