"""Flows, checks, reruns and params of files by the SDK, at a real gateway on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from pyoco_server.http_client import AsyncPyocoHttpClient, InvalidRequest, NotFound
from pyoco_server.services.context import Stores
from support.flow_files import TWO_TASKS
from support.runners import began, declared, succeeded
from support.streams import PATIENCE_SEC, Gateway
from support.workers import Working, at_work

ODD = 'team/a b%2F?#"日本'
HELLO = AnnouncedFlow(name="hello", nodes=("greet",), params=(("name", False),), takes_others=False)


@pytest.fixture
async def sdk(gateway: Gateway) -> AsyncIterator[AsyncPyocoHttpClient]:
    async with AsyncPyocoHttpClient(f"http://127.0.0.1:{gateway.port}") as client:
        yield client


@pytest.fixture
async def worker(stores: Stores, config: NatsBackendConfig, sdk: AsyncPyocoHttpClient) -> AsyncIterator[Working]:
    """A worker that the gateway knows."""
    flows = (HELLO, AnnouncedFlow(name=ODD))
    async with at_work(stores, config, announcement=FlowAnnouncement(flows=flows, is_complete=True)) as working:
        async with asyncio.timeout(PATIENCE_SEC):
            while not (await sdk.list_workers()):
                continue
        yield working


async def test_flows_are_listed_and_shown_whatever_their_names(sdk: AsyncPyocoHttpClient, worker: Working) -> None:
    names = [flow["name"] async for flow in sdk.iter_flows(limit=1)]
    odd = await sdk.get_flow(ODD)
    hello = await sdk.get_flow("hello")

    assert names == ["hello", ODD]
    assert (odd["name"], odd["params"]) == (ODD, None)
    assert hello["versions"][0]["nodes"] == ["greet"]
    with pytest.raises(NotFound, match="did you mean 'hello'"):
        await sdk.get_flow("helo")


async def test_a_strict_submission_is_refused_and_another_one_warned_about(
    sdk: AsyncPyocoHttpClient, worker: Working
) -> None:
    warned = await sdk.submit_run("helo", tag="default")

    assert "did you mean 'hello'?" in warned["warnings"][0]
    with pytest.raises(InvalidRequest, match="did you mean 'hello'"):
        await sdk.submit_run("helo", strict=True)
    with pytest.raises(InvalidRequest, match="has no parameter 'nmae'"):
        await sdk.submit_job({"nmae": 1}, flow="hello", strict=True)
    with pytest.raises(InvalidRequest, match="did you mean 'hello'"):
        await sdk.execute("helo", strict=True)


async def test_wait_returns_what_the_flow_returned_and_a_rerun_too(sdk: AsyncPyocoHttpClient, worker: Working) -> None:
    run_id = (await sdk.submit_run("hello", {"name": "Ann"}))["run_id"]
    again = await sdk.rerun(run_id, {"name": "Bo"})

    for output in ("Hello, Ann!", "Hello, Bo!"):
        runner = await worker.executor.begun()
        runner.say(declared("greet"), began("greet"), succeeded("greet", output))
        runner.end(results=("greet",))
    first, second = await sdk.wait(run_id), await sdk.wait(again["run_id"])

    assert (first["result"], second["result"]) == ("Hello, Ann!", "Hello, Bo!")
    assert (again["rerun_of"], second["params"]) == (run_id, {"name": "Bo"})


async def test_params_override_those_of_a_file(sdk: AsyncPyocoHttpClient) -> None:
    accepted = await sdk.submit_run_yaml(TWO_TASKS, params={"n": 7})

    assert (await sdk.get_run(accepted["run_id"]))["params"] == {"day": "monday", "n": 7}
    with pytest.raises(InvalidRequest, match="is not a key of"):
        await sdk.submit_run_yaml(TWO_TASKS, params={"m": 7})
