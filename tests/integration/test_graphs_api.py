"""`/graphs` over HTTP on a real nats-server: put, get and list, by tenant and through two gateways."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.subjects import bucket_key
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.stores.graphs import graph_key
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.executions import code_of
from support.gateways import gateway_settings, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.yaml"
RELEASE: dict[str, Any] = {
    "title": "Release",
    "nodes": [
        "build",
        {"id": "test", "params": {"platforms": ["linux"]}, "maxAttempts": 3},
        {"id": "approve", "type": "wait", "title": "Go?", "prompt": {"question": "Ship it?"}, "timeoutSec": 60},
        "deploy",
    ],
    "edges": [["build", "test"], ["test", "approve"], ["approve", "deploy"]],
}
WHOLE = [
    {"id": "build", "type": "task"},
    {"id": "test", "type": "task", "params": {"platforms": ["linux"]}, "maxAttempts": 3},
    {
        "id": "approve",
        "type": "wait",
        "title": "Go?",
        "waitKey": "approve",
        "prompt": {"question": "Ship it?"},
        "timeoutSec": 60.0,
    },
    {"id": "deploy", "type": "task"},
]


async def put(
    client: httpx.AsyncClient, graph_id: str = "release", graph: Any = RELEASE, **more: Any
) -> httpx.Response:
    return await client.put(f"/graphs/{graph_id}", json=graph, **more)


def one(name: str) -> dict[str, Any]:
    return {"nodes": [name]}


async def test_a_graph_is_stored_and_returned_with_its_defaults(client: httpx.AsyncClient) -> None:
    response = await put(client)
    shown = await client.get("/graphs/release")

    assert response.status_code == 201, response.text
    body = response.json()
    assert body.pop("created") is True
    assert body == shown.json()
    assert body.pop("updatedAt").endswith("Z")
    assert body == {
        "graphId": "release",
        "version": 1,
        "title": "Release",
        "nodes": WHOLE,
        "edges": RELEASE["edges"],
        "updatedBy": None,
        "source": "graph",
    }
    assert response.headers["etag"] == shown.headers["etag"] == '"1"'


@pytest.mark.parametrize("kind", ["application/yaml", "application/x-yaml", "text/yaml; charset=utf-8", "TEXT/X-YAML"])
async def test_yaml_is_accepted_with_its_content_type(client: httpx.AsyncClient, kind: str) -> None:
    text = EXAMPLE.read_bytes()

    response = await client.put("/graphs/release", content=text, headers={"Content-Type": kind})
    as_json = await client.put("/graphs/release", content=text)

    assert response.status_code == 201, response.text
    assert [node["id"] for node in response.json()["nodes"]] == ["build", "test", "lint", "approve", "deploy"]
    assert code_of(as_json) == (422, "INVALID_GRAPH")


async def test_a_known_version_is_not_sent_again(client: httpx.AsyncClient) -> None:
    await put(client)

    for etag, status in (('"1"', 304), ('W/"1"', 304), ('"7", "1"', 304), ("*", 304), ('"2"', 200), ("1", 200)):
        response = await client.get("/graphs/release", headers={"If-None-Match": etag})

        assert (response.status_code, response.headers["etag"]) == (status, '"1"'), etag
        assert bool(response.content) == (status == 200)


async def test_a_put_may_require_the_current_version(client: httpx.AsyncClient) -> None:
    first = await put(client, graph=one("a"), params={"expectedVersion": 0})
    second = await put(client, graph=one("b"), headers={"If-Match": '"1"'})
    refused = [
        await put(client, graph=one("c"), params={"expectedVersion": 0}),
        await put(client, graph=one("c"), headers={"If-Match": '"1"'}),
        await put(client, "another", one("c"), headers={"If-Match": '"1"'}),
    ]
    unclear = [
        await put(client, graph=one("c"), headers={"If-Match": "2"}),
        await put(client, graph=one("c"), headers={"If-Match": '"1", "2"'}),
        await put(client, graph=one("c"), headers={"If-Match": '"2"'}, params={"expectedVersion": 1}),
        await put(client, graph=one("c"), params={"expectedVersion": -1}),
        await put(client, graph=one("c"), params={"expected_version": 2}),
        await client.put("/graphs/release?expectedVersion=2&expectedVersion=2", json=one("c")),
    ]

    assert (first.status_code, second.json()["version"]) == (201, 2)
    assert [code_of(response) for response in refused] == [(409, "GRAPH_VERSION_CONFLICT")] * 3
    assert [code_of(response) for response in unclear] == [(422, "INVALID_REQUEST")] * 6
    assert (await client.get("/graphs/release")).json()["version"] == 2


async def test_a_put_with_a_key_has_one_effect_for_json_and_yaml(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "put-1"}
    text = "nodes: [a]\n"

    first = await put(client, graph=one("a"), headers=key)
    changed = await put(client, graph=one("b"))
    again = await put(client, graph={"nodes": [{"id": "a", "type": "task"}]}, headers={"X-Idempotency-Key": "put-1"})
    yaml = await client.put("/graphs/release", content=text, headers=key | {"Content-Type": "application/yaml"})
    other = await put(client, graph=one("c"), headers=key)
    condition = await put(client, graph=one("a"), headers=key | {"If-Match": '"2"'})
    elsewhere = await put(client, "another", one("a"), headers=key)

    assert (first.status_code, changed.json()["version"]) == (201, 2)
    for response in (again, yaml):
        assert (response.status_code, response.content, response.headers["etag"]) == (201, first.content, '"1"')
        assert response.headers["idempotency-replayed"] == "true"
    assert [code_of(response) for response in (other, condition)] == [(409, "IDEMPOTENCY_CONFLICT")] * 2
    assert (elsewhere.status_code, "idempotency-replayed" in elsewhere.headers) == (201, False)
    assert (await client.get("/graphs/release")).json()["version"] == 2


async def test_a_put_of_the_largest_graph_with_a_key_has_one_effect(client: httpx.AsyncClient) -> None:
    graph = {"nodes": [{"id": f"n{number}", "params": {"text": "x" * 80}} for number in range(2000)]}

    responses = [await put(client, graph=graph, headers={"Idempotency-Key": "put-5"}) for _ in range(2)]

    assert [response.status_code for response in responses] == [201, 201], responses[0].text[:500]
    assert "idempotency-replayed" in responses[1].headers


async def test_a_missing_graph_is_a_404_under_any_name(client: httpx.AsyncClient) -> None:
    for name in ("nothing", "%2e%2e", "x" * 400, "%00", "%ff"):
        response = await client.get(f"/graphs/{name}")

        assert code_of(response) == (404, "GRAPH_NOT_FOUND"), name


@pytest.mark.parametrize("name", ["%2e", "%2e%2e", "x" * 129, "a%0Ab", "%00", "%E2%80%8B"])
async def test_a_name_that_is_no_path_segment_is_rejected(client: httpx.AsyncClient, name: str) -> None:
    response = await put(client, name)

    assert code_of(response) == (422, "INVALID_GRAPH")


async def test_graphs_are_paged_by_id_with_their_size(client: httpx.AsyncClient) -> None:
    for name in ("rotate", "release", "backup", "日 報", "a.b"):
        assert (await put(client, name)).status_code == 201

    whole = (await client.get("/graphs")).json()
    first = (await client.get("/graphs", params={"limit": 2})).json()
    second = (await client.get("/graphs", params={"limit": 2, "cursor": first["nextCursor"]})).json()
    some = (await client.get("/graphs", params={"q": "r"})).json()

    assert [item["graphId"] for item in whole["items"]] == ["a.b", "backup", "release", "rotate", "日 報"]
    assert whole["nextCursor"] is None
    assert [item["graphId"] for item in first["items"] + second["items"]] == ["a.b", "backup", "release", "rotate"]
    assert [item["graphId"] for item in some["items"]] == ["release", "rotate"]
    item = some["items"][0]
    assert item.pop("updatedAt").endswith("Z")
    assert item == {
        "graphId": "release",
        "version": 1,
        "title": "Release",
        "updatedBy": None,
        "source": "graph",
        "nodeCount": 4,
        "edgeCount": 3,
    }
    for query in ({"limit": 0}, {"limit": 201}, {"cursor": "!"}, {"prefix": "r"}):
        assert (await client.get("/graphs", params=query)).status_code == 422


async def test_concurrent_puts_at_two_gateways_get_different_versions(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path
) -> None:
    async with serving(config) as ours, serving(gateway_settings(broker.url, tmp_path / "theirs")) as theirs:
        responses = await asyncio.gather(
            *(put(gateway, graph=one(f"{name}{n}")) for n in range(4) for name, gateway in (("a", ours), ("b", theirs)))
        )
        shown = [(await gateway.get("/graphs/release")).json() for gateway in (ours, theirs)]
        same = await asyncio.gather(*(put(gateway, "same", one("x")) for gateway in (ours, theirs) * 3))

    assert sorted(response.json()["version"] for response in responses) == list(range(1, 9))
    assert sorted(response.status_code for response in responses) == [200] * 7 + [201]
    last = max((response.json() for response in responses), key=lambda body: body["version"])
    assert shown == [{name: value for name, value in last.items() if name != "created"}] * 2
    assert [response.json()["version"] for response in same] == [1] * 6
    assert sorted(response.status_code for response in same) == [200] * 5 + [201]


async def test_a_graph_belongs_to_the_tenant_that_stored_it(
    config: NatsBackendConfig, broker: Broker, tmp_path: Path
) -> None:
    guarded = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
    keys = [
        api_key_headers(await hand_out(guarded, team, Scope.GRAPHS_WRITE, Scope.RUNS_READ))
        for team in ("team-a", "team-b")
    ]
    reader = api_key_headers(await hand_out(guarded, "team-a", Scope.RUNS_READ))
    admin = api_key_headers(await hand_out(guarded, "ops", Scope.ADMIN))
    async with serving(config) as client:
        await put(client, "without-tenant")
    async with serving(guarded) as client:
        missing = await client.get("/graphs/release", headers=keys[1])
        response = await put(client, headers=keys[0])
        strangers = [await client.get("/graphs/release", headers=other) for other in (keys[1], admin)]
        own = await put(client, graph=one("b"), headers=keys[1])
        lists = [(await client.get("/graphs", headers=key)).json()["items"] for key in (*keys, reader, admin)]
        forbidden = await put(client, graph=one("c"), headers=reader)
        unknown = await put(client)

    assert response.json()["updatedBy"] == keys[0]["X-API-Key"].split("_")[1]
    assert [stranger.json() for stranger in strangers] == [missing.json()] * 2
    assert (own.status_code, own.json()["version"]) == (201, 1)
    assert [[item["graphId"] for item in items] for items in lists] == [["release"], ["release"], ["release"], []]
    assert (forbidden.status_code, "graphs:write" in forbidden.json()["error"]["message"]) == (403, True)
    assert unknown.status_code == 401


async def test_foreign_entries_in_the_bucket_are_ignored(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    await put(client, "good")
    key = bucket_key(config.graphs_kv_bucket, graph_key(None, "odd"))
    async with await Connection.open(config, name="stranger") as stranger:
        strange = [key, *(bucket_key(config.graphs_kv_bucket, f"-.{token}") for token in ("x", "_w", "Z29vZA-", "gg"))]
        for subject in strange:
            await stranger.request(subject, b"\xff not a graph")

    listed = (await client.get("/graphs")).json()["items"]
    missing = await client.get("/graphs/odd")
    mended = await put(client, "odd")

    assert [item["graphId"] for item in listed] == ["good"]
    assert missing.status_code == 404
    assert (mended.status_code, mended.json()["version"]) == (201, 1)
    assert [item["graphId"] for item in (await client.get("/graphs")).json()["items"]] == ["good", "odd"]


async def test_without_a_broker_graphs_are_unavailable_and_not_missing(
    client: httpx.AsyncClient, broker: Broker
) -> None:
    await put(client)
    broker.kill()

    responses = [await put(client, graph=one("b")), await client.get("/graphs/release"), await client.get("/graphs")]

    assert [response.status_code for response in responses] == [503] * 3
