"""A pool switches to another environment: runs end in the environment of their start, and the old one is released."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pyoco_server.domain.execution.state import WheelUsed
from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.wheels.environments import Environment, EnvironmentLease
from pyoco_server.worker.wheels.venv_builder import VenvBuilder, own_site_folders
from support.processes import wait_for_exit
from support.runs import outcome_of, until

FLOWS = f"{Path(__file__).with_name('wheel_flows.py')}:resolve"

MakeEnv = Callable[[str, str], Environment]


@pytest.fixture
def make_env(tmp_path: Path) -> MakeEnv:
    """An environment with one module, made without pip."""

    def make(name: str, module: str) -> Environment:
        folder = tmp_path / name
        installer = VenvBuilder(folder, own_site_folders(), {}, 1.0)
        installer.prepare()
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "tools.py").write_text(module)
        return Environment(
            key=name,
            folder=folder,
            python=installer.python,
            sys_path=(str(packages),),
            base_folders=own_site_folders(),
            wheels=(WheelUsed(name=f"tools-{name}.whl", sha256=name),),
        )

    return make


@pytest.fixture
async def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunnerPool]:
    monkeypatch.chdir(tmp_path)
    pool = RunnerPool(FLOWS, 2, lambda run_id, line: None)
    yield pool
    pids = [*pool.pids(), pool.fork_server_pid]
    async with asyncio.timeout(20):
        await pool.close()
    assert all(wait_for_exit(pid) for pid in pids if pid is not None)


class Released:
    """Records whether an environment was released."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


async def version(pool: RunnerPool) -> object:
    return await outcome_of(pool, "version", package="tools")


async def test_idle_runners_are_replaced_at_once_and_the_old_environment_released(
    pool: RunnerPool, make_env: MakeEnv
) -> None:
    left = Released()
    await pool.start(EnvironmentLease(environment=make_env("one", "VERSION = '1'"), release=left))
    old = [*pool.pids(), pool.fork_server_pid]
    assert await version(pool) == "1"

    await pool.switch(EnvironmentLease(environment=make_env("two", "VERSION = '2'")))

    assert await version(pool) == "2"
    await until(lambda: left.times == 1)
    assert all(wait_for_exit(pid) for pid in old if pid is not None)
    await until(lambda: len(pool.pids()) == 2)


async def test_a_busy_runner_holds_its_environment_until_the_end_of_its_run(
    pool: RunnerPool, make_env: MakeEnv, tmp_path: Path
) -> None:
    left, go = Released(), tmp_path / "go"
    await pool.start(EnvironmentLease(environment=make_env("one", "VERSION = '1'"), release=left))
    running = asyncio.create_task(outcome_of(pool, "now_and_later", package="tools", path=str(go)))
    await until(go.with_suffix(".begun").exists)
    async with pool.borrow() as borrowed:
        await pool.switch(EnvironmentLease(environment=make_env("two", "VERSION = '2'")))
        await pool.switch(EnvironmentLease(environment=make_env("three", "VERSION = '3'")))

        assert borrowed.is_alive  # borrowed, but without a job yet
        assert [wheel.sha256 for wheel in borrowed.wheels] == ["one"]
    assert left.times == 0
    go.touch()

    assert await running == ["1", "1"]
    assert await version(pool) == "3"
    await until(lambda: left.times == 1)


async def test_an_environment_without_a_loadable_flow_is_released_without_a_switch(
    make_env: MakeEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows_of_ours.py").write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport tools\nfrom wheel_flows import resolve\n"
    )
    pool = RunnerPool("flows_of_ours.py:resolve", 1, lambda run_id, line: None)
    await pool.start(EnvironmentLease(environment=make_env("good", "VERSION = '1'")))
    before = pool.pids()
    left = Released()

    for name, module in (("broken", "raise RuntimeError('no good')"), ("deadly", "import os; os._exit(7)")):
        with pytest.raises(InvalidUsage, match=r"no good|exit code 7"):
            await pool.switch(EnvironmentLease(environment=make_env(name, module), release=left))

    assert left.times == 2
    assert pool.pids() == before
    assert await version(pool) == "1"
    await pool.close()


async def test_a_lost_fork_server_is_replaced_in_the_current_environment(pool: RunnerPool, make_env: MakeEnv) -> None:
    await pool.start()
    await pool.switch(EnvironmentLease(environment=make_env("two", "VERSION = '2'")))
    lost = pool.fork_server_pid
    assert lost is not None

    os.kill(lost, signal.SIGKILL)

    await until(lambda: pool.fork_server_pid not in (None, lost))
    assert await version(pool) == "2"


async def test_a_pool_that_failed_to_start_can_start_in_another_environment(
    make_env: MakeEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows_of_ours.py").write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport tools\nfrom wheel_flows import resolve\n"
    )
    pool = RunnerPool("flows_of_ours.py:resolve", 2, lambda run_id, line: None)
    with pytest.raises(InvalidUsage, match="tools"):
        await pool.start()

    await pool.start(EnvironmentLease(environment=make_env("good", "VERSION = '1'")))

    assert await version(pool) == "1"
    await pool.close()
