"""Runners of a worker follow the registry between runs, with real pip and real processes, and survive bad wheels."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.adapters.system import SystemClock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.errors import BrokerUnavailable, InvalidUsage
from pyoco_server.testing.wheel_store import MemoryWheelStore
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.supervisor.library import PyocoNatsWorker
from pyoco_server.worker.wheels.wheel_sync import WheelSync
from support.processes import command_of, descendants, wait_for_exit
from support.runs import outcome_of, until
from support.wheels import broken, installable, put

FLOWS = f"{Path(__file__).with_name('wheel_flows.py')}:resolve"
ABSENT = "absent"

Join = Callable[..., Awaitable["Worker"]]


class Worker:
    """The pool and the sync of a worker; the test triggers each sync."""

    def __init__(self, pool: RunnerPool, sync: WheelSync) -> None:
        self.pool = pool
        self.sync = sync

    async def version(self, package: str) -> Any:
        return await outcome_of(self.pool, "version", package=package)

    @property
    def report(self) -> dict[str, Any]:
        assert self.sync.wheel_sync is not None
        return dict(self.sync.wheel_sync)

    def installed(self) -> list[str]:
        return [one["wheel_name"] for one in self.report["installed"]]

    async def wait_until_at_most(self, processes: int) -> None:
        """Waits until the runners of old environments have ended."""
        await until(lambda: len(self.pool.pids()) <= processes)


@pytest.fixture
def store() -> MemoryWheelStore:
    return MemoryWheelStore(SystemClock())


@pytest.fixture
async def join(store: MemoryWheelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Join]:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    pools = []

    async def start(*tags: str, resolver: str = FLOWS, **settings: Any) -> Worker:
        config = NatsBackendConfig(wheel_sync_enabled=True, wheel_sync_dir=str(tmp_path / "sync"), **settings)
        pool = RunnerPool(resolver, 1, lambda run_id, line: None)
        pools.append(pool)
        sync = WheelSync(store, pool, config, tags or ("default",), SystemClock())
        await sync.start()
        return Worker(pool, sync)

    yield start
    for pool in pools:
        await pool.close()


def environments(tmp_path: Path) -> set[str]:
    return {folder.name for folder in (tmp_path / "sync" / "envs").iterdir()}


def manifest(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "sync" / ".installed.json").read_text())


async def test_a_new_version_applies_only_to_runs_that_start_after_it(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    first = await put(store, installable("tools", "1.0", scripts={"which": "tools:which"}))
    worker = await join()
    async with worker.pool.borrow() as runner:
        wheels_before = [(wheel.name, wheel.sha256) for wheel in runner.wheels]
    go = tmp_path / "go"
    running = asyncio.create_task(outcome_of(worker.pool, "now_and_later", package="tools", path=str(go)))
    await until(go.with_suffix(".begun").exists)
    await put(store, installable("tools", "2.0"))

    await worker.sync.sync()
    go.touch()

    assert await running == ["1.0", "1.0"]
    assert await worker.version("tools") == "2.0"
    assert wheels_before == [(first.name, first.sha256_hex)]
    assert worker.installed() == ["tools-2.0-py3-none-any.whl"]
    assert worker.report["last_result"] == "ok"
    (only,) = manifest(tmp_path)["sets"]
    assert [state["wheel_name"] for state in only["wheels"]] == ["tools-2.0-py3-none-any.whl"]


async def test_the_log_names_the_wheels_at_the_start_and_when_they_change(
    store: MemoryWheelStore, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, installable("tools", "1.0"))

    with caplog.at_level(logging.INFO):
        worker = await join()
        await worker.sync.sync()
        await put(store, installable("tools", "2.0"))
        await worker.sync.sync()

    named = [record.__dict__["wheels"] for record in caplog.records if record.message == "wheels changed"]
    assert named == [["tools-1.0-py3-none-any.whl"], ["tools-2.0-py3-none-any.whl"]]


async def test_programs_of_a_task_have_the_wheels(store: MemoryWheelStore, join: Join) -> None:
    module = "VERSION = '1.0'\ndef main():\n    print('at work')\n"
    await put(store, installable("tools", files={"tools.py": module}, scripts={"tool-at-work": "tools:main"}))
    worker = await join()

    assert await outcome_of(worker.pool, "in_a_program", package="tools") == "1.0"
    assert await outcome_of(worker.pool, "in_a_process", package="tools") == "1.0"
    assert await outcome_of(worker.pool, "output", program="tool-at-work") == "at work"


async def test_only_wheels_of_the_tags_are_installed_and_deleted_ones_removed(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    for_all = await put(store, installable("tools"))
    await put(store, installable("gpu_only"), "gpu")
    worker = await join("default")
    assert (await worker.version("tools"), await worker.version("gpu_only")) == ("1.0", ABSENT)

    await store.delete(for_all)
    await worker.sync.sync()

    assert await worker.version("tools") == ABSENT
    assert (worker.installed(), worker.report["environment"]) == ([], None)
    await worker.wait_until_at_most(1)
    await worker.sync.sync()
    assert manifest(tmp_path)["sets"] == [{"tags": ["default"], "environment": None, "wheels": []}]


async def test_a_broken_wheel_affects_no_other_and_keeps_its_last_good_version(
    store: MemoryWheelStore, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, installable("tools", "1.0"))
    worker = await join()
    await put(store, broken("tools", "2.0"))
    await put(store, installable("needy", requires=["absent-9"]))
    await put(store, installable("fresh"))

    await worker.sync.sync()

    assert (await worker.version("tools"), await worker.version("fresh")) == ("1.0", "1.0")
    assert worker.report["last_result"] == "partial"
    reasons = {one["wheel_name"]: one["reason"] for one in worker.report["failed"]}
    assert set(reasons) == {"tools-2.0-py3-none-any.whl", "needy-1.0-py3-none-any.whl"}
    assert "absent-9" in reasons["needy-1.0-py3-none-any.whl"]
    records = [record for record in caplog.records if getattr(record, "err_id", None) == "ERR-PYOCO-0024"]
    assert {getattr(record, "wheel_name", None) for record in records} == set(reasons)


async def test_a_failed_wheel_is_retried_only_after_a_change(
    store: MemoryWheelStore, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, broken("tools", "2.0"))
    worker = await join()
    tries = len(caplog.records)

    await worker.sync.sync()

    assert len(caplog.records) == tries
    await put(store, installable("tools", "2.1"))
    await worker.sync.sync()
    assert await worker.version("tools") == "2.1"


async def test_incompatible_wheels_are_skipped_with_a_reason(store: MemoryWheelStore, join: Join) -> None:
    await put(store, installable("mac", tag="cp311-cp311-macosx_11_0_arm64"))
    await put(store, installable("pyoco_server", "99.0"))
    worker = await join()

    reasons = {one["wheel_name"]: one["reason"] for one in worker.report["skipped"]}

    assert "macosx" in reasons["mac-1.0-cp311-cp311-macosx_11_0_arm64.whl"]
    assert "upgrade the worker" in reasons["pyoco_server-99.0-py3-none-any.whl"]
    assert (worker.report["last_result"], worker.report["environment"]) == ("ok", None)


async def test_no_wheel_replaces_the_runner_itself(store: MemoryWheelStore, join: Join) -> None:
    fakes = {f"{name}/__init__.py": "raise SystemExit('taken over')" for name in ("pyoco_server", "pyoco", "orjson")}
    await put(store, installable("innocent", files={**fakes, "innocent.py": "VERSION = '1.0'"}))
    worker = await join()

    assert await worker.version("innocent") == "1.0"


async def test_wheels_that_break_flow_loading_are_not_used(store: MemoryWheelStore, join: Join, tmp_path: Path) -> None:
    flows = tmp_path / "flows_of_ours.py"
    flows.write_text(
        f"import tools\n{Path(__file__).with_name('wheel_flows.py').read_text()}".replace(
            "from __future__ import annotations", ""
        )
    )
    await put(store, installable("tools", "1.0"))
    worker = await join(resolver=f"{flows}:resolve")
    await put(store, installable("tools", "2.0", files={"tools.py": "raise RuntimeError('no good')"}))

    await worker.sync.sync()

    assert await worker.version("tools") == "1.0"
    assert worker.report["last_result"] == "failed"
    assert "no good" in worker.report["error"]
    assert worker.installed() == ["tools-1.0-py3-none-any.whl"]


async def test_a_worker_starts_with_the_last_wheels_that_load_flows(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    flows = tmp_path / "flows_of_ours.py"
    flows.write_text("import tools\nfrom wheel_flows import resolve\n")
    (tmp_path / "wheel_flows.py").write_text(Path(__file__).with_name("wheel_flows.py").read_text())
    await put(store, installable("tools", "1.0"))
    first = await join(resolver=f"{flows}:resolve")
    await first.pool.close()
    await put(store, installable("tools", "2.0", files={"tools.py": "raise RuntimeError('no good')"}))

    worker = await join(resolver=f"{flows}:resolve")

    assert await worker.version("tools") == "1.0"
    assert worker.report["last_result"] == "failed"
    assert "no good" in worker.report["error"]
    assert worker.installed() == ["tools-1.0-py3-none-any.whl"]


async def test_a_worker_starts_with_the_last_wheels_without_the_registry(
    store: MemoryWheelStore, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, installable("tools"))
    await (await join()).pool.close()

    async def unavailable() -> list[Wheel]:
        raise BrokerUnavailable

    monkeypatch.setattr(store, "all", unavailable)

    worker = await join()

    assert await worker.version("tools") == "1.0"
    assert (worker.report["last_result"], worker.report["err_id"]) == ("failed", "ERR-PYOCO-0024")


async def test_bytes_that_differ_from_the_registry_are_not_installed(
    store: MemoryWheelStore, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, installable("tools"))
    _, other = installable("tools", files={"tools.py": "VERSION = 'forged'"})

    async def forged(_: Wheel) -> AsyncIterator[bytes]:
        yield other

    monkeypatch.setattr(store, "read", forged)

    worker = await join()

    assert await worker.version("tools") == ABSENT
    ((failed,),) = [worker.report["failed"]]
    assert "sha256" in failed["reason"]


async def test_a_file_changed_on_disk_is_fetched_again(store: MemoryWheelStore, join: Join, tmp_path: Path) -> None:
    wheel = await put(store, installable("tools"))
    worker = await join()
    assert wheel.sha256_hex is not None
    file = tmp_path / "sync" / "files" / wheel.sha256_hex / wheel.name
    file.write_bytes(b"something else")
    await put(store, installable("more"))

    await worker.sync.sync()

    assert (await worker.version("tools"), await worker.version("more")) == ("1.0", "1.0")


async def test_a_damaged_manifest_is_rewritten(store: MemoryWheelStore, join: Join, tmp_path: Path) -> None:
    await put(store, installable("tools"))
    worker = await join()
    before = manifest(tmp_path)

    for content in ("", "{", "[]", '{"schema_version": 1}', '{"schema_version": 7, "sets": []}'):
        (tmp_path / "sync" / ".installed.json").write_text(content)
        await worker.sync.sync()

        assert manifest(tmp_path) == before


async def test_workers_of_one_folder_share_and_keep_environments(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    await put(store, installable("tools", "1.0"))
    await put(store, installable("gpu_only", "1.0"), "gpu")
    one, same, gpu = await asyncio.gather(join("default"), join("default"), join("gpu"))
    assert one.report["environment"] == same.report["environment"] != gpu.report["environment"]

    await put(store, installable("tools", "2.0"))
    await one.sync.sync()

    assert (await one.version("tools"), await same.version("tools")) == ("2.0", "1.0")
    assert await gpu.version("gpu_only") == "1.0"
    await asyncio.gather(same.sync.sync(), gpu.sync.sync())
    for worker in (one, same, gpu):
        await worker.wait_until_at_most(1)
    await put(store, installable("tools", "3.0"))
    for worker in (one, same, gpu):
        await worker.sync.sync()
    present = {one.report["environment"], gpu.report["environment"]}
    assert present <= environments(tmp_path)
    assert one.report["environment"] == same.report["environment"]


async def test_a_python_without_pip_is_reported_and_the_worker_runs(
    store: MemoryWheelStore, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, installable("tools"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    worker = await join()

    assert await worker.version("tools") == ABSENT
    assert "ensurepip" in worker.report["failed"][0]["reason"]


async def test_a_cancelled_sync_leaves_no_process_and_no_partial_environment(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    await put(store, installable("tools"))
    before = set(descendants(os.getpid()))
    starting = asyncio.ensure_future(join())
    folder = tmp_path / "sync" / "envs"
    await until(lambda: bool(set(descendants(os.getpid())) - before))
    begun = set(descendants(os.getpid())) - before

    starting.cancel()
    await asyncio.wait([starting])

    assert starting.cancelled()
    assert all(wait_for_exit(pid) for pid in begun)
    assert list(folder.iterdir()) == []


async def test_old_environments_and_files_are_removed_with_their_last_runner(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    await put(store, installable("tools", "1.0"))
    worker = await join()
    old = worker.report["environment"]
    fork_server = worker.pool.fork_server_pid
    (wheel,) = await store.all()
    await store.delete(wheel)
    await put(store, installable("tools", "2.0"))
    await worker.sync.sync()
    await worker.wait_until_at_most(1)
    await put(store, installable("more"))

    await worker.sync.sync()

    assert old not in environments(tmp_path)
    assert len(list((tmp_path / "sync" / "files").iterdir())) == 2
    assert fork_server is not None
    with pytest.raises(ProcessLookupError):
        os.kill(fork_server, 0)


async def test_an_environment_is_removed_after_its_last_run_without_another_change(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    await put(store, installable("tools", "1.0"))
    worker = await join()
    old, go, fork_server = worker.report["environment"], tmp_path / "go", worker.pool.fork_server_pid
    running = asyncio.create_task(outcome_of(worker.pool, "now_and_later", package="tools", path=str(go)))
    await until(go.with_suffix(".begun").exists)
    await put(store, installable("tools", "2.0"))
    await worker.sync.sync()
    kept_for_the_run = old in environments(tmp_path)
    go.touch()
    await running
    assert fork_server is not None
    await until(lambda: not command_of(fork_server))

    async with asyncio.timeout(30):  # its lock is released a moment later
        while environments(tmp_path) != {worker.report["environment"]}:
            await worker.sync.sync()

    assert kept_for_the_run


def files_named(folder: Path, name: str) -> list[Path]:
    return list(folder.glob(f"**/files/*/{name}"))


async def test_partial_downloads_of_a_killed_worker_are_removed_by_the_next_change(
    store: MemoryWheelStore, join: Join, tmp_path: Path
) -> None:
    await put(store, installable("tools", "1.0"))
    worker = await join()
    (file,) = files_named(tmp_path, "tools-1.0-py3-none-any.whl")
    half = file.with_name(f"{file.name}.12345.part")
    half.write_bytes(b"PK")

    await put(store, installable("other", "1.0"))
    await worker.sync.sync()

    assert file.exists()
    assert not half.exists()


async def test_an_embedded_worker_rejects_wheel_sync() -> None:
    with pytest.raises(InvalidUsage, match="pyoco-worker"):
        await PyocoNatsWorker.connect(NatsBackendConfig(wheel_sync_enabled=True))
