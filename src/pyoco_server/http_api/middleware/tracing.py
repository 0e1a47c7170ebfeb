"""The entry span of each request; installed only where traces are exported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPMethod
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.tracing.spans import Entry

if TYPE_CHECKING:
    from pyoco_server.tracing.opentelemetry import Tracing

# Called every few seconds by machines; the traces of people's requests are worth more.
UNTRACED = frozenset({"/health", "/ready", "/metrics"})

_ANSWERS = ("http.response.start", "websocket.http.response.start", "websocket.accept", "websocket.close")


@dataclass(frozen=True, slots=True)
class TracingMiddleware:
    """Outside of all other middleware, so that refused requests have a span too. The span ends when the answer begins,
    like the time in the metrics: a stream of an hour is answered at once.
    """

    app: ASGIApp
    tracing: Tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in UNTRACED:
            await self.app(scope, receive, send)
            return
        method = scope.get("method", "GET")
        method = method if method in HTTPMethod.__members__ else "_OTHER"
        attributes = {"http.request.method": method, "url.scheme": scope.get("scheme", "http")}
        with self.tracing.enter(method, "server", _carrier(scope["headers"]), attributes) as span:
            if not span.is_recording:
                await self.app(scope, receive, send)
                return

            async def send_traced(message: Message) -> None:
                if span.is_recording and message["type"] in _ANSWERS:
                    _end(span, scope, method, _status(message))
                await send(message)

            try:
                await self.app(scope, receive, send_traced)
            except Exception as error:
                # The framework answers it outside of all middleware.
                if span.is_recording:
                    span.fail(type(error).__name__)
                    _end(span, scope, method, 500)
                raise


def _carrier(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str | None, str | None]:
    """`traceparent` and `tracestate`; two of the first are none, by the specification."""
    parents = [value for name, value in headers if name == b"traceparent"]
    if len(parents) != 1:
        return None, None
    states = [value for name, value in headers if name == b"tracestate"]
    return parents[0].decode("latin-1"), b",".join(states).decode("latin-1") if states else None


def _status(message: Message) -> int:
    """The status of the answer; an accepted WebSocket is 101, one that is closed before is refused with 403."""
    default = 101 if message["type"] == "websocket.accept" else 403
    status: int = message.get("status", default)
    return status


def _end(span: Entry, scope: Scope, method: str, status: int) -> None:
    # Router, guard and request middleware leave what they know in the scope.
    route = getattr(scope.get("route"), "path", None)
    found: dict[str, str | int] = {"http.response.status_code": status}
    if route is not None:
        found |= {"http.route": route, "url.path": scope["path"]}
    if (client := scope.get("client")) is not None:
        found["client.address"] = client[0]
    for name, value in (
        ("pyoco.request_id", scope.get("request_id")),
        ("pyoco.client_id", _client_id(scope)),
        ("pyoco.pdca_request_id", _pdca_request_id(scope, route)),
        ("pyoco.run_id", scope.get("path_params", {}).get("run_id")),
    ):
        if value is not None:
            found[name] = str(value)
    span.set(found)
    if status >= 500:
        span.fail(str(status))
    span.end(method if route is None else f"{method} {route}")


def _client_id(scope: Scope) -> str:
    caller = scope.get("caller")
    return (None if caller is None else caller.name) or "anonymous"


def _pdca_request_id(scope: Scope, route: str | None) -> str | None:
    known: str | None = scope.get("pyoco.pdca_request_id")
    if known is None and route is not None and route.startswith(("/pdca/", "/gui/")):
        known = scope.get("path_params", {}).get("request_id")
    return known
