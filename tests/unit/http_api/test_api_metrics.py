"""Which API, endpoint and outcome a request is counted under."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.errors import BrokerUnavailable, IdempotencyConflict, PyocoError, RunNotFound
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics, Outcome, api_of, note_error, outcome_of


def scope_of(route: str | None, error: PyocoError | None = None) -> dict[str, Any]:
    scope: dict[str, Any] = (
        {"type": "http"} if route is None else {"type": "http", "route": SimpleNamespace(path=route)}
    )
    if error is not None:
        note_error(scope, error)
    return scope


def samples(metrics: ApiMetrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@pytest.mark.parametrize(
    ("route", "api"),
    [
        ("/runs/{run_id}", "runs"),
        ("/jobs", "jobs"),
        ("/tags", "jobs"),
        ("/executions/{id}:cancel", "executions"),
        ("/graphs/{graph_id}", "executions"),
        ("/pdca/recheck", "pdca"),
        ("/gui/strategies", "pdca"),
        ("/workers", "other"),
        ("(none)", "other"),
    ],
)
def test_the_api_of_a_route_is_that_of_its_first_segment(route: str, api: str) -> None:
    assert api_of(route) == api


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.SUCCESS),
        (304, Outcome.SUCCESS),
        (400, Outcome.CLIENT_ERROR),
        (401, Outcome.DENIED),
        (403, Outcome.DENIED),
        (404, Outcome.NOT_FOUND),
        (409, Outcome.CONFLICT),
        (422, Outcome.CLIENT_ERROR),
        (429, Outcome.RATE_LIMITED),
        (500, Outcome.ERROR),
        (502, Outcome.UNAVAILABLE),
        (503, Outcome.UNAVAILABLE),
    ],
)
def test_the_outcome_of_an_answer_follows_from_its_status(status: int, outcome: Outcome) -> None:
    assert outcome_of(status) is outcome


def test_an_outage_is_one_whatever_status_an_api_has_for_it() -> None:
    assert outcome_of(500, BrokerUnavailable()) is Outcome.UNAVAILABLE


def test_requests_are_counted_by_api_endpoint_and_outcome() -> None:
    metrics = ApiMetrics()

    for _ in range(3):
        metrics.count(scope_of("/runs"), 200, 0.001)
    metrics.count(scope_of("/runs/{run_id}", RunNotFound()), 404, 0.001)
    metrics.count(scope_of(None), 404, 0.001)

    found = samples(metrics)
    assert found["pyoco_api_requests_total", "runs", "/runs", "success"] == 3
    assert found["pyoco_api_requests_total", "runs", "/runs/{run_id}", "not_found"] == 1
    assert found["pyoco_api_requests_total", "other", "(none)", "not_found"] == 1


def test_requests_to_pdca_and_gui_have_the_names_of_the_seed() -> None:
    metrics = ApiMetrics()

    metrics.count(scope_of("/pdca/recheck"), 202, 0.003)
    metrics.count(scope_of("/gui/strategies"), 200, 0.5)

    found = samples(metrics)
    assert found["pdca_api_requests_total", "/pdca/recheck", "success"] == 1
    assert found["pdca_api_latency_ms_sum", "/pdca/recheck"] == pytest.approx(3.0)
    assert found["pdca_api_latency_ms_bucket", "/gui/strategies", "250.0"] == 0
    assert found["pdca_api_latency_ms_bucket", "/gui/strategies", "500.0"] == 1
    assert not [key for key in found if key[0] == "pyoco_api_requests_total"]


def test_conflicts_of_idempotency_keys_are_counted_from_zero_and_other_conflicts_are_not() -> None:
    metrics = ApiMetrics()
    before = samples(metrics)

    metrics.count(scope_of("/runs", IdempotencyConflict()), 409, 0.001)
    metrics.count(scope_of("/pdca/recheck", IdempotencyConflict()), 409, 0.001)
    metrics.count(scope_of("/jobs"), 409, 0.001)

    after = samples(metrics)
    names = [("pyoco_api_idempotency_conflicts_total", "runs"), ("pdca_api_idempotency_conflicts_total",)]
    assert [before[name] for name in names] == [0, 0]
    assert [after[name] for name in names] == [1, 1]
    assert after["pyoco_api_idempotency_conflicts_total", "jobs"] == 0
