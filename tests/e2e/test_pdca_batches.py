"""Requests of the PDCA API with a real gateway, broker and worker, and the example flow."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import CancelExecution
from pyoco_server.domain.execution.events import ExecutionCompleted, NodeSucceeded
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, ulid_of
from pyoco_server.domain.pdca.strategies import Health, read_output
from pyoco_server.services.executions.command_handler import handle, read_execution
from support.pdca import creation
from support.programs import ROOT, Program, connected, run_of, until, up, worker
from support.world import USER

STRATEGIES = ("strat.meanrev.m1", "strat.trend.h1", "no.such.file")
BATCHES = 12
# So few at a time that the request takes a moment.
SLOW = {"PYOCO_PDCA_CONCURRENCY": "2", "PYOCO_PDCA_DATA_DIR": str(ROOT / "examples" / "pdca")}


def gateway(folder: Path, url: str) -> Program:
    return up(folder, "--nats-url", url, env=SLOW)


def example_worker(folder: Path, url: str) -> Program:
    resolver = f"{ROOT / 'examples' / 'flows.py'}:resolve"
    return worker("--nats-url", url, "--flow-resolver", resolver, cwd=folder, env=SLOW)


def succeeded(shown: dict[str, Any]) -> int:
    return list(shown["tasks"].values()).count("SUCCEEDED")


async def request(url: str) -> RunId:
    """Stores a request and no more, as a gateway does that is killed at once."""
    async with open_stores(NatsBackendConfig(nats_url=url), name="test") as stores:
        run_id = stores.ids.run_id()
        batches = [[StrategyId(name) for name in STRATEGIES]] * BATCHES
        (await handle(stores, run_id, creation(stores.clock.now(), batches), USER)).accepted()
        return run_id


async def test_a_request_ends_although_its_gateway_is_killed_in_the_middle(tmp_path: Path, nats_url: str) -> None:
    with example_worker(tmp_path, nats_url):
        with gateway(tmp_path, nats_url) as first, connected(first) as client:
            run_id = await request(nats_url)
            until(lambda: client.get(f"/runs/{run_id}"), lambda answer: answer.status_code == httpx.codes.OK)
            until(partial(run_of, client, run_id), lambda shown: succeeded(shown) >= 3)
            first.signal(signal.SIGKILL)
            first.exit_code()

        with gateway(tmp_path, nats_url) as second, connected(second) as client:
            ended = until(partial(run_of, client, run_id), lambda shown: shown["status"] not in ("PENDING", "RUNNING"))
            children = client.get("/runs", params={"tags": f"pdca:{ulid_of(run_id)}", "limit": 100}).json()

    async with open_stores(NatsBackendConfig(nats_url=nats_url), name="test") as stores:
        execution = await read_execution(stores, run_id)
        commits = await stores.events.read(run_id)
        outputs = [read_output(node.output) for node in execution.nodes.values()]
        stored = [await stores.artifacts.get(output.artifacts[0].id) for output in outputs if output is not None]
    events = [event for commit in commits for event in commit.commit.events]
    assert ended["status"] == "COMPLETED", ended
    assert sum(isinstance(event, NodeSucceeded) for event in events) == BATCHES
    assert sum(isinstance(event, ExecutionCompleted) for event in events) == 1
    assert [node.attempt for node in execution.nodes.values()] == [1] * BATCHES
    assert len(children) == BATCHES
    assert [[result.health is Health.UNKNOWN for result in output.results] for output in outputs if output] == [
        [False, False, True]
    ] * BATCHES
    assert all(artifact is not None and b"| no.such.file | unknown |" in artifact.data for artifact in stored)


async def test_a_cancel_stops_what_waits_for_a_worker(tmp_path: Path, nats_url: str) -> None:
    with gateway(tmp_path, nats_url) as program, connected(program) as client:
        run_id = await request(nats_url)
        until(lambda: client.get(f"/runs/{run_id}"), lambda answer: answer.status_code == httpx.codes.OK)
        until(partial(run_of, client, run_id), lambda shown: "RUNNING" in shown["tasks"].values())
        async with open_stores(NatsBackendConfig(nats_url=nats_url), name="test") as stores:
            await handle(stores, run_id, CancelExecution(at=stores.clock.now()), USER)

        ended = until(partial(run_of, client, run_id), lambda shown: shown["status"] == "CANCELLED")
        children = client.get("/runs", params={"tags": f"pdca:{ulid_of(run_id)}", "limit": 100}).json()

    assert ended["cancel"]["how"] == "cooperative"
    assert {child["status"] for child in children} == {"CANCELLED"}
