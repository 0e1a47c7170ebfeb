"""Every answer of every route carries a ULID, and the ids of a request arrive in its events, its job and its task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.ulid import parse_ulid
from pyoco_server.http_api import create_app
from pyoco_server.services.context import Stores
from support.broker import Broker
from support.gateways import gateway_settings, submit, wait_for_status
from support.served import served
from support.streams import Gateway
from support.workers import Working

GIVEN = "01j8tpz7yj1e1x4c5n9zp3m3qj"
ID = "0190b8a0-7c00-7000-8000-000000000001"
ROUTES = sorted(
    {
        (method, route.path_format)
        for route in create_app(NatsBackendConfig()).router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("ids")
    with (
        Broker(folder) as broker,
        served(gateway_settings(broker.url, folder)) as address,
        httpx.Client(base_url=address, timeout=30.0) as client,
    ):
        yield client


def has_ulid(response: httpx.Response) -> bool:
    ids = response.headers.get_list("x-request-id")
    return len(ids) == 1 and parse_ulid(ids[0]) == ids[0]


@pytest.mark.parametrize(("method", "template"), ROUTES)
def test_every_route_answers_with_one_ulid(http: httpx.Client, method: str, template: str) -> None:
    path = template
    while "{" in path:
        path = path[: path.index("{")] + ID + path[path.index("}") + 1 :]

    with (
        http.stream(method, path, params={"timeout_sec": 1}) as bare,
        http.stream(method, path, headers={"X-Request-Id": GIVEN}) as named,
    ):
        assert has_ulid(bare)
        assert named.headers["x-request-id"] == GIVEN.upper()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("DELETE", "/health", {}, 405),
        ("GET", "/runs", {"Host": "evil.example"}, 421),
        ("POST", "/runs", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("OPTIONS", "/runs", {}, 405),
        ("GET", "/docs", {}, 200),
        ("GET", "/openapi.json", {}, 200),
        ("GET", "/runs/", {}, 404),
    ],
)
def test_refused_requests_and_pages_have_a_ulid(
    http: httpx.Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    response = http.request(method, path, headers=headers)

    assert response.status_code == status
    assert has_ulid(response)


@pytest.mark.parametrize(
    "request_",
    [
        b"no http\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET /runs HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    ],
    ids=["no HTTP", "a malformed handshake", "an unknown socket", "a long head", "a large body"],
)
async def test_what_no_route_sees_is_answered_with_a_ulid(gateway: Gateway, request_: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request_)
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()

    ids = [line.split(b": ")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"x-request-id:")]
    assert len(ids) == 1, head
    assert parse_ulid(ids[0].decode()) is not None


async def test_the_ids_of_a_submit_are_in_its_event_its_job_and_its_worker_s_lines(
    client: httpx.AsyncClient, stores: Stores, caplog: pytest.LogCaptureFixture, worker: Working
) -> None:
    caplog.set_level(logging.INFO)
    headers = {"X-Request-Id": GIVEN, "X-Correlation-Id": "order-66"}

    response = await client.post("/runs", json={"flow_name": "hello"}, headers=headers)
    run_id = response.json()["run_id"]
    runner = await worker.executor.begun()
    job = runner.job
    runner.end()
    await wait_for_status(client, run_id, "COMPLETED")

    first, *others = [stored.commit for stored in await stores.events.read(RunId(run_id))]
    assert (first.request_id, first.correlation_id, first.address) == (GIVEN.upper(), "order-66", "127.0.0.1")
    assert {(commit.request_id, commit.address) for commit in others} == {(None, None)}
    assert job is not None
    assert (job.request_id, job.correlation_id) == (GIVEN.upper(), "order-66")
    events = (await client.get(f"/executions/{run_id}/events")).json()["items"]
    assert events[0]["requestId"] == GIVEN.upper()


async def test_without_a_correlation_id_it_is_the_request_id(client: httpx.AsyncClient, stores: Stores) -> None:
    run_id = await submit(client)

    (first,) = await stores.events.read(RunId(run_id))
    assert first.commit.correlation_id == first.commit.request_id
    assert parse_ulid(first.commit.request_id or "") is not None
