"""`/pdca/strategies` and `/gui/strategies` over HTTP on a real nats-server, by tenant and through two gateways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.commands import (
    CompleteExecution,
    CreateExecution,
    FailNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.state import Failure, Request, Work
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.pdca.ids import StrategyId, node_of, ulid_of
from pyoco_server.domain.pdca.recheck import ENGINE_WORKER, REQUEST_FLOW, pack
from pyoco_server.domain.pdca.strategies import (
    Artifact,
    BatchOutput,
    Health,
    StrategyResult,
    output_to_plain,
)
from pyoco_server.services.context import GATEWAY, Stores
from pyoco_server.services.executions.command_handler import handle
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.gateways import gateway_settings, serving

MEANREV: dict[str, Any] = {"title": "Mean reversion", "instrument": "USDJPY", "tags": ["daily"]}
REPORT = Artifact(
    id="01KADZ2F8M6N3Q5R7S9T1V3W5X-0001-1", name="report.md", bytes=3, sha256="ab", media_type="text/plain"
)


async def put(client: httpx.AsyncClient, strategy_id: str, **fields: Any) -> httpx.Response:
    return await client.put(f"/pdca/strategies/{strategy_id}", json=MEANREV | fields)


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    response = await client.get("/gui/strategies", params=query)
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


async def checked(stores: Stores, *batches: list[StrategyResult], at: float, failed: bool = False) -> RunId:
    """A finished request whose batches have these results, or failed. No gateway runs, which would drive it."""
    run_id = stores.ids.run_id()
    ids = [[result.strategy for result in batch] for batch in batches]
    request = Request(flow_name=REQUEST_FLOW, work=Work.NODES)
    nodes = tuple(node_of(number) for number in range(1, len(batches) + 1))
    create = CreateExecution(at=at, request=request, node_ids=nodes, node_inputs=pack(ids))
    commands: list[Any] = [create, StartExecution(at=at, from_outside=True)]
    for node_id, batch in zip(nodes, batches, strict=True):
        commands.append(StartNode(at=at, node_id=node_id, worker_id=WorkerId(ENGINE_WORKER)))
        if failed:
            commands.append(FailNode(at=at, node_id=node_id, attempt=1, error=Failure(code="X", message="no data")))
        else:
            output = output_to_plain(BatchOutput(results=tuple(batch), artifacts=(REPORT,)))
            commands.append(SucceedNode(at=at, node_id=node_id, attempt=1, output=output))
    for command in [*commands, CompleteExecution(at=at)]:
        (await handle(stores, run_id, command, GATEWAY)).accepted()
    return run_id


def result(strategy_id: str, health: Health = Health.HEALTHY, **kpi: float) -> StrategyResult:
    return StrategyResult(strategy=StrategyId(strategy_id), health=health, kpi=kpi)


async def test_a_strategy_that_was_put_is_in_the_next_list(client: httpx.AsyncClient) -> None:
    created = await put(client, "strat.meanrev.m1")
    page = (await client.get("/gui/strategies")).json()

    assert (created.status_code, created.json()) == (201, MEANREV | {"id": "strat.meanrev.m1", "enabled": True})
    shown = created.json() | {"last_health": "unknown", "last_checked_at": None}
    assert page == {"items": [shown], "page": 1, "page_size": 50, "total": 1}


async def test_a_put_replaces_and_a_delete_removes(client: httpx.AsyncClient) -> None:
    await put(client, "a")
    replaced = await put(client, "a", enabled=False)
    of_disabled = await listed(client, enabled="off")

    removed = [await client.delete("/pdca/strategies/a") for _ in range(2)]

    assert (replaced.status_code, of_disabled) == (200, ["a"])
    assert [response.status_code for response in removed] == [204, 204]
    assert await listed(client) == []
    assert (await client.get("/gui/strategies/a")).status_code == 404


@pytest.mark.parametrize(
    ("strategy_id", "fields"),
    [
        ("Upper", {}),
        ("a", {"id": "b"}),
        ("a", {"title": " "}),
        ("a", {"instrument": "a,b"}),
        ("a", {"tags": ["x,y"]}),
        ("a", {"tags": ["t"] * 33}),
        ("a", {"enabled": "yes"}),
        ("a", {"owner": "me"}),
    ],
)
async def test_what_is_no_strategy_is_refused(
    client: httpx.AsyncClient, strategy_id: str, fields: dict[str, Any]
) -> None:
    response = await put(client, strategy_id, **fields)

    assert (response.status_code, response.json()["error"]) == (400, "BAD_REQUEST")
    assert await listed(client) == []


async def test_filters_sort_and_pages_apply_together(client: httpx.AsyncClient) -> None:
    for number in range(24):
        instrument = "EURUSD" if number % 2 else "USDJPY"
        await put(client, f"s.{number:02}", title=f"100% _{number}", instrument=instrument, enabled=number != 3)

    query: dict[str, Any] = {"instrument": "EURUSD", "enabled": "on", "sort": "id.desc", "page": 2, "page_size": 10}
    response = await client.get("/gui/strategies", params=query)

    assert [item["id"] for item in response.json()["items"]] == ["s.01"]
    assert response.json() | {"items": []} == {"items": [], "page": 2, "page_size": 10, "total": 11}
    assert await listed(client, q="% _1", sort="id.asc", page_size=10, page=1, tags_any="x, daily") == [
        "s.01",
        *(f"s.{number}" for number in range(10, 19)),
    ]
    assert await listed(client, q="s_0") == []


@pytest.mark.parametrize(
    "query",
    [
        {"page": 0},
        {"page_size": 9},
        {"page_size": 101},
        {"sort": "title.asc"},
        {"sort": "id"},
        {"health": "fine"},
        {"tags_any": "a,,b"},
        {"enabled": "yes"},
        {"q": "x" * 65},
        {"unknown": "1"},
    ],
)
async def test_a_query_out_of_range_is_refused(client: httpx.AsyncClient, query: dict[str, Any]) -> None:
    response = await client.get("/gui/strategies", params=query)

    assert (response.status_code, response.json()["error"]) == (400, "BAD_REQUEST")


async def test_results_of_a_request_are_shown_with_their_strategy(config: NatsBackendConfig, stores: Stores) -> None:
    now = stores.clock.now()
    old = await checked(stores, [result("a", Health.DEGRADED, sharpe=1.0, winrate=0.5)], at=now - 40 * 86_400)
    new = await checked(stores, [result("a", sharpe=3.0)], at=now)

    async with serving(config) as client:
        await put(client, "a")
        detail = (await client.get("/gui/strategies/a")).json()
        query = {"summary_window_days": 365, "limit_history": 1}
        year = (await client.get("/gui/strategies/a", params=query)).json()
        page = (await client.get("/gui/strategies/a/results", params={"to": now - 86_400})).json()
        healthy = await listed(client, health="healthy")

    assert [each["request_id"] for each in detail["recent_results"]] == [ulid_of(new), ulid_of(old)]
    assert detail["strategy"]["last_health"] == "healthy"
    assert detail["strategy"]["last_checked_at"] == detail["recent_results"][0]["checked_at"]
    assert detail["summary"] == {"window_days": 30, "kpi_avg": {"sharpe": 3.0}}
    assert [artifact["id"] for artifact in detail["artifacts"]] == [REPORT.id]
    assert (year["summary"]["kpi_avg"], len(year["recent_results"])) == ({"winrate": 0.5, "sharpe": 2.0}, 1)
    assert [each["health"] for each in page["items"]] == ["degraded"]
    assert healthy == ["a"]


async def test_a_gateway_shows_results_that_it_did_not_see_happen(
    broker: Broker, tmp_path: Path, stores: Stores
) -> None:
    first, second = (gateway_settings(broker.url, tmp_path / name) for name in ("first", "second"))
    async with serving(first) as client:
        await put(client, "a")
    run_id = await checked(stores, [result("a")], at=5.0)
    await checked(stores, [result("a", Health.DEGRADED)], at=9.0, failed=True)

    async with serving(first) as one, serving(second) as other:
        both = [(await client.get("/gui/strategies")).json()["items"] for client in (one, other)]

    assert both[0] == both[1]
    assert both[0][0]["last_health"] == "healthy", run_id


@pytest.mark.settings(http_auth_mode="api_key")
async def test_strategies_belong_to_their_tenant_and_need_their_scopes(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    ours = api_key_headers(await hand_out(config, "team-a", Scope.PDCA_ADMIN, Scope.PDCA_READ))
    theirs = api_key_headers(await hand_out(config, "team-b", Scope.PDCA_READ))
    await client.put("/pdca/strategies/a", json=MEANREV, headers=ours)

    shown = [(await client.get("/gui/strategies", headers=headers)).json()["total"] for headers in (ours, theirs)]
    hidden = await client.get("/gui/strategies/a", headers=theirs)
    refused = await client.delete("/pdca/strategies/a", headers=theirs)

    assert shown == [1, 0]
    assert (hidden.status_code, refused.status_code) == (404, 403)
