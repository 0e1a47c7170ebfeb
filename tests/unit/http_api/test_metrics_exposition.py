"""The Prometheus exposition, parsed by the official parser."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pyoco_server.domain.execution.snapshot import RUN_STATUSES
from pyoco_server.domain.queries.histograms import HistogramDelta, Tallies, Waiting, bucket_of, gathered
from pyoco_server.domain.queries.steps import StepKind
from pyoco_server.domain.rate_limits import LimitClass
from pyoco_server.http_api.api.metrics import METRICS, OTHER_TAGS, Scrape
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.requests import request_durations
from pyoco_server.services.projections.metrics import Metrics
from pyoco_server.services.projections.run_figures import RunFigures

PROCESS = {
    "pyoco_nats_connected": 1,
    "pyoco_append_conflicts_total": 3,
    "pyoco_stale_lists_total": 9,
    "pyoco_index_caught_up": 1,
    "pyoco_index_failures_total": 1,
    "pyoco_index_behind": 2,
    "pyoco_watchers": 4,
    "pyoco_claims_waiting": 5,
}
EVERYONE = [metric.name for metric in METRICS if metric.who == "everyone"]


def exposition(metrics: Metrics, durations: Histogram | None = None) -> bytes:
    return generate_latest(Scrape(metrics, durations or request_durations(), ApiMetrics()))


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def figures(
    *, waiting: tuple[Waiting, ...] = (), tallies: Tallies | None = None, confined: bool = False, **counts: int
) -> Metrics:
    nodes = {StepKind.READY: 6, StepKind.LEASED: 7, StepKind.WAITING: 8}
    return Metrics(
        runs=RunFigures(counts=counts, waiting=waiting, nodes=nodes, dead_letters=0, index_behind=0, taken_at=1000.0),
        tallies=tallies or {},
        workers_alive=2,
        process=None if confined else PROCESS,
        rate_limited={LimitClass.API_READ: 10, LimitClass.BULK: 0},
        airflow_requests={("dag", "success"): 9},
        airflow_circuit="open",
    )


def samples(text: bytes) -> Samples:
    families = text_string_to_metric_families(text.decode())
    found = [sample for family in families for sample in family.samples]
    assert len({(sample.name, tuple(sorted(sample.labels.items()))) for sample in found}) == len(found)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found}


def declared(text: bytes) -> list[str]:
    return [line.split(" ")[2] for line in text.decode().splitlines() if line.startswith("# TYPE")]


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def test_metric_names_are_those_of_the_contract() -> None:
    lines = exposition(figures(COMPLETED=1)).decode().splitlines()

    assert {
        'pyoco_runs_total{status="COMPLETED"} 1.0',
        "pyoco_workers_alive_total 2.0",
        "pyoco_dlq_messages_total 0.0",
    } <= {*lines}


def test_every_status_has_a_sample_without_any_run() -> None:
    found = samples(exposition(figures()))

    assert [value(found, "pyoco_runs_total", status=status) for status in RUN_STATUSES] == [0.0] * 6


def test_a_caller_of_one_tenant_sees_no_process_metrics() -> None:
    everything = declared(exposition(figures()))
    confined = declared(exposition(figures(confined=True)))

    assert everything[: len(METRICS)] == [metric.name for metric in METRICS]
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= {*everything}
    assert confined == EVERYONE


def test_histogram_buckets_are_cumulative_and_end_with_all() -> None:
    tallies = gathered(("ran", "FAILED", bucket_of(seconds), 1, seconds) for seconds in (0.2, 0.25, 3.0, 1e6))

    found = samples(exposition(figures(tallies=tallies)))

    name, status = "pyoco_run_duration_seconds", "FAILED"
    buckets = {
        bound: value(found, f"{name}_bucket", status=status, le=bound) for bound in ("0.1", "0.25", "5.0", "+Inf")
    }
    assert buckets == {"0.1": 0.0, "0.25": 2.0, "5.0": 3.0, "+Inf": 4.0}
    assert value(found, f"{name}_count", status=status) == 4.0
    assert value(found, f"{name}_sum", status=status) == 1000003.45
    assert value(found, f"{name}_count", status="COMPLETED") == 0.0


def test_run_counters_come_from_the_histograms() -> None:
    tallies = gathered(
        [(HistogramDelta.SUBMITTED.value, "", 0, 7, 0.0), (HistogramDelta.FINISHED.value, "FAILED", 0, 2, 0.0)]
    )

    found = samples(exposition(figures(tallies=tallies)))

    assert value(found, "pyoco_runs_submitted_total") == 7.0
    assert value(found, "pyoco_runs_finished_total", status="FAILED") == 2.0
    assert value(found, "pyoco_runs_finished_total", status="COMPLETED") == 0.0


def test_queues_beyond_the_limit_are_summed() -> None:
    waiting = (Waiting(tag="gpu", runs=5, since=990.0), Waiting(tag="not a tag", runs=2, since=1.0))

    found = samples(exposition(figures(waiting=waiting, PENDING=10)))

    assert value(found, "pyoco_queue_depth", tag="gpu") == 5.0
    assert value(found, "pyoco_queue_oldest_age_seconds", tag="gpu") == 10.0
    assert value(found, "pyoco_queue_depth", tag=OTHER_TAGS) == 5.0
    assert value(found, "pyoco_queue_depth", tag="not a tag") is None


def test_a_run_submitted_in_the_future_has_waited_zero_seconds() -> None:
    found = samples(exposition(figures(waiting=(Waiting(tag="gpu", runs=1, since=2000.0),), PENDING=1)))

    assert value(found, "pyoco_queue_oldest_age_seconds", tag="gpu") == 0.0


@given(
    tags=st.lists(st.text() | st.text(string.punctuation + "\n\\ "), unique=True, max_size=5),
    path=st.text(string.printable),
)
def test_user_text_cannot_break_the_format(tags: list[str], path: str) -> None:
    durations = request_durations()
    durations.labels(path, "GET", "2xx").observe(0.002)
    waiting = tuple(Waiting(tag=tag, runs=1, since=999.0) for tag in tags)

    found = samples(exposition(figures(waiting=waiting, PENDING=len(tags)), durations))

    depth = sum(sample for (name, _), sample in found.items() if name == "pyoco_queue_depth")
    assert depth == len([tag for tag in tags if tag])
    assert value(found, "pyoco_http_request_duration_seconds_count", route=path, method="GET", status="2xx") == 1.0


def test_an_execution_before_its_start_is_in_no_queue() -> None:
    queues = (Waiting(tag="cpu", runs=2, since=900.0), Waiting(tag="", runs=3, since=900.0))

    found = samples(exposition(figures(waiting=queues, PENDING=6)))

    assert value(found, "pyoco_queue_depth", tag="cpu") == 2
    assert value(found, "pyoco_queue_depth", tag=OTHER_TAGS) == 1


def test_nodes_are_counted_by_the_action_they_need() -> None:
    found = samples(exposition(figures()))

    assert [value(found, "pyoco_nodes", state=kind.value) for kind in StepKind] == [6, 7, 8]
    assert value(found, "pyoco_claims_waiting") == 5


def test_refusals_are_counted_by_the_class_of_their_limit() -> None:
    found = samples(exposition(figures()))

    assert {labels: count for (name, labels), count in found.items() if name == "pyoco_rate_limited_total"} == {
        (("class", "api-read"),): 10,
        (("class", "bulk"),): 0,
    }
