"""The one middleware: ids, access log, timing, hosts and origins, WebSocket tickets and the headers of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from prometheus_client import Histogram
from starlette._utils import get_route_path
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.errors import CrossSiteRefused, GatewayStopping, PyocoError
from pyoco_server.http_api.middleware.access_log import NO_LOG, SWITCHING_PROTOCOLS, AccessLog, endpoint_of, method_of
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.bodies import RequestBody
from pyoco_server.http_api.middleware.hosts import HostCheck, MalformedHost
from pyoco_server.http_api.middleware.request_ids import identify
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.log_context import end_work
from pyoco_server.services.projections.lists import list_is_stale

STOPPING = "the gateway is stopping; the request may have been carried out"

# Between two chunks of a body; a client that pauses longer only holds a connection.
BODY_PATIENCE_SEC = 20.0
# The minimum average rate of a body, checked after this much waiting.
SLOW_AFTER_SEC = 30.0
SLOWEST_BYTES_PER_SEC = 4 * 1024

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# Answers are data: in a browser they may load and run nothing. The docs page has a policy of its own.
_CSP = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
# JSON is of the moment and of its caller, and never a script; a route may say otherwise.
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NOT_STORED = (b"cache-control", b"no-store")
_JSON_TYPES = (b"application/json", b"application/problem+json")
_CLOSES = (b"connection", b"close")
# Probes call these by any name, or without one.
_PROBES = ("/health", "/ready")
# The contract of these paths limits their bodies.
SMALL_BODY_BYTES = 64 * 1024
_SMALL_BODIES = ("/pdca/", "/gui/")
FORBIDDEN = 403


def request_durations() -> Histogram:
    """Time until the answer begins, not until it ends: a stream of an hour is answered at once."""
    about = "From a request to the beginning of its answer, in this gateway."
    labels = ("route", "method", "status")
    return Histogram("pyoco_http_request_duration_seconds", about, labels, buckets=BOUNDS, registry=None)


@dataclass(frozen=True, slots=True)
class RequestMiddleware:
    """Wraps the app once. `body_limits` has the routes, by method and path, with a limit of their own."""

    app: ASGIApp
    new_id: Callable[[], str]
    now: Callable[[], float]
    durations: Histogram
    hosts: HostCheck
    max_body_bytes: int
    body_limits: Mapping[tuple[str, str], int]
    access: AccessLog = NO_LOG
    patience_sec: float = BODY_PATIENCE_SEC
    slow_after_sec: float = SLOW_AFTER_SEC
    api_metrics: ApiMetrics = field(default_factory=ApiMetrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, is_answered, is_closing = self.now(), False, False
        headers, ids_in_lines = identify(scope, self.new_id)
        self.access.begin(scope, began, self.now)
        body = self._body(scope, receive)

        async def send_first(message: Message) -> None:
            nonlocal is_answered, is_closing
            if not is_answered and message["type"] == "http.response.start":
                is_answered = True
                answered_at = self.now()
                self._observe(scope, message["status"], answered_at - began)
                self.access.note(scope, message["status"], answered_at)
                given = message.get("headers", ())
                # A connection header means nothing to HTTP/2, where the server resets the stream.
                is_closing = body.is_left and scope.get("http_version", "1.1")[0] == "1"
                message["headers"] = [*given, *headers, *_general(given), *((_CLOSES,) if is_closing else ())]
            if is_closing and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        try:
            if refusal := self._refusal(scope):
                await _refused(scope, refusal)(scope, receive, send_first)
            else:
                await self.app(scope, body.receive, send_first)
        except asyncio.CancelledError:
            # Only the server cancels a request: it stops, and the request has outlasted the time for that.
            if is_answered:
                raise
            await _refused(scope, GatewayStopping(STOPPING))(scope, receive, send_first)
        finally:
            if not is_answered:  # an exception: the framework answers it outside of all middleware
                self._observe(scope, 500, self.now() - began)
            end_work(ids_in_lines)

    def _refusal(self, scope: Scope) -> PyocoError | None:
        """Why the request is refused before its route is looked for."""
        if (refusal := self.hosts.refusal(scope["headers"])) and not _is_probe(scope):
            return refusal
        if scope["method"] not in _SAFE_METHODS and _is_cross_site(scope["headers"]):
            return CrossSiteRefused()
        return None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, ids_in_lines = identify(scope, self.new_id)
        self.access.begin(scope, self.now(), self.now)
        _hide_ticket(scope)
        is_answered = False
        can_answer = "websocket.http.response" in scope.get("extensions", {})

        async def send_with_headers(message: Message) -> None:
            nonlocal is_answered
            if not is_answered and message["type"] in ("websocket.accept", "websocket.http.response.start"):
                is_answered = True
                given = message.get("headers", ())
                general = () if message["type"] == "websocket.accept" else _general(given)
                message["headers"] = [*given, *headers, *general]
                self.access.note(scope, message.get("status", SWITCHING_PROTOCOLS), self.now())
            elif not is_answered and message["type"] == "websocket.close" and can_answer:
                # Not accepted: the server would answer 403 without our headers.
                await send_with_headers({"type": "websocket.http.response.start", "status": FORBIDDEN, "headers": []})
                message = {"type": "websocket.http.response.body", "body": b""}
            await send(message)

        refusal = self.hosts.refusal(scope["headers"])
        # A page of another site may not even listen: unlike other answers it could read the frames.
        if refusal is None and _is_cross_origin(scope["headers"]):
            refusal = CrossSiteRefused()
        try:
            if refusal is None:
                await self.app(scope, receive, send_with_headers)
            else:
                await receive()
                if can_answer:
                    await _refused(scope, refusal)(scope, receive, send_with_headers)
                else:
                    await send({"type": "websocket.close", "code": 1008})  # not accepted: a 403
        finally:
            end_work(ids_in_lines)

    def _observe(self, scope: Scope, status: int, seconds: float) -> None:
        self.api_metrics.count(scope, status, seconds)
        self.durations.labels(endpoint_of(scope), method_of(scope), f"{status // 100}xx").observe(seconds)

    def _body_limit(self, scope: Scope) -> int:
        path: str = scope["path"]
        if path.startswith(_SMALL_BODIES):
            return min(SMALL_BODY_BYTES, self.max_body_bytes)
        return self.body_limits.get((scope["method"], path), self.max_body_bytes)

    def _body(self, scope: Scope, receive: Receive) -> RequestBody:
        return RequestBody(
            scope["headers"],
            receive,
            limit=self._body_limit(scope),
            now=self.now,
            patience_sec=self.patience_sec,
            slow_after_sec=self.slow_after_sec,
            slowest_bytes_per_sec=SLOWEST_BYTES_PER_SEC,
        )


def _general(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that an answer with these headers lacks."""
    named = dict(given)
    added = [] if _CSP[0] in named else [_CSP]
    if named.get(b"content-type", b"").startswith(_JSON_TYPES):
        added += [header for header in (_NO_SNIFFING, _NOT_STORED) if header[0] not in named]
    if list_is_stale.get():
        added.append((b"pyoco-list-stale", b"true"))
    return added


def _refused(scope: Scope, refusal: PyocoError) -> Response:
    return response_for(HTTPConnection(scope), refusal, 400 if isinstance(refusal, MalformedHost) else None)


def _is_probe(scope: Scope) -> bool:
    return get_route_path(scope) in _PROBES


def _is_cross_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the request comes from a page of another site.

    Without this check any page in a developer's browser could submit runs to the gateway on the same machine: a plain
    form needs no permission, and the gateway accepts any content type.
    """
    known = {name: value for name, value in headers if name in (b"sec-fetch-site", b"origin", b"host")}
    if b"sec-fetch-site" in known:
        return known[b"sec-fetch-site"] not in (b"same-origin", b"none")
    # Browsers send that one over TLS and to their own machine only; the origin also to a gateway in a network.
    return _is_cross_origin(known.items())


def _is_cross_origin(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """By the Origin header, which browsers send with every WebSocket and programs do not."""
    known = {name: value for name, value in headers if name in (b"origin", b"host")}
    origin = known.get(b"origin")
    return origin is not None and origin.partition(b"://")[2].lower() != known.get(b"host", b"").lower()


def _hide_ticket(scope: Scope) -> None:
    """Move the ticket from the query to the scope: servers log the query."""
    if not scope.get("query_string"):
        return
    given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    tickets = [value for name, value in given if name == "ticket"]
    if tickets:
        # In place: the server logs from this scope. Two tickets count as an invalid one.
        scope["ticket"] = tickets[0] if len(tickets) == 1 else ""
        scope["query_string"] = urlencode([one for one in given if one[0] != "ticket"]).encode()
