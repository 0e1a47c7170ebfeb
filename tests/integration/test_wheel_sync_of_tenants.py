"""Runs of a tenant have its own wheels and the shared ones, in real environments and runners."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.records import Isolation
from pyoco_server.testing.wheel_store import MemoryWheelStore
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.wheels.wheel_sync import WheelSync
from support.processes import descendants
from support.runs import outcome_of, until
from support.wheels import broken, installable, put

FLOWS = f"{Path(__file__).with_name('wheel_flows.py')}:resolve"
ABSENT = "absent"


class Workers:
    """Workers that share a registry and a sync folder; the test triggers each sync."""

    def __init__(self, store: MemoryWheelStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.pools: list[RunnerPool] = []

    async def start(self, isolation: Isolation = "tenant", slots: int = 1) -> WheelSync:
        config = NatsBackendConfig(wheel_sync_enabled=True, wheel_sync_dir=str(self.folder))
        self.pools.append(RunnerPool(FLOWS, slots, lambda run_id, line: None, isolation=isolation))
        sync = WheelSync(self.store, self.pools[-1], config, ("default",), SystemClock())
        await sync.start()
        return sync

    async def version(self, package: str, tenant_id: str | None) -> Any:
        return await outcome_of(self.pools[-1], "version", tenant_id=tenant_id, package=package)

    def manifest(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / ".installed.json").read_text())["sets"]
        return found


@pytest.fixture
async def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    started = Workers(MemoryWheelStore(SystemClock()), tmp_path / "sync")
    yield started
    for pool in started.pools:
        await pool.close()


async def test_a_tenant_has_its_own_wheels_and_the_shared_ones(workers: Workers) -> None:
    await put(workers.store, installable("common", "1.0"))
    await put(workers.store, installable("tools", "9.0"))
    await put(workers.store, installable("tools", "1.0"), tenant_id="a")
    await put(workers.store, installable("secret", "1.0"), tenant_id="a")

    await workers.start()

    seen = {
        (tenant, package): await workers.version(package, tenant)
        for tenant in ("a", "b", None)
        for package in ("common", "tools", "secret")
    }
    assert seen == {
        ("a", "common"): "1.0",
        ("a", "tools"): "1.0",
        ("a", "secret"): "1.0",
        ("b", "common"): "1.0",
        ("b", "tools"): "9.0",
        ("b", "secret"): ABSENT,
        (None, "common"): "1.0",
        (None, "tools"): "9.0",
        (None, "secret"): ABSENT,
    }


@pytest.mark.parametrize("isolation", ["tenant", "run"])
async def test_new_and_deleted_wheels_of_a_tenant_apply_to_its_next_run(workers: Workers, isolation: Isolation) -> None:
    sync = await workers.start(isolation)
    before = await workers.version("tools", "a")

    wheel = await put(workers.store, installable("tools", "1.0"), tenant_id="a")
    await sync.sync()
    during = (await workers.version("tools", "a"), await workers.version("tools", "b"))
    await workers.store.delete(wheel)
    await sync.sync()

    assert (before, during) == (ABSENT, ("1.0", ABSENT))
    assert await workers.version("tools", "a") == ABSENT
    assert [one.get("tenant_id") for one in workers.manifest()] == [None]


async def test_a_broken_wheel_of_a_tenant_harms_no_other(workers: Workers) -> None:
    await put(workers.store, installable("tools", "1.0"), tenant_id="b")
    await put(workers.store, broken("tools", "1.0"), tenant_id="a")

    sync = await workers.start()

    report = sync.wheel_sync
    assert report is not None
    assert report["last_result"] == "ok"
    assert {tenant: one["last_result"] for tenant, one in report["tenants"].items()} == {"a": "partial", "b": "ok"}
    assert await workers.version("tools", "b") == "1.0"
    assert await workers.version("tools", "a") == ABSENT


@pytest.mark.parametrize(
    "code", ["print('hello')", "print([1, 2])", "exec('while True: print(chr(88) * 65536)')", "sys.exit(3)"]
)
async def test_a_wheel_whose_code_runs_when_python_starts_harms_no_other_tenant(workers: Workers, code: str) -> None:
    await put(workers.store, installable("tools", "1.0"), tenant_id="b")
    noisy = {"noisy.pth": f"import sys; {code}\n"}
    await put(workers.store, installable("noisy", "1.0", noisy), tenant_id="a")

    sync = await workers.start()

    assert sync.wheel_sync is not None
    results = {tenant: one["last_result"] for tenant, one in sync.wheel_sync["tenants"].items()}
    assert results == {"a": "partial", "b": "ok"}
    assert await workers.version("tools", "b") == "1.0"


async def test_shared_runners_have_no_wheels_of_tenants(workers: Workers) -> None:
    await put(workers.store, installable("tools", "1.0"), tenant_id="a")
    await put(workers.store, installable("common", "1.0"))

    await workers.start("shared")

    assert (await workers.version("tools", "a"), await workers.version("common", "a")) == (ABSENT, "1.0")


async def test_a_restarted_worker_has_the_wheels_of_tenants_before_its_first_run(workers: Workers) -> None:
    await put(workers.store, installable("tools", "1.0"), tenant_id="a")
    await workers.start()
    built = sorted((workers.folder / "envs").iterdir())
    await workers.pools.pop().close()

    await workers.start()

    assert await workers.version("tools", "a") == "1.0"
    assert sorted((workers.folder / "envs").iterdir()) == built


async def test_tenants_without_a_runner_have_no_process(workers: Workers) -> None:
    for tenant in ("a", "b", "c"):
        await put(workers.store, installable("tools", "1.0", {"tools.py": f"VERSION = {tenant!r}"}), tenant_id=tenant)

    await workers.start()
    seen = [await workers.version("tools", tenant) for tenant in ("a", "b", "c", "a")]

    assert seen == ["a", "b", "c", "a"]
    # The fork servers of all tenants and of the tenant of the only runner, and that runner.
    await until(lambda: len(descendants(os.getpid())) <= 3)
