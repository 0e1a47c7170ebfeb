"""`/wheels` on a real nats-server: registration, rejection, and history."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.pieces import Pieces
from pyoco_server.domain.auth.scopes import Scope
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, serving
from support.wheels import NAME, described, wheel, wheel_name, zipped


async def upload(client: httpx.AsyncClient, name: str = NAME, data: bytes | None = None, **form: str) -> httpx.Response:
    files = {"wheel": (name, wheel() if data is None else data, "application/octet-stream")}
    return await client.post("/wheels", files=files, data=form)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["err_id"]


async def uploads_stored(broker: Broker, tmp_path: Path) -> int:
    async with await Connection.open(gateway_settings(broker.url, tmp_path)) as connection:
        return len(await Pieces(connection, "pyoco_wheels").upload_ids())


async def test_a_wheel_is_registered_listed_and_downloaded_unchanged(client: httpx.AsyncClient) -> None:
    data = wheel(files={"demo/data.bin": bytes(range(256)) * 4000})

    response = await upload(client, data=data, tags="gpu, batch,gpu")

    assert response.status_code == 200, response.text
    registered = response.json()
    digest = hashlib.sha256(data).hexdigest()
    assert registered["name"] == NAME
    assert registered["size_bytes"] == len(data)
    assert registered["bucket"] == "pyoco_wheels"
    assert registered["sha256_hex"] == digest
    assert registered["tags"] == ["gpu", "batch"]
    assert (await client.get("/wheels")).json() == [registered]
    got = await client.get(f"/wheels/{NAME}")
    assert got.content == data
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-length"] == str(len(data))
    assert got.headers["etag"] == f'"{digest}"'
    assert got.headers["content-disposition"] == f'attachment; filename="{NAME}"'


async def test_a_wheel_without_tags_is_for_all_workers(client: httpx.AsyncClient) -> None:
    assert (await upload(client)).json()["tags"] == []


@pytest.mark.parametrize("replace", ["true", "false", "1", "0", "True"])
async def test_a_second_upload_of_a_file_is_a_conflict_even_with_replace(
    client: httpx.AsyncClient, replace: str
) -> None:
    await upload(client)

    again = await upload(client, replace=replace)

    assert error_of(again) == (409, "ERR-PYOCO-0022")
    assert NAME in again.json()["detail"]


async def test_only_newer_versions_of_a_package_are_accepted(client: httpx.AsyncClient) -> None:
    assert (await upload(client, wheel_name(version="1.10"), wheel(version="1.10"))).status_code == 200

    older = await upload(client, wheel_name(version="1.9"), wheel(version="1.9"))
    spelled = await upload(client, wheel_name("Demo", "1.10.0"), wheel("Demo", "1.10.0"))
    platform = await upload(client, wheel_name(version="1.10", tag="cp311-cp311-win_amd64"), wheel(version="1.10"))
    newer = await upload(client, wheel_name(version="1.11"), wheel(version="1.11"))
    other = await upload(client, wheel_name("other"), wheel("other"))

    assert [error_of(response) for response in (older, spelled, platform)] == [(409, "ERR-PYOCO-0022")] * 3
    assert [response.status_code for response in (newer, other)] == [200, 200]
    names = [one["name"] for one in (await client.get("/wheels")).json()]
    assert names == [wheel_name(version="1.10"), wheel_name(version="1.11"), wheel_name("other")]


async def test_a_deleted_version_can_be_uploaded_again(client: httpx.AsyncClient) -> None:
    await upload(client)

    deleted = await client.delete(f"/wheels/{NAME}")

    assert (deleted.status_code, deleted.json()) == (200, {"name": NAME, "deleted": True})
    assert (await client.get("/wheels")).json() == []
    assert error_of(await client.get(f"/wheels/{NAME}")) == (404, "ERR-PYOCO-0023")
    assert error_of(await client.delete(f"/wheels/{NAME}")) == (404, "ERR-PYOCO-0023")
    assert (await upload(client)).status_code == 200


@pytest.mark.parametrize("name", ["nothing.whl", "..%2F..%2Fetc", "%00", "x" * 5000])
async def test_an_unknown_wheel_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    for method in ("GET", "DELETE"):
        assert (await client.request(method, f"/wheels/{name}")).status_code == 404


BAD: list[tuple[str, bytes]] = [
    (NAME, b""),
    (NAME, b"no zip"),
    (NAME, wheel()[:-30]),
    (NAME, wheel(files={"../evil.py": b""})),
    (NAME, wheel(files={"demo/zeros": b"\0" * 40_000_000})),
    (NAME, wheel("other")),
    (NAME, wheel(version="2.0")),
    (NAME, zipped({"demo.py": b"", **{k: v for k, v in described().items() if not k.endswith("METADATA")}})),
    ("demo.zip", wheel()),
    ("demo-1.0.whl", wheel()),
    ("../" + NAME, wheel()),
    ("a b-1.0-py3-none-any.whl", wheel()),
    ("", wheel()),
]


async def test_a_file_that_does_not_match_its_name_is_rejected_and_leaves_nothing(
    client: httpx.AsyncClient, broker: Broker, tmp_path: Path
) -> None:
    for name, data in BAD:
        assert error_of(await upload(client, name, data)) == (422, "ERR-PYOCO-0002"), name

    assert (await client.get("/wheels")).json() == []
    assert await uploads_stored(broker, tmp_path) == 0
    assert (await client.get("/wheels/history")).json() == []


@pytest.mark.parametrize("form", [{"tags": "a b"}, {"tags": "a,,b"}, {"replace": "maybe"}, {"unknown": "x"}])
async def test_a_form_with_an_invalid_field_is_rejected(client: httpx.AsyncClient, form: dict[str, str]) -> None:
    assert error_of(await upload(client, NAME, wheel(), **form)) == (422, "ERR-PYOCO-0002")


async def test_a_request_without_a_wheel_form_is_rejected_with_an_example(client: httpx.AsyncClient) -> None:
    for response in (
        await client.post("/wheels", content=wheel()),
        await client.post("/wheels", files={"tags": (None, b"gpu")}),
        await client.post("/wheels", files={"wheel": (None, wheel())}),
    ):
        assert error_of(response) == (422, "ERR-PYOCO-0002")
        assert "demo-1.0-py3-none-any.whl" in response.json()["detail"]


async def test_a_wheel_above_its_limit_is_rejected_and_other_bodies_keep_their_limit(
    broker: Broker, tmp_path: Path
) -> None:
    data = wheel(files={"demo/data.bin": bytes(range(256)) * 20_000})
    config = gateway_settings(broker.url, tmp_path, wheel_max_bytes=len(data), http_max_body_bytes=10_000)
    larger = wheel(files={"demo/data.bin": hashlib.sha512(b"").digest() * 10_000, "x": bytes(range(256)) * 999})
    async with serving(config) as client:
        assert len(data) > 10_000
        fits = await upload(client, data=data)
        too_large = await upload(client, wheel_name(version="2"), data + b"x")
        much_too_large = await upload(client, wheel_name(version="2"), larger * 30)
        elsewhere = await client.post("/runs", content=b"x" * 20_000)

    assert fits.status_code == 200
    assert [error_of(response) for response in (too_large, much_too_large, elsewhere)] == [(413, "ERR-PYOCO-0002")] * 3


async def test_every_change_is_in_the_history_with_source_and_actor(client: httpx.AsyncClient) -> None:
    other = wheel_name("other")
    client.headers.update({"User-Agent": "a test", "X-Request-Id": "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ"})
    await upload(client, tags="gpu")
    await upload(client, other, wheel("other"))
    await client.delete(f"/wheels/{NAME}")

    events = (await client.get("/wheels/history")).json()

    assert [(event["action"], event["wheel_name"], event["tags"]) for event in events] == [
        ("delete", NAME, ["gpu"]),
        ("upload", other, []),
        ("upload", NAME, ["gpu"]),
    ]
    assert events[0]["source"] == {
        "client": "127.0.0.1",
        "user_agent": "a test",
        "request_id": "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ",
    }
    assert events[0]["actor"] == {"kind": "anonymous"}
    assert events[0]["occurred_at"] >= events[1]["occurred_at"] >= events[2]["occurred_at"]
    assert len({event["event_id"] for event in events}) == 3

    async def history(**query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.get("/wheels/history", params=query)).json()
        return found

    assert await history(limit=1) == events[:1]
    assert await history(action="upload") == events[1:]
    assert await history(wheel_name=NAME) == [events[0], events[2]]
    assert await history(wheel_name=NAME, action="delete") == events[:1]


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "action=replace", "wheel_name=demo", "who=me"])
async def test_an_invalid_history_query_is_rejected(client: httpx.AsyncClient, query: str) -> None:
    assert error_of(await client.get(f"/wheels/history?{query}")) == (422, "ERR-PYOCO-0002")


async def test_one_of_two_concurrent_uploads_at_two_gateways_is_accepted(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    data = wheel(files={"demo/data.bin": bytes(range(256)) * 8_000})
    async with (
        serving(gateway_settings(broker.url, tmp_path)) as one,
        serving(gateway_settings(broker.url, tmp_path / "other")) as two,
    ):
        responses = await asyncio.gather(*(upload(client, data=data) for client in (one, two) * 3))

        assert sorted(response.status_code for response in responses) == [200] + [409] * 5
        assert len((await one.get("/wheels")).json()) == 1
        assert len((await two.get("/wheels/history")).json()) == 1
        assert (await two.get(f"/wheels/{NAME}")).content == data
    assert await uploads_stored(broker, tmp_path) == 1


async def test_the_registry_requires_its_scopes(broker: Broker, tmp_path: Path) -> None:
    config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key", auth_pepper="p")
    reader = await hand_out(config, "team-a", Scope.WHEELS_READ)
    writer = await hand_out(config, "team-a", Scope.WHEELS_WRITE, Scope.WHEELS_READ)
    unscoped = await hand_out(config)
    async with serving(config) as client:
        assert error_of(await client.get("/wheels")) == (401, "ERR-PYOCO-0014")
        assert error_of(await upload(client)) == (401, "ERR-PYOCO-0014")
        client.headers.update(api_key_headers(unscoped))
        assert (await client.get("/wheels")).status_code == 403
        client.headers.update(api_key_headers(reader))
        assert (await upload(client)).status_code == 403
        client.headers.update(api_key_headers(writer))
        assert (await upload(client)).status_code == 200
        client.headers.update(api_key_headers(reader))
        assert (await client.get(f"/wheels/{NAME}")).status_code == 200
        assert (await client.delete(f"/wheels/{NAME}")).status_code == 403
        event = (await client.get("/wheels/history")).json()[0]

    assert event["actor"] == {"kind": "api_key", "tenant_id": "team-a", "api_key_id": writer.split("_")[1]}
