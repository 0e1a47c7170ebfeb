"""Authentication and authorisation: every route declares its scopes, or the app does not start.

A guarded route is a copy of the route with a `Guard` in front of it: an unauthorised request is rejected before its
body is read. Without authentication there is no guard at all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidApiKey, InvalidTicket, InvalidToken, PyocoError
from pyoco_server.http_api.middleware.rejection_log import RejectionLog
from pyoco_server.http_api.protocol.websocket import Socket
from pyoco_server.services.auth.authenticator import Authenticator, Credentials
from pyoco_server.services.container import Services

F = TypeVar("F", bound=Callable[..., Any])
Headers = Iterable[tuple[bytes, bytes]]

_SCOPES, _ONE_OF, _AUDIENCES = "__pyoco_scopes__", "__pyoco_one_of__", "__pyoco_audiences__"
# By the first part of the path. Where none of them is configured, a token that is accepted is for all APIs.
AUDIENCES = {"pdca": frozenset({"pdca"}), "gui": frozenset({"pdca.gui"})}
EVERY_AUDIENCE = frozenset[str]().union(*AUDIENCES.values())


def requires_scope(*scopes: Scope) -> Callable[[F], F]:
    """The endpoint requires all of these scopes; with none of them, any authenticated caller."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _SCOPES, frozenset(scopes))
        return endpoint

    return declare


def requires_one_of(*scopes: Scope) -> Callable[[F], F]:
    """The endpoint requires any of these scopes."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _SCOPES, frozenset(scopes))
        setattr(endpoint, _ONE_OF, True)
        return endpoint

    return declare


def accepts_audience(*names: str) -> Callable[[F], F]:
    """The endpoint accepts tokens for any of these audiences, instead of the one of its path."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _AUDIENCES, frozenset(names))
        return endpoint

    return declare


def public_route(endpoint: F) -> F:
    """The endpoint (or the mounted app) needs no authentication."""
    setattr(endpoint, _SCOPES, None)
    return endpoint


def required_scopes(route: BaseRoute) -> frozenset[Scope] | None:
    """The scopes of a route, None for a public one; `LookupError` when it declares neither."""
    endpoint = getattr(route, "app" if isinstance(route, Mount) else "endpoint", None)
    if not hasattr(endpoint, _SCOPES):
        raise LookupError(f"{getattr(route, 'path', route)} declares neither its scopes nor that it is public")
    scopes: frozenset[Scope] | None = getattr(endpoint, _SCOPES)
    return scopes


def is_one_enough(route: BaseRoute) -> bool:
    """Whether one of the scopes of a route suffices."""
    return hasattr(getattr(route, "endpoint", None), _ONE_OF)


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller needs for a route. `audiences`: those of which a token has to name one; None: any accepted token.

    The scopes of tokens are strict there: one without the claim is not accepted at all.
    """

    scopes: frozenset[Scope]
    is_one_enough: bool = False
    audiences: frozenset[str] | None = None
    needs_claim: bool = False

    @classmethod
    def to(cls, route: BaseRoute, scopes: frozenset[Scope], config: NatsBackendConfig) -> Access:
        first = getattr(route, "path", "").split("/", 2)[1:2]
        of_path = AUDIENCES.get(first[0]) if first else None
        audiences = None
        if of_path is not None and not EVERY_AUDIENCE.isdisjoint(config.jwt_audiences):
            audiences = getattr(getattr(route, "endpoint", None), _AUDIENCES, of_path)
        return cls(scopes, is_one_enough(route), audiences, needs_claim=of_path is not None)

    def check(self, caller: Caller) -> None:
        """Raise `InvalidToken` or `ScopeMissing` unless the caller may use the route."""
        if self.audiences is not None and caller.audiences is not None and self.audiences.isdisjoint(caller.audiences):
            raise InvalidToken("the token's aud does not name this API", reason="audience", caller=caller.name)
        if self.needs_claim and not caller.names_scopes:
            raise InvalidToken("the token has no claim that lists its scopes", reason="no scope", caller=caller.name)
        if self.is_one_enough:
            caller.require_any(self.scopes)
        else:
            caller.require(self.scopes)


def install(app: FastAPI, config: NatsBackendConfig) -> None:
    """Put a guard in front of every route that is not public; a route without declared scopes prevents the start."""
    pages = (app.openapi_url, app.docs_url, app.swagger_ui_oauth2_redirect_url, app.redoc_url)
    for page in app.router.routes:
        if isinstance(page, Route) and page.path in pages:
            requires_scope()(page.endpoint)
    routes = [(route, required_scopes(route)) for route in app.router.routes]
    app.state.challenge, app.state.api_key_header = challenge(config), config.http_api_key_header
    if not config.auth_ways:
        return
    read = CredentialsReader(config)
    app.router.routes[:] = [
        route if scopes is None else _guarded(route, Access.to(route, scopes, config), read) for route, scopes in routes
    ]


def challenge(config: NatsBackendConfig) -> str:
    """The WWW-Authenticate header of a 401 (RFC 9110)."""
    schemes = {
        "api_key": f'ApiKey realm="pyoco-server", header="{config.http_api_key_header}"',
        "jwt": 'Bearer realm="pyoco-server"',
    }
    return ", ".join(scheme for name, scheme in schemes.items() if name in config.auth_ways)


class CredentialsReader:
    """Reads the credentials of the enabled kinds from the headers of a request."""

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
    """ASGI app in front of a route: authenticates the caller and checks its scopes.

    It leaves `caller` and `until_revoked` in the scope. Long answers wait for the latter beside the disconnect of their
    reader; `receive` itself stays untouched, because `Request.is_disconnected` needs it to return at once.
    A WebSocket also accepts a ticket for the resource in its path, and is rejected by a close code.
    """

    def __init__(self, app: ASGIApp, path: str, access: Access, read: CredentialsReader) -> None:
        self._app = app
        self._path = path
        self.access = access
        self._read = read
        requires_scope(*access.scopes)(self)  # `required_scopes` of a mount asks the guard

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        try:
            caller = scope["caller"] = await self._authenticate(scope)
        except PyocoError as rejection:
            if scope["type"] != "websocket":
                raise
            self._log(rejection, scope)
            await Socket(receive, send).refuse(rejection)
            return
        scope["until_revoked"] = partial(self._until_revoked, scope, caller)
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Connection) -> Caller:
        services: Services = scope["app"].state.services
        ticket, credentials = scope.get("ticket"), self._read(scope["headers"])
        door: Authenticator | None = services.authenticator
        if ticket is None:
            assert door is not None  # noqa: S101 - there is one wherever there is a guard
            caller = await door.admit(credentials)
        elif credentials != Credentials():
            raise InvalidTicket("send a ticket or a header, not both", reason="two credentials")
        else:
            caller = await services.tickets.redeem(ticket, scope["path_params"]["id"].lower())
            if door is not None:
                await door.check_again(caller)
        self.access.check(caller)
        return caller

    async def _until_revoked(self, scope: Connection, caller: Caller) -> PyocoError:
        """Returns when the caller's credentials are no longer accepted, with the reason."""
        door: Authenticator = scope["app"].state.services.authenticator
        credentials = self._read(scope["headers"])
        rejection = await (
            door.until_caller_out(caller) if credentials == Credentials() else door.until_out(credentials)
        )
        self._log(rejection, scope)
        return rejection

    def _log(self, rejection: PyocoError, scope: Connection) -> None:
        log: RejectionLog = scope["app"].state.rejections
        log.note(rejection, {"path": self._path, "request_id": scope.get("request_id")})


def _guarded(route: BaseRoute, access: Access, read: CredentialsReader) -> BaseRoute:
    # A copy: the routes of a module are shared by every app of the process, whatever its settings are.
    guarded = copy.copy(route)
    if not isinstance(guarded, Route | Mount | WebSocketRoute):
        raise TypeError(f"no guard for a route like {route}")
    guarded.app = Guard(guarded.app, guarded.path, access, read)
    return guarded
