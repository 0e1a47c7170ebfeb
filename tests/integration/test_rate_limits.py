"""Rate limits of real gateways: one quota for all of them, callers apart, hostile headers, what clients are told."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.rate_limits import LimitClass
from pyoco_server.http_api import create_app
from pyoco_server.http_api.middleware.rate_limits import NOT_LIMITED, limit_class
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.clocks import ManualClock
from support.gateways import gateway_settings, serving, submit
from support.rechecks import services_behind

QUOTA = 30


@pytest.fixture
def settings(broker: Broker, tmp_path: Path) -> Any:
    """Settings of a gateway with a folder of its own."""
    numbers: Iterator[int] = iter(range(10))

    def make(**changed: Any) -> NatsBackendConfig:
        return gateway_settings(broker.url, tmp_path / str(next(numbers)), **changed)

    return make


@asynccontextmanager
async def limited(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway for whose limits no time passes, because the machine may be busy."""
    async with serving(config) as client:
        services_behind(client).rate_limiter._monotonic = ManualClock().monotonic
        yield client


async def statuses(*clients: httpx.AsyncClient, count: int, **options: Any) -> Counter[int]:
    """The statuses of this many reads, sent to the gateways in turns."""
    responses = [await clients[number % len(clients)].get("/runs", **options) for number in range(count)]
    return Counter(response.status_code for response in responses)


async def gateways_known(client: httpx.AsyncClient, count: int) -> None:
    """Returns as soon as the gateway behind the client has this many gateways in its roster."""
    async with asyncio.timeout(10):
        while services_behind(client).roster.size != count:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)


def test_every_route_has_a_class_but_the_probes() -> None:
    app = create_app(NatsBackendConfig())
    routes = [route for route in app.router.routes if isinstance(route, Route | WebSocketRoute)]
    classes = {
        (method, route.path): limit_class(method, route.path)
        for route in routes
        for method in (getattr(route, "methods", None) or ("GET",))
    }

    unlimited = {path for (_, path), limit in classes.items() if limit is None}

    assert unlimited == set(NOT_LIMITED)
    assert {limit for limit in classes.values() if limit} >= {LimitClass.API_READ, LimitClass.API_WRITE}


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("GET", "/gui/strategies", LimitClass.READ),
        ("HEAD", "/gui/strategies", LimitClass.READ),
        ("GET", "/pdca/recheck/{request_id}", LimitClass.READ),
        ("POST", "/pdca/recheck", LimitClass.WRITE),
        ("PUT", "/pdca/strategies/{id}", LimitClass.WRITE),
        ("POST", "/pdca/recheck_all", LimitClass.BULK),
        ("GET", "/runs", LimitClass.API_READ),
        ("POST", "/executions:claim", LimitClass.API_WRITE),
        ("GET", "/guide", LimitClass.API_READ),
        ("GET", "/health", None),
    ],
)
def test_the_class_follows_from_method_and_path(method: str, path: str, limit: LimitClass | None) -> None:
    assert limit_class(method, path) is limit


async def test_limits_of_other_apis_are_off_by_default_and_leave_no_headers(broker: Broker, tmp_path: Path) -> None:
    config = NatsBackendConfig(
        nats_url=broker.url, index_path=str(tmp_path / "runs.sqlite"), data_dir=str(tmp_path / "none")
    )
    async with serving(config) as client:
        response = await client.get("/runs")

    assert response.status_code == 200
    assert not [name for name in response.headers if "ratelimit" in name]


async def test_answers_tell_what_is_left_and_a_refusal_when_to_come_back(settings: Any) -> None:
    async with limited(settings(rate_limit_api_read_per_min=2)) as client:
        first, second, refused = [await client.get("/runs") for _ in range(3)]
        probes = {path: (await client.get(path)).status_code for path in NOT_LIMITED}

    assert [one.status_code for one in (first, second, refused)] == [200, 200, 429]
    told = [
        (one.headers["x-ratelimit-limit"], one.headers["x-ratelimit-remaining"]) for one in (first, second, refused)
    ]
    assert told == [("2", "1"), ("2", "0"), ("2", "0")]
    assert refused.headers["retry-after"] == "30"
    assert refused.headers["x-ratelimit-reset"] == "60"
    assert refused.headers["ratelimit-policy"] == '"api-read";q=2;w=60'
    assert refused.headers["ratelimit"] == f'"api-read";r=0;t={refused.headers["retry-after"]}'
    assert re.fullmatch(r'"api-read";r=1;t=\d+', first.headers["ratelimit"])
    assert refused.json()["err_id"] == "ERR-PYOCO-0092"
    assert 429 not in probes.values()


async def test_a_refusal_has_the_shape_of_its_api(settings: Any) -> None:
    async with limited(settings(rate_limit_api_read_per_min=1)) as client:
        await client.get("/runs")
        run, job, execution = [await client.get(path) for path in ("/runs", "/jobs", "/executions")]
        japanese = await client.get("/runs", headers={"Accept-Language": "ja"})

    assert run.json()["err_id"] == "ERR-PYOCO-0092"
    assert (job.headers["content-type"], job.json()["code"]) == ("application/problem+json", "RATE_LIMITED")
    assert execution.json()["error"]["code"] == "RATE_LIMITED"
    assert execution.json()["error"]["details"]["retryAfterSec"] == int(execution.headers["retry-after"])
    assert "リクエスト" in japanese.json()["detail"]


async def test_reads_and_writes_are_limited_apart_and_a_refused_write_changes_nothing(settings: Any) -> None:
    async with limited(settings(rate_limit_api_write_per_min=1)) as client:
        run_id = await submit(client)
        refused = await client.post("/runs", content=b"x" * 100_000)
        invalid = await client.post("/runs", content=b"no json")
        runs = (await client.get(f"/runs/{run_id}")).status_code

    # Before the body is read.
    assert (refused.status_code, invalid.status_code, runs) == (429, 429, 200)


async def test_two_gateways_share_a_quota_and_the_share_of_one_that_leaves_is_given_back(settings: Any) -> None:
    config = settings(rate_limit_api_read_per_min=QUOTA)
    async with limited(config) as first:
        async with limited(settings(rate_limit_api_read_per_min=QUOTA)) as second:
            await gateways_known(first, 2)
            await gateways_known(second, 2)
            both = await statuses(first, second, count=3 * QUOTA)
            shared_sec = (await first.get("/runs")).headers["retry-after"]
        await gateways_known(first, 1)
        alone_sec = (await first.get("/runs")).headers["retry-after"]

    assert both == {200: QUOTA, 429: 2 * QUOTA}
    # Half of the quota is a request in four seconds.
    assert (shared_sec, alone_sec) == ("4", "2")


async def test_callers_with_keys_have_quotas_of_their_own(settings: Any) -> None:
    config = settings(rate_limit_api_read_per_min=QUOTA, http_auth_mode="api_key")
    greedy, modest = [api_key_headers(await hand_out(config)) for _ in range(2)]
    async with limited(config) as client:
        used = await statuses(client, count=2 * QUOTA, headers=greedy)
        other = await statuses(client, count=QUOTA, headers=modest)

    assert used == {200: QUOTA, 429: QUOTA}
    assert other == {200: QUOTA}


@pytest.mark.parametrize(
    "headers",
    [
        lambda number: {"X-Forwarded-For": f"198.51.100.{number}"},
        lambda number: {"Forwarded": f"for=198.51.100.{number}"},
        lambda number: {"X-Real-IP": f"2001:db8::{number}", "X-API-Key": f"k{number}"},
        lambda number: {"X-RateLimit-Remaining": "1000", "Retry-After": "0", "User-Agent": str(number)},
    ],
    ids=["x-forwarded-for", "forwarded", "others", "our own"],
)
async def test_headers_do_not_lift_a_limit(settings: Any, headers: Any) -> None:
    async with limited(settings(rate_limit_api_read_per_min=5)) as client:
        responses = [await client.get("/runs", headers=headers(number)) for number in range(12)]

    assert [one.status_code for one in responses][-5:] == [429] * 5
    assert responses[-1].headers.get_list("x-ratelimit-remaining") == ["0"]


async def test_failed_logins_are_limited_by_address_and_known_callers_are_not(settings: Any) -> None:
    config = settings(rate_limit_unauthenticated_per_min=5, http_auth_mode="api_key")
    known, stranger = [api_key_headers(await hand_out(config)) for _ in range(2)]
    async with limited(config) as client:
        before = await client.get("/runs", headers=known)
        wrong = [await client.get("/runs", headers={"X-API-Key": f"wrong-{number}"}) for number in range(8)]
        missing = await client.get("/jobs")
        again = await client.get("/runs", headers=known)
        first_time = await client.get("/runs", headers=stranger)

    assert before.status_code == again.status_code == 200
    assert [one.status_code for one in wrong] == [403] * 5 + [429] * 3
    assert wrong[-1].headers["ratelimit-policy"] == '"unauthenticated";q=5;w=60'
    assert missing.status_code == first_time.status_code == 429
