"""Authentication before routing: reading credentials, and a decision for every route."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.routing import Mount, WebSocketRoute
from starlette.staticfiles import StaticFiles

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import CredentialsMissing, InvalidApiKey, InvalidToken
from pyoco_server.http_api import create_app
from pyoco_server.http_api.api.runs import routes as runs
from pyoco_server.http_api.middleware import authentication
from pyoco_server.http_api.middleware.rate_limits import CredentialLimit
from pyoco_server.http_api.middleware.rejection_log import MAX_LINES, WINDOW_SEC, RejectionLog
from support.clocks import ManualClock

OFF, KEYS = NatsBackendConfig(), NatsBackendConfig(http_auth_mode="api_key")
BOTH = NatsBackendConfig(http_auth_mode="api_key,jwt", jwt_issuer="i", jwt_audience="a", jwt_pem_file="unread.pem")


def test_every_route_has_an_access_decision() -> None:
    for config in (OFF, KEYS):
        app = create_app(config)

        decided = {route.path: authentication.required_scopes(route) for route in app.router.routes}  # type: ignore[attr-defined]

        assert [path for path, scopes in decided.items() if scopes is None] == [
            "/gui/artifacts/{id}",
            "/health",
            "/ready",
            "/",
            "/static/{path:path}",
            "/favicon.ico",
        ]
        # Pages without a scope are for every authenticated caller.
        without = [path for path, scopes in decided.items() if scopes == frozenset()]
        assert sorted(without) == ["/docs", "/docs/assets", "/openapi.json", "/whoami"]


def test_every_route_that_is_not_open_is_guarded() -> None:
    app = create_app(KEYS)

    for route in app.router.routes:
        is_guarded = isinstance(getattr(route, "app", None), authentication.Guard | CredentialLimit)
        assert is_guarded == (authentication.required_scopes(route) is not None)


def test_access_control_does_not_change_routes_of_another_app() -> None:
    create_app(KEYS)

    assert not any(isinstance(getattr(route, "app", None), authentication.Guard) for route in runs.router.routes)
    assert not any(
        isinstance(getattr(route, "app", None), authentication.Guard) for route in create_app(OFF).router.routes
    )


@pytest.mark.parametrize("config", [OFF, KEYS])
def test_an_app_with_a_route_without_a_decision_does_not_start(config: NatsBackendConfig) -> None:
    app = FastAPI()

    @app.get("/undecided")
    async def undecided() -> None: ...

    with pytest.raises(LookupError, match="/undecided"):
        authentication.install(app, config)


def test_a_mounted_app_needs_a_decision(tmp_path: Path) -> None:
    files = StaticFiles(directory=tmp_path)
    mounts = {scopes: FastAPI(docs_url=None, redoc_url=None, openapi_url=None) for scopes in (None, Scope.ADMIN)}
    for scopes, app in mounts.items():
        decide = authentication.public_route if scopes is None else authentication.requires_scope(scopes)
        app.router.routes.append(Mount("/static", decide(StaticFiles(directory=tmp_path))))
        authentication.install(app, KEYS)
        (mount,) = app.router.routes
        assert authentication.required_scopes(mount) == (None if scopes is None else {scopes})

    with pytest.raises(LookupError):
        authentication.required_scopes(Mount("/static", files))


def test_a_websocket_needs_a_decision_and_is_guarded() -> None:
    async def endpoint(_socket: object) -> None: ...

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.router.routes.append(WebSocketRoute("/endpoint", endpoint))
    with pytest.raises(LookupError, match="/endpoint"):
        authentication.install(app, KEYS)

    authentication.requires_scope(Scope.RUNS_READ)(endpoint)
    authentication.install(app, KEYS)

    (route,) = app.router.routes
    assert isinstance(getattr(route, "app", None), authentication.Guard)


def test_credentials_are_read_from_the_headers_of_enabled_methods() -> None:
    headers = [(b"host", b"h"), (b"x-api-key", b"k"), (b"authorization", b"bEaReR  t ")]

    both = authentication.CredentialsReader(BOTH)(headers)
    keys = authentication.CredentialsReader(KEYS)(headers)

    assert (both.api_key, both.token) == ("k", "t")
    assert (keys.api_key, keys.token) == ("k", None)


def test_other_schemes_than_bearer_and_empty_headers_are_ignored() -> None:
    for value in (b"Basic dTpw", b"Bearer", b"Bearertoken", b""):
        credentials = authentication.CredentialsReader(BOTH)([(b"authorization", value), (b"x-api-key", b"")])

        assert (credentials.api_key, credentials.token) == (None, None)


def test_a_repeated_credential_is_refused() -> None:
    with pytest.raises(InvalidApiKey):
        authentication.CredentialsReader(KEYS)([(b"x-api-key", b"k"), (b"x-api-key", b"k")])
    with pytest.raises(InvalidToken):
        authentication.CredentialsReader(BOTH)([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")])


def test_the_name_of_the_key_header_is_configurable() -> None:
    config = NatsBackendConfig(http_auth_mode="api_key", http_api_key_header="X-Team-Key")

    assert authentication.CredentialsReader(config)([(b"x-team-key", b"k"), (b"x-api-key", b"other")]).api_key == "k"
    assert "X-Team-Key" in authentication.challenge(config)
    assert authentication.challenge(BOTH).endswith('Bearer realm="pyoco-server"')


def test_a_flood_of_rejections_logs_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = RejectionLog(clock)
    with caplog.at_level(logging.INFO):
        for _ in range(1000):
            log.note(CredentialsMissing(reason="no credentials"), {"path": "/runs", "x_request_id": "r1"})
        assert len(caplog.records) == MAX_LINES
        clock.pass_time(WINDOW_SEC)
        log.note(InvalidApiKey(key_id="k", reason="revoked"), {"path": "/runs", "x_request_id": "r2"})
        log.note(CredentialsMissing(reason="no credentials"), {"path": "/runs", "x_request_id": "r3"})

    last, after = (record.__dict__ for record in caplog.records[-2:])
    assert "left_out" not in after
    assert (last["left_out"], last["key_id"], last["reason"]) == (1000 - MAX_LINES, "k", "revoked")
    assert (last["err_id"], last["x_request_id"], last["path"]) == ("ERR-PYOCO-0015", "r2", "/runs")
