"""Access control of a gateway on a real nats-server: every reason to reject credentials."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_api_keys, open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_api import create_app
from pyoco_server.logs import JsonLines
from support.broker import Broker
from support.callers import (
    AUDIENCE,
    ISSUER,
    KEY,
    OTHER_RSA_KEY,
    RSA_KEY,
    api_key_headers,
    bearer_headers,
    claims_at,
    hand_out,
    jwks_of,
    pem_of,
    token_of,
)
from support.gateways import gateway_settings, serving, submit

PEPPER = "a pepper for these tests"


@pytest.fixture
def settings(broker: Broker, tmp_path: Path) -> Any:
    """Settings of a gateway with this mode."""
    (tmp_path / "key.pem").write_bytes(pem_of(RSA_KEY))

    def make(mode: str, **changed: Any) -> NatsBackendConfig:
        tokens = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_pem_file": str(tmp_path / "key.pem")}
        chosen = tokens if "jwt" in mode else {}
        values = {"http_auth_mode": mode, "auth_pepper": PEPPER, **chosen, **changed}
        return gateway_settings(broker.url, tmp_path, **values)

    return make


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["err_id"]


def good_token(**changed: Any) -> str:
    return token_of(claims_at(time.time(), **changed))


async def test_without_a_key_only_health_is_available(settings: Any) -> None:
    async with serving(settings("api_key")) as client:
        for path in ("/runs", "/runs/x", "/runs/x/tasks", "/docs", "/openapi.json"):
            response = await client.get(path)

            assert error_of(response) == (401, "ERR-PYOCO-0014"), path
            assert response.headers["www-authenticate"].startswith("ApiKey ")
        assert error_of(await client.post("/runs", json={"flow_name": "hello"})) == (401, "ERR-PYOCO-0014")
        assert (await client.head("/openapi.json")).status_code == 401
        assert (await client.get("/health")).status_code == 200


async def test_a_run_submitted_with_a_key_has_its_tenant_and_key_id(settings: Any) -> None:
    config = settings("api_key")
    key = await hand_out(config)
    async with serving(config) as client, open_stores(config, name="test") as stores:
        client.headers.update(api_key_headers(key))
        run_id = await submit(client)
        run = (await client.get(f"/runs/{run_id}")).json()
        await client.post(f"/runs/{run_id}/cancel")
        commits = await stores.events.read(RunId(run_id))

        assert (run["tenant_id"], run["api_key_id"]) == ("team-a", key.split("_")[1])
        assert [commit.commit.actor.id for commit in commits[:2]] == [run["api_key_id"]] * 2
        assert (await client.get("/openapi.json")).status_code == 200


async def test_an_invalid_key_is_a_403_where_the_contract_requires_it_else_a_401(settings: Any) -> None:
    async with serving(settings("api_key")) as client:
        for credential in (KEY, "nonsense", "x" * 5000, "pyoco__"):
            assert error_of(await client.get("/runs", headers=api_key_headers(credential))) == (403, "ERR-PYOCO-0015")
            elsewhere = await client.get("/openapi.json", headers=api_key_headers(credential))
            assert error_of(elsewhere) == (401, "ERR-PYOCO-0015")
            assert elsewhere.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("scopes", "refused"),
    [
        ({Scope.RUNS_READ}, {"write": "runs:write", "cancel": "runs:cancel"}),
        ({Scope.RUNS_WRITE}, {"read": "runs:read", "cancel": "runs:cancel"}),
        ({Scope.RUNS_CANCEL}, {"read": "runs:read", "write": "runs:write"}),
        (EVERY_SCOPE - {Scope.ADMIN}, {}),
        ({Scope.ADMIN}, {}),
    ],
    ids=lambda value: ",".join(sorted(str(one) for one in value)),
)
async def test_each_route_requires_its_scope_and_names_a_missing_one(
    settings: Any, scopes: set[Scope], refused: dict[str, str]
) -> None:
    config = settings("api_key")
    key, admin = await hand_out(config, "team-a", *scopes), await hand_out(config, "team-a", Scope.ADMIN)
    async with serving(config) as client:
        client.headers.update(api_key_headers(admin))
        run_id = await submit(client)
        client.headers.update(api_key_headers(key))
        requests = {
            "read": [await client.get(path) for path in ("/runs", f"/runs/{run_id}", f"/runs/{run_id}/tasks")],
            "write": [await client.post("/runs", json={"flow_name": "hello"})],
            "cancel": [await client.post(f"/runs/{run_id}/cancel")],
        }

    for what, responses in requests.items():
        for response in responses:
            if what in refused:
                assert error_of(response) == (403, "ERR-PYOCO-0036")
                assert refused[what] in response.json()["detail"]
            else:
                assert response.status_code == 200


async def test_a_run_submitted_with_a_token_has_its_tenant_and_subject(settings: Any) -> None:
    config = settings("jwt")
    async with serving(config) as client, open_stores(config, name="test") as stores:
        client.headers.update(bearer_headers(good_token()))
        run_id = await submit(client)
        run = (await client.get(f"/runs/{run_id}")).json()
        (created, *_) = await stores.events.read(RunId(run_id))

        assert (run["tenant_id"], run.get("api_key_id")) == ("team-a", None)
        assert created.commit.actor.id == "ann"
        assert error_of(await client.post(f"/runs/{run_id}/cancel")) == (403, "ERR-PYOCO-0036")


async def test_an_invalid_token_is_always_a_401(settings: Any) -> None:
    async with serving(settings("jwt")) as client:
        for token in (
            "nonsense",
            good_token(exp=time.time() - 60),
            good_token(aud="other"),
            good_token(iss="other"),
            good_token(tenant=None),
            token_of(claims_at(time.time()), OTHER_RSA_KEY),
        ):
            for path in ("/runs", "/openapi.json"):
                response = await client.get(path, headers=bearer_headers(token))

                assert error_of(response) == (401, "ERR-PYOCO-0037")
                assert response.headers["www-authenticate"] == 'Bearer realm="pyoco-server"'
        for other in ({}, api_key_headers(KEY), {"Authorization": "Basic dTpw"}):
            assert error_of(await client.get("/runs", headers=other)) == (401, "ERR-PYOCO-0014")


async def test_with_both_modes_either_credential_is_valid_and_both_together_are_not(settings: Any) -> None:
    config = settings("api_key,jwt")
    key = await hand_out(config)
    async with serving(config) as client:
        assert (await client.get("/runs", headers=api_key_headers(key))).status_code == 200
        assert (await client.get("/runs", headers=bearer_headers(good_token()))).status_code == 200
        assert error_of(await client.get("/runs", headers=api_key_headers(key) | bearer_headers(good_token()))) == (
            401,
            "ERR-PYOCO-0037",
        )
        assert error_of(await client.get("/runs")) == (401, "ERR-PYOCO-0014")


async def test_any_caller_learns_its_name_tenant_scopes_and_expiry(settings: Any) -> None:
    config = settings("api_key,jwt")
    expires_at = time.time() + 600
    async with open_api_keys(config) as keys:
        handed_out = await keys.hand_out("team-a", frozenset({Scope.DLQ_READ}), expires_at=expires_at)
    token = good_token(exp=int(expires_at), scope="wheels:read of-another-service")
    async with serving(config) as client:
        of_key = (await client.get("/whoami", headers=api_key_headers(handed_out.api_key))).json()
        of_token = (await client.get("/whoami", headers=bearer_headers(token))).json()
        refused = await client.get("/whoami", headers=api_key_headers(KEY))
        unnamed = await client.get("/whoami")

    assert of_key == {
        "client_id": handed_out.api_key.split("_")[1],
        "kind": "api_key",
        "tenant_id": "team-a",
        "scopes": ["dlq:read"],
        "audiences": None,
        "expires_at": pytest.approx(expires_at),
    }
    assert of_token == {
        "client_id": "ann",
        "kind": "jwt",
        "tenant_id": "team-a",
        "scopes": ["wheels:read"],
        "audiences": [AUDIENCE],
        "expires_at": int(expires_at),
    }
    assert [error_of(refused), error_of(unnamed)] == [(401, "ERR-PYOCO-0015"), (401, "ERR-PYOCO-0014")]


async def test_without_access_control_every_caller_is_anonymous_and_may_do_everything(settings: Any) -> None:
    async with serving(settings("none")) as client:
        shown = (await client.get("/whoami", headers=api_key_headers(KEY))).json()

    assert (shown["client_id"], shown["kind"], shown["tenant_id"]) == ("anonymous", "anonymous", None)
    assert set(shown["scopes"]) == {scope.value for scope in Scope}


async def test_token_keys_rotate_without_a_restart(settings: Any, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks_of(old=RSA_KEY))
    config = settings("jwt", jwt_pem_file="", jwt_jwks_file=str(file))
    old = token_of(claims_at(time.time()), headers={"kid": "old"})
    new = token_of(claims_at(time.time()), OTHER_RSA_KEY, headers={"kid": "new"})
    async with serving(config) as client:
        assert (await client.get("/runs", headers=bearer_headers(old))).status_code == 200
        assert (await client.get("/runs", headers=bearer_headers(new))).status_code == 401

        file.write_bytes(jwks_of(new=OTHER_RSA_KEY))

        async with asyncio.timeout(20):
            while (await client.get("/runs", headers=bearer_headers(new))).status_code != 200:
                pass  # the file is checked once a second
        assert (await client.get("/runs", headers=bearer_headers(old))).status_code == 401


async def test_a_missing_key_file_prevents_the_start(settings: Any, tmp_path: Path) -> None:
    app = create_app(settings("jwt", jwt_pem_file=str(tmp_path / "missing.pem")))

    with pytest.raises(InvalidUsage, match=r"missing\.pem"):
        async with app.router.lifespan_context(app):
            raise AssertionError("it started")


async def test_an_unauthenticated_request_is_rejected_before_its_body_is_read(settings: Any) -> None:
    app = create_app(settings("api_key"))
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    async with app.router.lifespan_context(app):
        scope = {"type": "http", "method": "POST", "path": "/runs", "query_string": b""}
        scope["headers"] = [(b"host", b"localhost")]
        await app(scope, receive, send)

    assert sent[0]["status"] == 401


async def test_responses_without_authentication_contain_no_data(settings: Any) -> None:
    async with serving(settings("api_key")) as client:
        for method, path, status in (
            ("OPTIONS", "/runs", 405),
            ("DELETE", "/runs/x", 405),
            ("GET", "/nothing", 404),
            ("GET", "/runs/", 404),
        ):
            response = await client.request(method, path)

            assert response.status_code == status
            assert "run_id" not in response.text


async def test_a_key_of_another_pepper_is_rejected_with_the_reason_in_the_log(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key = await hand_out(settings("api_key", auth_pepper="another pepper"))
    with caplog.at_level(logging.INFO):
        async with serving(settings("api_key")) as client:
            response = await client.get("/runs", headers=api_key_headers(key))

    assert error_of(response) == (403, "ERR-PYOCO-0015")
    assert "PEPPER" not in response.text
    reasons = [record.__dict__.get("reason") for record in caplog.records if record.message == "request rejected"]
    assert reasons == ["made with another PYOCO_AUTH_PEPPER than this gateway has"]


async def test_no_secret_is_in_any_log_line(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    config = settings("api_key,jwt")
    with caplog.at_level(logging.DEBUG):
        key, few = await hand_out(config), await hand_out(config, "team-a", Scope.RUNS_READ)
        token, expired = good_token(), good_token(exp=1.0)
        async with serving(config) as client:
            for credential in (key, few, KEY, f"{key[:-1]}_"):
                await client.post("/runs", json={"flow_name": "hello"}, headers=api_key_headers(credential))
            for credential in (token, expired, f"{token}x"):
                await client.post("/runs", json={"flow_name": "hello"}, headers=bearer_headers(credential))
            await client.get("/runs", headers=api_key_headers(key) | bearer_headers(token))

    # Formatted without the redaction of the formatter.
    lines = JsonLines("test", NatsBackendConfig())
    text = "\n".join(lines.format(record) for record in caplog.records if record.name.startswith("pyoco_server"))
    assert "request rejected" in text
    for secret in (key, few, KEY, token, expired):
        assert secret not in text
        assert secret[-20:] not in text
    assert PEPPER not in text
