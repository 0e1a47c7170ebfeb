"""How long requests wait for their answer to begin, counted by route, method and class of status; it keeps no request.

Until the answer begins, not until it ends: a stream that is watched for an hour was answered at once. Plain integers in
place of a metrics library: nothing else counts on this event loop, so the locks and child objects of one would only be
paid for. The labels are bounded: routes by the program, methods and classes by a list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.domain.queries.histograms import Histogram

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Whatever was asked for where nothing is: one label, however many paths somebody tries. No route has such a name.
NO_ROUTE = "(none)"
OTHER_METHOD = "(other)"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Labels = tuple[str, str, str]


class HttpTimes:
    """The counters of one app."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self._seconds: dict[tuple[str, str, int], float] = {}

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        # The router leaves the route that it chose in the scope, so nothing is matched twice.
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        method = scope["method"]
        key = (route, method if method in METHODS else OTHER_METHOD, status // 100)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(BOUNDS) + 1)
            self._seconds[key] = 0.0
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds[key] += seconds

    def histograms(self) -> Iterator[tuple[Labels, Histogram]]:
        """Each with its route, method and class of status (`2xx`)."""
        for key, counts in self._counts.items():
            route, method, hundreds = key
            yield (route, method, f"{hundreds}xx"), Histogram(counts=tuple(counts), seconds=self._seconds[key])


class Timing:
    """The outermost of our layers, so that what the others do is in the figures."""

    def __init__(self, app: ASGIApp, times: HttpTimes, now: Callable[[], float]) -> None:
        self._app = app
        self._times = times
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = self._now(), False

        async def send_timed(message: Message) -> None:
            nonlocal answered
            if not answered and message["type"] == "http.response.start":
                answered = True
                self._times.observe(scope, message["status"], self._now() - began)
            await send(message)

        try:
            await self._app(scope, receive, send_timed)
        finally:
            if not answered:  # a fault: the framework answers it outside of all middleware
                self._times.observe(scope, 500, self._now() - began)
