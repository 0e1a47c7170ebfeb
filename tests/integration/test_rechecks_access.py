"""Who may ask for rechecks: scopes, audiences and tenants."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.pdca.ids import artifact_id, run_id_of
from pyoco_server.ports.pdca import StoredArtifact
from support.broker import Broker
from support.callers import ISSUER, RSA_KEY, api_key_headers, bearer_headers, claims_at, hand_out, pem_of, token_of
from support.gateways import gateway_settings, serving
from support.rechecks import BODY, BODY_FOR_ALL, ONE, key, register, services_behind

ALL = "pdca:read pdca:recheck pdca:recheck_all pdca:download"


@pytest.fixture
def settings(broker: Broker, tmp_path: Path) -> Any:
    """Settings of a gateway for these audiences."""
    (tmp_path / "key.pem").write_bytes(pem_of(RSA_KEY))

    def make(audience: str) -> NatsBackendConfig:
        return gateway_settings(
            broker.url,
            tmp_path,
            http_auth_mode="api_key,jwt",
            jwt_issuer=ISSUER,
            jwt_audience=audience,
            jwt_pem_file=str(tmp_path / "key.pem"),
        )

    return make


@pytest.fixture
async def client(settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(settings("pyoco, pdca,pdca.gui")) as opened:
        await register(services_behind(opened), ONE, tenant_id="team-a")
        yield opened


def token(audience: Any = "pdca", scope: str | None = ALL, **changed: Any) -> dict[str, str]:
    return bearer_headers(token_of(claims_at(time.time(), aud=audience, scope=scope, **changed)))


async def ask(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """The status and the error of one request to each kind of path."""
    if path.startswith("POST "):
        body = BODY_FOR_ALL if path.endswith("_all") else BODY
        response = await client.post(path.partition(" ")[2], json=body, headers=headers | key())
    else:
        response = await client.get(path, headers=headers)
    return response.status_code, response.json().get("error", "")


async def request_of(client: httpx.AsyncClient) -> str:
    response = await client.post("/pdca/recheck", json=BODY, headers=token() | key())
    assert response.status_code == 202, response.text
    request_id: str = response.json()["request_id"]
    return request_id


@pytest.mark.parametrize(
    ("path", "audience", "needed"),
    [
        ("POST /pdca/recheck", "pdca", ["pdca:recheck"]),
        ("POST /pdca/recheck_all", "pdca", ["pdca:recheck_all"]),
        ("/pdca/recheck/{id}", "pdca", ["pdca:read", "pdca:recheck", "pdca:recheck_all"]),
        ("/pdca/recheck/{id}", "pdca.gui", ["pdca:read", "pdca:recheck", "pdca:recheck_all"]),
        ("/gui/requests/{id}", "pdca.gui", ["pdca:read"]),
        ("/gui/artifacts/{artifact}/url", "pdca.gui", ["pdca:download"]),
    ],
)
async def test_each_path_needs_its_audience_and_one_of_its_scopes(
    client: httpx.AsyncClient, path: str, audience: str, needed: list[str]
) -> None:
    request_id = await request_of(client)
    artifact = artifact_id(run_id_of(request_id), 1, 1)
    await services_behind(client).stores.artifacts.put(artifact, StoredArtifact(media_type="text/plain", data=b"x"))
    path = path.format(id=request_id, artifact=artifact)
    others = " ".join(scope for scope in ALL.split() if scope not in needed)

    for scope in needed:
        assert (await ask(client, path, token(audience, scope)))[0] in (200, 202)
        assert (await ask(client, path, token(["other", audience], scope)))[0] in (200, 202)
    assert await ask(client, path, token(audience, others)) == (403, "FORBIDDEN")
    assert await ask(client, path, token(audience, None)) == (401, "UNAUTHORIZED")
    assert await ask(client, path, token("pyoco")) == (401, "UNAUTHORIZED")
    assert await ask(client, path, token("elsewhere")) == (401, "UNAUTHORIZED")
    assert await ask(client, path, {}) == (401, "UNAUTHORIZED")
    assert await ask(client, path, api_key_headers("nonsense")) == (401, "UNAUTHORIZED")
    if "recheck/" not in path:
        wrong = "pdca.gui" if audience == "pdca" else "pdca"
        assert await ask(client, path, token(wrong)) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("audience", ["pyoco", "pdca", "pdca.gui"])
async def test_other_apis_accept_every_configured_audience(client: httpx.AsyncClient, audience: str) -> None:
    assert (await client.get("/runs", headers=token(audience, "runs:read"))).status_code == 200
    assert (await client.get("/runs", headers=token(audience, None))).status_code == 403


async def test_a_deployment_with_an_audience_of_its_own_uses_it_everywhere(settings: Any) -> None:
    async with serving(settings("pyoco")) as client:
        await register(services_behind(client), ONE, tenant_id="team-a")

        asked = await client.post("/pdca/recheck", json=BODY, headers=token("pyoco") | key())
        shown = await client.get(f"/gui/requests/{asked.json()['request_id']}", headers=token("pyoco"))
        without = await client.post("/pdca/recheck", json=BODY, headers=token("pyoco", None) | key())

    assert (asked.status_code, shown.status_code, without.status_code) == (202, 200, 401)


async def test_a_request_and_its_artifacts_do_not_exist_for_another_tenant(client: httpx.AsyncClient) -> None:
    request_id = await request_of(client)
    artifact = artifact_id(run_id_of(request_id), 1, 1)
    await services_behind(client).stores.artifacts.put(artifact, StoredArtifact(media_type="text/plain", data=b"x"))

    for audience, path in (
        ("pdca", f"/pdca/recheck/{request_id}"),
        ("pdca.gui", f"/gui/requests/{request_id}"),
        ("pdca.gui", f"/gui/artifacts/{artifact}/url"),
    ):
        assert await ask(client, path, token(audience, tenant="team-b")) == (404, "NOT_FOUND")
        assert (await ask(client, path, token(audience, tenant="team-a")))[0] == 200
    assert await ask(client, "POST /pdca/recheck", token(tenant="team-b")) == (404, "NOT_FOUND")


async def test_the_same_key_of_two_tenants_is_two_requests(client: httpx.AsyncClient) -> None:
    await register(services_behind(client), ONE, tenant_id="team-b")
    same = key()

    asked = [
        await client.post("/pdca/recheck", json=BODY, headers=token(tenant=tenant) | same)
        for tenant in ("team-a", "team-b")
    ]

    assert len({response.json()["request_id"] for response in asked}) == 2


async def test_the_client_id_is_the_subject_or_the_id_of_the_key(client: httpx.AsyncClient, settings: Any) -> None:
    api_key = await hand_out(settings("pyoco"), "team-a", Scope.PDCA_RECHECK, Scope.RUNS_READ)
    callers = (token(scope=f"{ALL} runs:read", sub="ann"), api_key_headers(api_key))

    found = []
    for headers in callers:
        asked = await client.post("/pdca/recheck", json=BODY, headers=headers | key())
        run = await client.get(f"/runs/{run_id_of(asked.json()['request_id'])}", headers=headers)
        found.append(run.json()["params"]["client_id"])

    assert found == ["ann", api_key.split("_")[1]]
