"""A gateway that does not let everybody in: every way to be refused, on a real nats-server."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
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
    bearing,
    claims_at,
    hand_out,
    jwks_of,
    pem_of,
    showing,
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


def told(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["err_id"]


def good_token(**changed: Any) -> str:
    return token_of(claims_at(time.time(), **changed))


async def test_without_a_key_only_health_is_available(settings: Any) -> None:
    async with serving(settings("api_key")) as client:
        for path in ("/runs", "/runs/x", "/runs/x/tasks", "/docs", "/openapi.json"):
            answer = await client.get(path)

            assert told(answer) == (401, "ERR-PYOCO-0014"), path
            assert answer.headers["www-authenticate"].startswith("ApiKey ")
        assert told(await client.post("/runs", json={"flow_name": "hello"})) == (401, "ERR-PYOCO-0014")
        assert (await client.head("/openapi.json")).status_code == 401
        assert (await client.get("/health")).status_code == 200


async def test_a_run_submitted_with_a_key_has_its_tenant_and_key_id(settings: Any) -> None:
    config = settings("api_key")
    key = await hand_out(config)
    async with serving(config) as client, open_stores(config, name="test") as stores:
        client.headers.update(showing(key))
        run_id = await submit(client)
        run = (await client.get(f"/runs/{run_id}")).json()
        await client.post(f"/runs/{run_id}/cancel")
        commits = await stores.events.read(RunId(run_id))

        assert (run["tenant_id"], run["api_key_id"]) == ("team-a", key.split("_")[1])
        assert [commit.commit.actor.id for commit in commits[:2]] == [run["api_key_id"]] * 2
        assert (await client.get("/openapi.json")).status_code == 200


async def test_an_invalid_key_is_a_403_where_the_contract_requires_it_else_a_401(
    settings: Any,
) -> None:
    async with serving(settings("api_key")) as client:
        for shown in (KEY, "nonsense", "x" * 5000, "pyoco__"):
            assert told(await client.get("/runs", headers=showing(shown))) == (403, "ERR-PYOCO-0015")
            elsewhere = await client.get("/openapi.json", headers=showing(shown))
            assert told(elsewhere) == (401, "ERR-PYOCO-0015")
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
    key, all_of_it = await hand_out(config, "team-a", *scopes), await hand_out(config, "team-a", Scope.ADMIN)
    async with serving(config) as client:
        client.headers.update(showing(all_of_it))
        run_id = await submit(client)
        client.headers.update(showing(key))
        asked = {
            "read": [await client.get(path) for path in ("/runs", f"/runs/{run_id}", f"/runs/{run_id}/tasks")],
            "write": [await client.post("/runs", json={"flow_name": "hello"})],
            "cancel": [await client.post(f"/runs/{run_id}/cancel")],
        }

    for what, answers in asked.items():
        for answer in answers:
            if what in refused:
                assert told(answer) == (403, "ERR-PYOCO-0036")
                assert refused[what] in answer.json()["detail"]
            else:
                assert answer.status_code == 200


async def test_a_run_submitted_with_a_token_has_its_tenant_and_subject(settings: Any) -> None:
    config = settings("jwt")
    async with serving(config) as client, open_stores(config, name="test") as stores:
        client.headers.update(bearing(good_token()))
        run_id = await submit(client)
        run = (await client.get(f"/runs/{run_id}")).json()
        (created, *_) = await stores.events.read(RunId(run_id))

        assert (run["tenant_id"], run.get("api_key_id")) == ("team-a", None)
        assert created.commit.actor.id == "ann"
        assert told(await client.post(f"/runs/{run_id}/cancel")) == (403, "ERR-PYOCO-0036")


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
                answer = await client.get(path, headers=bearing(token))

                assert told(answer) == (401, "ERR-PYOCO-0037")
                assert answer.headers["www-authenticate"] == 'Bearer realm="pyoco-server"'
        for other in ({}, showing(KEY), {"Authorization": "Basic dTpw"}):
            assert told(await client.get("/runs", headers=other)) == (401, "ERR-PYOCO-0014")


async def test_with_both_modes_either_credential_is_valid_and_both_together_are_not(settings: Any) -> None:
    config = settings("api_key,jwt")
    key = await hand_out(config)
    async with serving(config) as client:
        assert (await client.get("/runs", headers=showing(key))).status_code == 200
        assert (await client.get("/runs", headers=bearing(good_token()))).status_code == 200
        assert told(await client.get("/runs", headers=showing(key) | bearing(good_token()))) == (401, "ERR-PYOCO-0037")
        assert told(await client.get("/runs")) == (401, "ERR-PYOCO-0014")


async def test_token_keys_rotate_without_a_restart(settings: Any, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks_of(old=RSA_KEY))
    config = settings("jwt", jwt_pem_file="", jwt_jwks_file=str(file))
    old = token_of(claims_at(time.time()), headers={"kid": "old"})
    new = token_of(claims_at(time.time()), OTHER_RSA_KEY, headers={"kid": "new"})
    async with serving(config) as client:
        assert (await client.get("/runs", headers=bearing(old))).status_code == 200
        assert (await client.get("/runs", headers=bearing(new))).status_code == 401

        file.write_bytes(jwks_of(new=OTHER_RSA_KEY))

        async with asyncio.timeout(20):
            while (await client.get("/runs", headers=bearing(new))).status_code != 200:
                pass  # the file is looked at once a second
        assert (await client.get("/runs", headers=bearing(old))).status_code == 401


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
        scope = {"type": "http", "method": "POST", "path": "/runs", "headers": [], "query_string": b""}
        await app(scope, receive, send)

    assert sent[0]["status"] == 401


async def test_responses_without_authentication_contain_no_data(settings: Any) -> None:
    async with serving(settings("api_key")) as client:
        for method, path, status in (
            ("OPTIONS", "/runs", 405),
            ("DELETE", "/runs/x", 405),
            ("GET", "/nothing", 404),
            ("GET", "/runs/", 307),
        ):
            answer = await client.request(method, path)

            assert answer.status_code == status
            assert "run_id" not in answer.text


async def test_a_key_of_another_pepper_is_rejected_with_the_reason_in_the_log(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key = await hand_out(settings("api_key", auth_pepper="another pepper"))
    with caplog.at_level(logging.INFO):
        async with serving(settings("api_key")) as client:
            answer = await client.get("/runs", headers=showing(key))

    assert told(answer) == (403, "ERR-PYOCO-0015")
    assert "PEPPER" not in answer.text
    reasons = [record.__dict__.get("reason") for record in caplog.records if record.message == "request rejected"]
    assert reasons == ["made with another PYOCO_AUTH_PEPPER than this gateway has"]


async def test_no_secret_is_in_any_log_line(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    config = settings("api_key,jwt")
    with caplog.at_level(logging.DEBUG):
        key, few = await hand_out(config), await hand_out(config, "team-a", Scope.RUNS_READ)
        token, expired = good_token(), good_token(exp=1.0)
        async with serving(config) as client:
            for shown in (key, few, KEY, f"{key[:-1]}_"):
                await client.post("/runs", json={"flow_name": "hello"}, headers=showing(shown))
            for shown in (token, expired, f"{token}x"):
                await client.post("/runs", json={"flow_name": "hello"}, headers=bearing(shown))
            await client.get("/runs", headers=showing(key) | bearing(token))

    # Formatted without what the formatter itself would take out.
    lines = JsonLines("test", NatsBackendConfig())
    text = "\n".join(lines.format(record) for record in caplog.records if record.name.startswith("pyoco_server"))
    assert "request rejected" in text
    for secret in (key, few, KEY, token, expired):
        assert secret not in text
        assert secret[-20:] not in text
    assert PEPPER not in text
