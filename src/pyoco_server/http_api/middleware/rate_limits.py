"""Rate limits of routes: which class a request counts for, the refusal, and the headers that tell what is left.

    request ─▶ CredentialLimit ─▶ Guard ─▶ RouteLimit ─▶ route
               address, for         │       caller and class, before the body is read
               failed logins        └─ the caller

Where a limit is off nothing stands in front of the route.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.rate_limits import MINUTE_SEC, SECOND_NS, LimitClass, Verdict
from pyoco_server.errors import CredentialsMissing, InvalidApiKey, InvalidTicket, InvalidToken, RateLimited
from pyoco_server.http_api.middleware.authentication import CredentialsReader, Guard, requires_scope
from pyoco_server.http_api.protocol.callers import limited_address, limited_caller
from pyoco_server.http_api.protocol.websocket import Socket
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.services.rate_limiter import RateLimiter, quotas_of

Headers = list[tuple[bytes, bytes]]

PDCA = ("/pdca", "/gui")
BULK = (("POST", "/pdca/recheck_all"),)
# Probes and monitoring must not starve, and cost little. Nor does the page, whose files are one load of it.
NOT_LIMITED = ("/health", "/ready", "/metrics", "/", "/static/{path:path}", "/favicon.ico")
READS = ("GET", "HEAD")
# Credentials that were accepted; beyond it the memory starts anew.
MAX_REMEMBERED = 10_000

_FAILURES = (CredentialsMissing, InvalidApiKey, InvalidToken, InvalidTicket)


def limit_class(method: str, path: str) -> LimitClass | None:
    """What a request to a route counts for; None: it is not limited."""
    if path in NOT_LIMITED:
        return None
    if f"/{path.split('/', 2)[1]}" in PDCA:
        if (method, path) in BULK:
            return LimitClass.BULK
        return LimitClass.READ if method in READS else LimitClass.WRITE
    return LimitClass.API_READ if method in READS else LimitClass.API_WRITE


def install_routes(app: FastAPI, config: NatsBackendConfig) -> None:
    """Put a limit in front of every route with a class that has a quota. Before the guards, so that it is behind them.

    Mounted files are not limited.
    """
    quotas = quotas_of(config)
    app.router.routes[:] = [_limited(route, quotas) for route in app.router.routes]


def install_credentials(app: FastAPI, config: NatsBackendConfig) -> None:
    """Put the limit of failed logins in front of every guard."""
    if LimitClass.UNAUTHENTICATED not in quotas_of(config):
        return
    logins = FailedLogins(config)
    for route in app.router.routes:
        if isinstance(guard := getattr(route, "app", None), Guard):
            route.app = CredentialLimit(guard, logins)  # type: ignore[attr-defined]  # it has one, and is a copy


class LimitHeaders:
    """The headers about one class: `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10) and the
    older `X-RateLimit-…`, which more clients read. What is left is what this gateway admits."""

    def __init__(self, limit: LimitClass, quota: int) -> None:
        name = limit.value.encode()
        self.limit = limit
        self.quota = quota
        self._prefix = b'"%b";r=' % name
        self._constant = (
            (b"ratelimit-policy", b'"%b";q=%d;w=%d' % (name, quota, MINUTE_SEC)),
            (b"x-ratelimit-limit", b"%d" % quota),
        )

    def of(self, verdict: Verdict) -> Headers:
        """Times are whole seconds, rounded up: a client that waits for them does not come too early."""
        left, reset_sec = verdict.remaining, in_seconds(verdict.reset_ns)
        again_sec = reset_sec if left else in_seconds(verdict.wait_ns)
        return [
            *self._constant,
            (b"x-ratelimit-remaining", b"%d" % left),
            (b"x-ratelimit-reset", b"%d" % reset_sec),
            (b"ratelimit", b"%b%d;t=%d" % (self._prefix, left, again_sec)),
        ]

    async def refuse(self, verdict: Verdict, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer that the limit is reached, in the dialect of the path."""
        wait_sec = max(1, in_seconds(verdict.wait_ns))
        error = RateLimited(
            f"more than {self.quota} requests of the class {self.limit.value} in a minute; wait {wait_sec} s",
            limit_class=self.limit.value,
            limit=self.quota,
            retry_after_sec=wait_sec,
        )
        if scope["type"] == "websocket":
            await Socket(receive, send).refuse(error)
        else:
            await response_for(HTTPConnection(scope), error)(scope, receive, _adding(self.of(verdict), send))


class RouteLimit:
    """ASGI app in front of a route; `limits` has the headers of its limited methods."""

    def __init__(self, app: ASGIApp, limits: Mapping[str, LimitHeaders]) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._limits.get(scope.get("method", "GET"))
        if headers is None:
            await self._app(scope, receive, send)
            return
        verdict = limiter_of(scope).judge(headers.limit, limited_caller(scope))
        if verdict.is_admitted:
            await self._app(scope, receive, _adding(headers.of(verdict), send))
        else:
            await headers.refuse(verdict, scope, receive, send)


class FailedLogins:
    """What the limits of failed logins of all routes share."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self.headers = LimitHeaders(LimitClass.UNAUTHENTICATED, config.rate_limit_unauthenticated_per_min)
        self._read = CredentialsReader(config)
        # Hashes with the seed of this process: no credentials are kept.
        self._accepted: set[int] = set()

    def note_success(self, scope: Scope) -> None:
        if "ticket" not in scope:
            if len(self._accepted) >= MAX_REMEMBERED:
                self._accepted.clear()
            self._accepted.add(hash(self._read(scope["headers"])))

    def may_pass(self, scope: Scope) -> bool:
        """Whether the request of an address with too many failures is worth a look at its credentials."""
        try:
            credentials = self._read(scope["headers"])
        except _FAILURES:
            return False
        return credentials.token is not None or hash(credentials) in self._accepted


class CredentialLimit:
    """Limits the requests of an address that cannot authenticate.

    An address may be that of many clients, or of a proxy. So a caller that has authenticated here before, or
    shows a token, whose signature cannot be guessed, still gets to the guard; only its failures are refused.
    """

    def __init__(self, guard: Guard, logins: FailedLogins) -> None:
        self._guard = guard
        self._logins = logins
        requires_scope(*guard.access.scopes)(self)  # `required_scopes` of a mount asks the guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limiter, headers, address = limiter_of(scope), self._logins.headers, limited_address(scope)
        if limiter.is_used_up(headers.limit, address) and not self._logins.may_pass(scope):
            await headers.refuse(limiter.judge(headers.limit, address), scope, receive, send)
            return
        try:
            await self._guard(scope, receive, send)
        except _FAILURES:
            verdict = limiter.judge(headers.limit, address)
            if verdict.is_admitted:
                raise
            await headers.refuse(verdict, scope, receive, send)
            return
        if "caller" in scope:
            self._logins.note_success(scope)
        else:  # a WebSocket, which the guard has closed
            limiter.judge(headers.limit, address)


def limiter_of(scope: Scope) -> RateLimiter:
    limiter: RateLimiter = scope["app"].state.services.rate_limiter
    return limiter


def in_seconds(nanoseconds: int) -> int:
    """Whole seconds, rounded up."""
    return -(-nanoseconds // SECOND_NS)


def _limited(route: BaseRoute, quotas: Mapping[LimitClass, int]) -> BaseRoute:
    if not isinstance(route, Route | WebSocketRoute):
        return route
    methods = (route.methods or ()) if isinstance(route, Route) else READS[:1]
    limits = {
        method: LimitHeaders(limit, quotas[limit])
        for method in methods
        if (limit := limit_class(method, route.path)) is not None and limit in quotas
    }
    if not limits:
        return route
    # A copy: the routes of a module are shared by every app of the process, whatever its settings are.
    limited = copy.copy(route)
    limited.app = RouteLimit(route.app, limits)
    return limited


def _adding(headers: Headers, send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_with_headers
