"""Strategies and rechecks by the SDK, at a real gateway on a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.http_client import AsyncPyocoHttpClient, InvalidRequest, NotFound
from support.rechecks import BODY, ONE, key
from support.streams import Gateway


@pytest.fixture
async def sdk(gateway: Gateway) -> AsyncIterator[AsyncPyocoHttpClient]:
    """A client of a gateway with three strategies."""
    for strategy_id, tag, enabled in ((ONE, "daily", True), ("a", "fx", True), ("b", "other", False)):
        body = {"title": f"Title of {strategy_id}", "instrument": "USDJPY", "tags": [tag], "enabled": enabled}
        (await gateway.client.put(f"/pdca/strategies/{strategy_id}", json=body)).raise_for_status()
    async with AsyncPyocoHttpClient(f"http://127.0.0.1:{gateway.port}", retries=0) as client:
        yield client


async def test_strategies_are_listed_by_filter_sort_and_page(sdk: AsyncPyocoHttpClient) -> None:
    tagged = await sdk.list_strategies(tags_any=["daily", "fx"], sort="id.asc", page_size=10)
    disabled = await sdk.list_strategies("title OF", health="unknown", instrument="USDJPY", enabled="off")
    behind = await sdk.list_strategies(page=2)

    assert [each["id"] for each in tagged["items"]] == ["a", ONE]
    assert [each["id"] for each in disabled["items"]] == ["b"]
    assert (behind["items"], behind["page"], behind["total"]) == ([], 2, 3)


async def test_a_strategy_and_a_recheck_are_shown(gateway: Gateway, sdk: AsyncPyocoHttpClient) -> None:
    accepted = (await gateway.client.post("/pdca/recheck", json=dict(BODY), headers=key())).json()

    found = await sdk.get_strategy(ONE, summary_window_days=7, limit_history=5)
    recheck = await sdk.get_recheck(accepted["request_id"])

    assert (found["strategy"]["title"], found["summary"]["window_days"]) == (f"Title of {ONE}", 7)
    assert (recheck["request_id"], recheck["status"]) == (accepted["request_id"], "running")
    assert recheck["progress"]["total_strategies"] == 1


async def test_refusals_have_the_code_and_the_message_of_the_gateway(sdk: AsyncPyocoHttpClient) -> None:
    with pytest.raises(NotFound, match="strategy") as unknown:
        await sdk.get_strategy("nothing")
    with pytest.raises(NotFound, match="no request with this id"):
        await sdk.get_recheck("nothing")
    with pytest.raises(InvalidRequest, match="known values are healthy, degraded, unknown") as refused:
        await sdk.list_strategies(health="ill")

    assert (unknown.value.code, refused.value.code) == ("NOT_FOUND", "BAD_REQUEST")
