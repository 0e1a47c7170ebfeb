"""`/flows` on a real nats-server: what workers announce, and figures about the runs of the caller."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from urllib.parse import quote

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from support.callers import api_key_headers, hand_out
from support.gateways import serving, submit, wait_for_status
from support.workers import at_work

ODD = 'a/b c%2F?#"日本'
ETL = AnnouncedFlow(
    name="etl",
    nodes=("load", "save"),
    edges=(("load", "save"),),
    params=(("path", True), ("mode", False)),
    takes_others=False,
)
OTHER_ETL = AnnouncedFlow(name="etl", nodes=("load",), params=(), takes_others=False)
FLOWS = (ETL, AnnouncedFlow(name=ODD), AnnouncedFlow(name="main"))


async def known(client: httpx.AsyncClient, workers: int = 1) -> None:
    async with asyncio.timeout(20):
        while len((await client.get("/workers")).json()) < workers:  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.01)


async def test_flows_are_listed_page_by_page_with_their_parameters(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores:
        announcement = FlowAnnouncement(flows=FLOWS, is_complete=True)
        async with at_work(stores, config, announcement=announcement):
            await known(client)

            first = (await client.get("/flows", params={"limit": 2})).json()
            second = (await client.get("/flows", params={"limit": 2, "cursor": first["next_cursor"]})).json()
            by_prefix = (await client.get("/flows", params={"q": "e"})).json()
            by_tag = (await client.get("/flows", params={"tag": "gpu"})).json()

    assert [flow["name"] for flow in first["items"] + second["items"]] == sorted([ODD, "etl", "main"])
    assert second["next_cursor"] is None
    assert by_tag["items"] == []
    (etl,) = by_prefix["items"]
    assert etl["params"] == [{"name": "path", "required": True}, {"name": "mode", "required": False}]
    assert (etl["tags"], etl["workers"], etl["takes_others"]) == (["default"], 1, False)
    assert next(flow for flow in first["items"] if flow["name"] == ODD)["params"] is None


async def test_a_flow_shows_each_different_announcement(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores, AsyncExitStack() as workers:
        for name, tags, flow in (("w-1", ("default",), ETL), ("w-2", ("gpu",), OTHER_ETL)):
            announcement = FlowAnnouncement(flows=(flow,), is_complete=True)
            await workers.enter_async_context(at_work(stores, config, name=name, tags=tags, announcement=announcement))
        await known(client, 2)

        etl = (await client.get("/flows/etl")).json()

    assert (etl["tags"], etl["workers"]) == (["default", "gpu"], 2)
    shown = {one["tags"][0]: (one["nodes"], one["edges"]) for one in etl["versions"]}
    assert shown == {"default": (["load", "save"], [["load", "save"]]), "gpu": (["load"], [])}


ENDS = {"COMPLETED", "FAILED"}


async def test_figures_are_of_the_last_runs(config: NatsBackendConfig) -> None:
    async with (
        serving(config) as client,
        open_stores(config, name="w") as stores,
        at_work(stores, config, announcement=FlowAnnouncement(flows=FLOWS)) as worker,
    ):
        ended = [await submit(client, "etl") for _ in range(2)]
        await submit(client, "main")
        for how in ("completed", "failed", "completed"):
            (await worker.executor.begun()).end(how)
        for run_id in ended:
            await wait_for_status(client, run_id, "COMPLETED", "FAILED")
        # The figures are those of the index, which follows.
        async with asyncio.timeout(20):
            while not (etl := (await client.get("/flows/etl")).json()["recent"])["statuses"].keys() <= ENDS:
                pass
        unused = (await client.get(f"/flows/{quote(ODD, safe='')}")).json()

    assert (etl["runs"], etl["statuses"]) == (2, {"COMPLETED": 1, "FAILED": 1})
    assert etl["median_sec"] == etl["p95_sec"] >= 0
    assert (unused["name"], unused["recent"]["runs"]) == (ODD, 0)


@pytest.mark.settings(http_auth_mode="api_key")
async def test_a_tenant_sees_figures_of_its_own_runs(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores:
        mine = api_key_headers(await hand_out(config, "team-a", Scope.RUNS_READ, Scope.RUNS_WRITE))
        theirs = api_key_headers(await hand_out(config, "team-b", Scope.RUNS_READ))
        await client.post("/runs", json={"flow_name": "etl", "tag": "later"}, headers=mine)
        async with at_work(stores, config, announcement=FlowAnnouncement(flows=FLOWS)):
            async with asyncio.timeout(20):
                while not (await client.get("/flows", headers=mine)).json()["items"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            counts = [
                (await client.get("/flows/etl", headers=headers)).json()["recent"]["runs"] for headers in (mine, theirs)
            ]
            refused = await client.get("/flows/etl")

    assert counts == [1, 0]
    assert refused.status_code == 401


@pytest.mark.parametrize("path", ["/flows/elt", "/flows/" + "n" * 5_000, "/flows/..%2Fruns", "/flows/a%00b", "/flows/"])
async def test_an_unknown_flow_is_not_found(config: NatsBackendConfig, path: str) -> None:
    async with (
        serving(config) as client,
        open_stores(config, name="w") as stores,
        at_work(stores, config, announcement=FlowAnnouncement(flows=FLOWS)),
    ):
        await known(client)

        response = await client.get(path)

    assert response.status_code == 404
    assert response.json()["err_id"] == "ERR-PYOCO-0084"
    assert len(response.text) < 1_000
    assert ("did you mean 'etl'?" in response.json()["detail"]) == (path == "/flows/elt")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "cursor=x", "tag=a.b", "q=" + "x" * 257, "limit=1&limit=2"])
async def test_an_invalid_query_is_rejected(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/flows?{query}")).status_code == 422
