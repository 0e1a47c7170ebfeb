"""Requests by API, endpoint and outcome, for the metrics of this process; `/pdca` and `/gui` have names of their own.

Labels are templates of routes and words of closed sets, never a path or a text of a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client import Counter, Histogram, Metric
from starlette.types import Scope

from pyoco_server.errors import IdempotencyConflict, Kind, PyocoError
from pyoco_server.http_api.middleware.access_log import endpoint_of

# By the first segment of a route's template.
APIS = {
    "runs": "runs",
    "jobs": "jobs",
    "tags": "jobs",
    "executions": "executions",
    "graphs": "executions",
    "waits": "executions",
    "pdca": "pdca",
    "gui": "pdca",
}
PDCA = "pdca"
# Workers, wheels, dead letters, probes, and paths without a route.
OTHER_API = "other"
API_NAMES = ("runs", "jobs", "executions", OTHER_API)
LATENCY_BOUNDS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)

_ERROR = "pyoco.error"


class Outcome(StrEnum):
    """What became of a request."""

    SUCCESS = "success"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    RATE_LIMITED = "rate_limited"
    CLIENT_ERROR = "client_error"
    UNAVAILABLE = "unavailable"
    ERROR = "error"


_BY_STATUS = {
    401: Outcome.DENIED,
    403: Outcome.DENIED,
    404: Outcome.NOT_FOUND,
    409: Outcome.CONFLICT,
    429: Outcome.RATE_LIMITED,
    502: Outcome.UNAVAILABLE,
    503: Outcome.UNAVAILABLE,
    504: Outcome.UNAVAILABLE,
}
_UNAVAILABLE = (Kind.UNAVAILABLE, Kind.BAD_GATEWAY)


def note_error(scope: Scope, error: PyocoError) -> None:
    """Leave the error of an answer for `ApiMetrics`."""
    scope[_ERROR] = error


class ApiMetrics:
    """The counters of one gateway."""

    def __init__(self) -> None:
        labels = ("api", "endpoint", "outcome")
        about = "Requests to {}, by route and outcome, in this gateway."
        conflicts = "Requests to {} whose idempotency key was used for another request before, in this gateway."
        self._requests = _counter("pyoco_api_requests_total", about.format("the APIs but /pdca and /gui"), labels)
        self._conflicts = _counter(
            "pyoco_api_idempotency_conflicts_total", conflicts.format("the APIs but /pdca"), ("api",)
        )
        self._pdca_requests = _counter("pdca_api_requests_total", about.format("/pdca and /gui"), labels[1:])
        self._pdca_conflicts = _counter("pdca_api_idempotency_conflicts_total", conflicts.format("/pdca"), ())
        self._pdca_latency = Histogram(
            "pdca_api_latency_ms",
            "From a request to /pdca or /gui to the beginning of its answer, in milliseconds, in this gateway.",
            ("endpoint",),
            buckets=LATENCY_BOUNDS_MS,
            registry=None,
        )
        # A lookup of labels costs more than the increment.
        self._children: dict[tuple[str, int], Counter] = {}
        for api in API_NAMES:
            self._conflicts.labels(api)

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request when its answer begins; the router has left the route in the scope."""
        endpoint = endpoint_of(scope)
        error: PyocoError | None = scope.get(_ERROR)
        if error is None and status < 400 and (child := self._children.get((endpoint, status))) is not None:
            child.inc()
            return
        api = api_of(endpoint)
        outcome = outcome_of(status, error)
        if api == PDCA:
            self._pdca_requests.labels(endpoint, outcome.value).inc()
            self._pdca_latency.labels(endpoint).observe(seconds * 1000)
        else:
            child = self._requests.labels(api, endpoint, outcome.value)
            child.inc()
            if error is None and status < 400:
                self._children[endpoint, status] = child
        if isinstance(error, IdempotencyConflict):
            (self._pdca_conflicts if api == PDCA else self._conflicts.labels(api)).inc()

    def collect(self) -> Iterator[Metric]:
        for metric in (
            *(self._requests, self._conflicts, self._pdca_requests),
            *(self._pdca_conflicts, self._pdca_latency),
        ):
            yield from metric.collect()


def api_of(endpoint: str) -> str:
    """The API of a route, by the first segment of its template."""
    return APIS.get(endpoint.split("/", 2)[1] if endpoint.startswith("/") else "", OTHER_API)


def outcome_of(status: int, error: PyocoError | None = None) -> Outcome:
    """By status, except where an API answers an outage of others with a status of its own."""
    if error is not None and error.kind in _UNAVAILABLE:
        return Outcome.UNAVAILABLE
    if status < 400:
        return Outcome.SUCCESS
    return _BY_STATUS.get(status, Outcome.CLIENT_ERROR if status < 500 else Outcome.ERROR)


def _counter(name: str, about: str, labels: tuple[str, ...]) -> Counter:
    return Counter(name, about, labels, registry=None)
