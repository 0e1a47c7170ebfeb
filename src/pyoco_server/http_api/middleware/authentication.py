"""Who may call which route: every route says so, or the app refuses to start; whoever may not is answered here.

A guarded route is a copy of the route with a guard before it: no body is read, and no line of the route is run, for
somebody who is not let in. Where access is not controlled there is no guard at all.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidApiKey, InvalidTicket, InvalidToken, Kind, PyocoError
from pyoco_server.http_api.middleware.rejection_log import RefusalLog
from pyoco_server.http_api.protocol.websocket import Socket
from pyoco_server.services.auth.authenticator import Authenticator, Credentials
from pyoco_server.services.container import Services

F = TypeVar("F", bound=Callable[..., Any])
Headers = Iterable[tuple[bytes, bytes]]

_DECISION = "__pyoco_needs__"


def requires_scope(*scopes: Scope) -> Callable[[F], F]:
    """The endpoint is for callers who have all of these; with none of them: for everybody who is known."""

    def decide(endpoint: F) -> F:
        setattr(endpoint, _DECISION, frozenset(scopes))
        return endpoint

    return decide


def public_route(endpoint: F) -> F:
    """The endpoint (or the app that is mounted) answers anybody, also where access is controlled."""
    setattr(endpoint, _DECISION, None)
    return endpoint


def decision_of(route: BaseRoute) -> frozenset[Scope] | None:
    """The scopes a route asks for, None for an open one; `LookupError` when nobody has decided."""
    decider = getattr(route, "app" if isinstance(route, Mount) else "endpoint", None)
    if not hasattr(decider, _DECISION):
        raise LookupError(f"nobody has decided who may call {getattr(route, 'path', route)}")
    decided: frozenset[Scope] | None = getattr(decider, _DECISION)
    return decided


def caller_of(request: HTTPConnection) -> Caller:
    """Who asks, as the guard found out."""
    caller: Caller = request.scope.get("caller", ANYONE)
    return caller


def install(app: FastAPI, config: NatsBackendConfig) -> None:
    """Put a guard before every route that is not open; a route without a decision stops the start, in every mode."""
    pages = (app.openapi_url, app.docs_url, app.swagger_ui_oauth2_redirect_url, app.redoc_url)
    for page in app.router.routes:
        if isinstance(page, Route) and page.path in pages:
            requires_scope()(page.endpoint)
    decided = [(route, decision_of(route)) for route in app.router.routes]
    app.state.challenge, app.state.api_key_header = challenge(config), config.http_api_key_header
    if not config.auth_ways:
        return
    show, log = Reader(config), RefusalLog(SystemClock())
    app.router.routes[:] = [
        route if scopes is None else _guarded(route, scopes, show, log) for route, scopes in decided
    ]


def challenge(config: NatsBackendConfig) -> str:
    """What a 401 says about how to ask again (RFC 9110)."""
    ways = {
        "api_key": f'ApiKey realm="pyoco-server", header="{config.http_api_key_header}"',
        "jwt": 'Bearer realm="pyoco-server"',
    }
    return ", ".join(words for way, words in ways.items() if way in config.auth_ways)


class Reader:
    """Finds the credentials in a request's headers, of the ways that are switched on; others are not looked at."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._key_header = config.http_api_key_header.lower().encode() if "api_key" in config.auth_ways else None
        self._tokens = "jwt" in config.auth_ways

    def __call__(self, headers: Headers) -> Credentials:
        api_key, token = None, None
        for name, value in headers:
            if name == self._key_header and value:
                if api_key is not None:
                    raise InvalidApiKey("send one API key only", reason="two API keys")
                api_key = value.decode("latin-1")
            elif name == b"authorization" and self._tokens and value[:7].lower() == b"bearer ":
                if token is not None:
                    raise InvalidToken("send one bearer token only", reason="two tokens")
                token = value[7:].strip().decode("latin-1")
        return Credentials(api_key=api_key, token=token)


class Guard:
    """An ASGI app before another: finds out who asks, and lets them through or not."""

    def __init__(self, app: ASGIApp, path: str, scopes: frozenset[Scope], show: Reader, log: RefusalLog) -> None:
        self._app = app
        self._path = path
        self._scopes = scopes
        self._show = show
        self._log = log
        requires_scope(*scopes)(self)  # for whoever asks a guarded mount

    async def _admit(self, scope: Connection) -> Caller:
        door: Authenticator = scope["app"].state.services.authenticator
        caller = await door.admit(self._show(scope["headers"]))
        caller.require(self._scopes)
        return caller

    async def _admitted(self, scope: Connection) -> Caller:
        try:
            return await self._admit(scope)
        except PyocoError as refusal:
            if refusal.kind in (Kind.UNAUTHENTICATED, Kind.FORBIDDEN):
                self._log.note(refusal, self._path, scope.get("request_id"))
            raise

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        scope["caller"] = await self._admitted(scope)
        is_whole = False

        async def receive_while_in() -> Message:
            nonlocal is_whole
            if is_whole:
                return await self._gone_or_out(receive, scope)
            message = await receive()
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_while_in, send)

    async def _gone_or_out(self, receive: Receive, scope: Connection) -> Message:
        """Behind the body a stream waits for its reader to go; that its caller is let in no more is told so too."""
        door: Authenticator = scope["app"].state.services.authenticator
        gone = asyncio.ensure_future(receive())
        out = asyncio.ensure_future(door.until_out(self._show(scope["headers"])))
        try:
            await asyncio.wait([gone, out], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return gone.result()
            self._log.note(out.result(), self._path, scope.get("request_id"))
            return {"type": "http.disconnect"}
        finally:
            for one in (gone, out):
                one.cancel()
            await asyncio.gather(gone, out, return_exceptions=True)


class SocketGuard(Guard):
    """The same before a WebSocket, for whom a ticket for what stands in the path is as good as a header.

    Whoever is not let in is told so by the code of a close. Whoever is may be put out later: the app behind finds in
    the scope what to wait for.
    """

    async def _admit(self, scope: Connection) -> Caller:
        services: Services = scope["app"].state.services
        ticket, shown = scope.get("ticket"), self._show(scope["headers"])
        if ticket is None:
            return await super()._admit(scope)
        if shown != Credentials():
            raise InvalidTicket("send a ticket or a header, not both", reason="two credentials")
        caller = await services.tickets.redeem(ticket, scope["path_params"]["id"].lower())
        if services.authenticator is not None:
            await services.authenticator.check_again(caller)
        caller.require(self._scopes)
        return caller

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        try:
            caller = scope["caller"] = await self._admitted(scope)
        except PyocoError as refusal:
            await Socket(receive, send).refuse(refusal)
            return

        async def until_out() -> PyocoError:
            door: Authenticator = scope["app"].state.services.authenticator
            shown = self._show(scope["headers"])
            refusal = await (door.until_caller_out(caller) if shown == Credentials() else door.until_out(shown))
            self._log.note(refusal, self._path, scope.get("request_id"))
            return refusal

        scope["until_out"] = until_out
        await self._app(scope, receive, send)


def _guarded(route: BaseRoute, scopes: frozenset[Scope], show: Reader, log: RefusalLog) -> BaseRoute:
    # A copy: the routes of a module belong to every app of the process, whatever its settings are.
    behind = copy.copy(route)
    if not isinstance(behind, Route | Mount | WebSocketRoute):
        raise TypeError(f"there is no guard for a route like {route}")
    kind = SocketGuard if isinstance(behind, WebSocketRoute) else Guard
    behind.app = kind(behind.app, behind.path, scopes, show, log)
    return behind
