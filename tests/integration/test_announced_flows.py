"""Real workers announce the flows of real resolvers, without effect on runs or on the worker itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoco.core.models import Flow, Task

from pyoco_server.adapters.system import SystemClock
from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.ids import WorkerId
from pyoco_server.testing.wheel_store import MemoryWheelStore
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.supervisor.library import PyocoNatsWorker
from pyoco_server.worker.wheels.wheel_sync import WheelSync
from support.broker import Broker
from support.runs import outcome_of
from support.wheels import installable, put

FLOWS = """
import os, time
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

one, other = (TaskWrapper(Task(func=lambda: os.getpid(), name=name)) for name in ("one", "other"))

def resolve(name):
    if name == "there":
        return Flow(name) >> one >> other
    if name == "back":
        return Flow(name) >> other >> one
    if name == "dies":
        os._exit(3)
    if name == "hangs":
        time.sleep(600)
    raise KeyError(name)
"""
THERE = AnnouncedFlow(name="there", nodes=("one", "other"), edges=(("one", "other"),), params=(), takes_others=False)
WARNING = "flows not announced, or not in full"

Start = Callable[..., Awaitable[RunnerPool]]


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    monkeypatch.chdir(tmp_path)
    pools: list[RunnerPool] = []

    async def start(more: str, *names: str) -> RunnerPool:
        (tmp_path / "flows.py").write_text(FLOWS + more)
        pool = RunnerPool("flows.py:resolve", 1, lambda run_id, lines: None, names)
        pools.append(pool)
        async with asyncio.timeout(30):
            await pool.start()
        return pool

    yield start
    for pool in pools:
        await pool.close()


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    warned = [record for record in caplog.records if record.getMessage() == WARNING]
    assert len(warned) <= 1
    return [reason for record in warned for reason in getattr(record, "reasons", ())]


async def test_a_started_pool_has_the_flows_of_its_resolver(start: Start) -> None:
    pool = await start("FLOWS = ['there']")

    assert pool.announcement.flows == (THERE,)


async def test_configured_flow_names_override_those_of_the_resolver(start: Start) -> None:
    pool = await start("FLOWS = ['back']", "there")

    assert pool.announcement.flows == (THERE,)


async def test_listing_flows_leaves_no_trace_in_runner_processes(start: Start) -> None:
    # Tasks shared by two flows have the neighbours of both, and would wait for each other for ever.
    pool = await start("FLOWS = ['back', 'there']")

    assert {flow.name for flow in pool.announcement.flows} == {"back", "there"}
    assert await outcome_of(pool, "there") is not None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dies", "the process that lists the flows died"),
        ("hangs", "no answer within 0.3 s"),
        ("gone", "flow 'gone': KeyError: 'gone'"),
    ],
)
async def test_a_misbehaving_resolver_disables_only_the_announcement(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    monkeypatch.setattr(
        "pyoco_server.worker.runner_pool.runner_group.ANNOUNCE_LIMIT_SEC", 0.3 if name == "hangs" else 10.0
    )

    pool = await start(f"FLOWS = [{name!r}]")

    assert (pool.announcement.flows, reasons(caplog)) == ((), [reason])
    assert len(pool.pids()) == 1
    assert await outcome_of(pool, "there") is not None


async def test_a_resolver_without_flow_names_announces_nothing(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    pool = await start("")

    assert (pool.announcement.flows, reasons(caplog)) == ((), [])


async def test_a_new_wheel_updates_the_announcement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text(FLOWS + "import team\nresolve.flows = team.NAMES")
    store = MemoryWheelStore(SystemClock())
    await put(store, installable("team", "1.0", {"team.py": "NAMES = ['there']"}))
    config = NatsBackendConfig(wheel_sync_enabled=True, wheel_sync_dir=str(tmp_path / "sync"))
    pool = RunnerPool("flows.py:resolve", 1, lambda run_id, lines: None)
    sync = WheelSync(store, pool, config, ("default",), SystemClock())
    await sync.start()
    try:
        before = pool.announcement.flows
        await put(store, installable("team", "2.0", {"team.py": "NAMES = ['there', 'back']"}))
        await sync.sync()

        assert before == (THERE,)
        assert [flow.name for flow in pool.announcement.flows] == ["there", "back"]
    finally:
        await pool.close()


# --- as a library -----------------------------------------------------------------------------------------------------


class Resolver:
    """A resolver of an embedding program."""

    def __init__(self, flows: Any) -> None:
        self.flows = flows

    def __call__(self, name: str) -> Flow:
        raise AssertionError(name)


@pytest.fixture
def config(tmp_path: Path) -> Iterator[NatsBackendConfig]:
    with Broker(tmp_path) as broker:
        yield NatsBackendConfig(nats_url=broker.url)


async def announced_by(config: NatsBackendConfig, resolver: Resolver) -> tuple[AnnouncedFlow, ...]:
    """The flows in the record of a worker with that resolver."""
    async with await PyocoNatsWorker.connect(config, resolver, "library"), open_stores(config, name="test") as stores:
        record = await stores.registry.get(WorkerId("library"))
        assert record is not None
        return record.flows


async def test_an_embedded_worker_announces_known_flows_without_building_them(config: NatsBackendConfig) -> None:
    def greet(name: str = "world") -> None: ...

    ready = Flow("ready", tasks={Task(func=greet, name="greet")})
    resolver = Resolver({"ready": ready, "made": lambda: ready})

    assert await announced_by(config, resolver) == (
        AnnouncedFlow(name="ready", nodes=("greet",), params=(("name", False),), takes_others=False),
        AnnouncedFlow(name="made"),
    )
    assert await announced_by(replace(config, worker_flows="made"), resolver) == (AnnouncedFlow(name="made"),)


async def test_a_resolver_that_hangs_is_not_waited_for(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyoco_server.worker.runner_pool.thread_executor.ANNOUNCE_LIMIT_SEC", 0.05)
    response = threading.Event()

    def late() -> list[str]:
        response.wait()
        return ["late"]

    assert await announced_by(config, Resolver(late)) == ()
    response.set()
    assert reasons(caplog) == ["no answer within 0.05 s"]
