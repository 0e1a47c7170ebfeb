"""All runners of a worker import one version of the flows' sources: pinned, or replaced when a file is saved."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import groupby
from pathlib import Path

import pytest

from pyoco_server.trace import TaskSucceeded
from pyoco_server.worker.runner_pool import code_watch
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob, RunUpdate
from support.runs import outcome_of, until

RESOLVER = """
from pyoco.core.models import Flow, Task
import tasks

def later():
    import lazy
    return lazy.VERSION

TASKS = {"version": lambda: tasks.VERSION, "later": later, "fail": tasks.fail, "wait": tasks.wait}

def resolve(name):
    return Flow(name=name) >> Task(func=TASKS[name], name=name)
"""
TASKS = """
import os, time
VERSION = "{version}"

def version():
    return VERSION

def fail():
    raise ValueError("a line of version {version}")

def wait(go):
    open(go + ".begun", "w").close()
    while not os.path.exists(go):
        time.sleep(0.005)
    import lazy
    return [VERSION, lazy.VERSION]
"""
YAML = "version: 1\nflow:\n  graph: one\ntasks:\n  one:\n    callable: tasks:version\n"

Save = Callable[[str], None]
Started = Callable[..., Awaitable[RunnerPool]]


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Writes another version of the modules; it has the same size, and often the same second."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text(RESOLVER)

    def save(version: str) -> None:
        (tmp_path / "lazy.py").write_text(f"VERSION = '{version}'\n")
        (tmp_path / "tasks.py").write_text(TASKS.format(version=version))

    save("1")
    return save


@pytest.fixture
async def started(save: Save, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Started]:
    monkeypatch.setattr(code_watch, "RELOAD_CHECK_SEC", 0.02)
    monkeypatch.setattr(code_watch, "PINNED_CHECK_SEC", 0.02)
    monkeypatch.setattr(code_watch, "SETTLE_SEC", 0.01)
    monkeypatch.setattr(code_watch, "FIRST_RETRY_SEC", 0.02)
    pools = []

    async def start(*, reload: bool, size: int = 2, resolver: str = "flows.py:resolve") -> RunnerPool:
        pool = RunnerPool(resolver, size, lambda run_id, lines: None, code_reload=reload)
        pools.append(pool)
        await pool.start()
        return pool

    yield start
    for pool in pools:
        await pool.close()


async def played(pool: RunnerPool, job: RunJob) -> list[RunUpdate]:
    async with asyncio.timeout(60), pool.borrow() as runner:
        runner.begin(job)
        return [update async for update in runner.updates()]


async def ended(pool: RunnerPool, flow_name: str) -> RunEnded:
    end = (await played(pool, RunJob(run_id="run-1", flow_name=flow_name, params={}, attempt=1)))[-1].end
    assert isinstance(end, RunEnded)
    return end


async def version_of_yaml(pool: RunnerPool) -> object:
    job = RunJob(run_id="run-1", flow_name="one", params={}, attempt=1, workflow_yaml=YAML)
    (output,) = [
        step.output for update in await played(pool, job) for step in update.steps if isinstance(step, TaskSucceeded)
    ]
    return output


async def changed_from(pool: RunnerPool, version: str | None) -> None:
    await until(lambda: pool.code.version != version)


def kill(*pids: int | None) -> None:
    for pid in pids:
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):  # replaced just now
            os.kill(pid, signal.SIGKILL)


async def replace_runners(pool: RunnerPool, *pids: int | None) -> None:
    old = set(pool.pids())
    kill(*pids)
    await until(lambda: len(pool.pids()) == len(old) and not old & set(pool.pids()))


async def test_a_saved_file_is_served_by_later_runs_in_the_resolver_and_in_a_flow_yaml(
    started: Started, save: Save
) -> None:
    pool = await started(reload=True)
    first = pool.code
    assert [await outcome_of(pool, "version"), await version_of_yaml(pool)] == ["1", "1"]

    save("2")
    await changed_from(pool, first.version)

    assert [await outcome_of(pool, "version"), await version_of_yaml(pool)] == ["2", "2"]
    assert (pool.code.reload, pool.code.changed, pool.code.error) == (True, False, None)


async def test_outputs_switch_once_while_runs_follow_each_other(started: Started, save: Save) -> None:
    pool = await started(reload=True, size=3)
    seen = [await outcome_of(pool, "version") for _ in range(10)]

    for version in ("2", "3"):
        save(version)
        while seen[-1] != version:
            seen.append(await outcome_of(pool, "version"))
        seen += [await outcome_of(pool, "version") for _ in range(10)]

    assert [output for output, _ in groupby(seen)] == ["1", "2", "3"]


async def test_a_running_run_keeps_its_version_also_in_what_it_imports_later(
    started: Started, save: Save, tmp_path: Path
) -> None:
    pool, go = await started(reload=True), tmp_path / "go"
    running = asyncio.create_task(outcome_of(pool, "wait", go=str(go)))
    await until(go.with_suffix(".begun").exists)
    before = pool.code.version

    save("2")
    await changed_from(pool, before)
    go.touch()

    assert await running == ["1", "1"]
    assert await outcome_of(pool, "later") == "2"


async def test_without_reload_every_runner_imports_the_version_of_the_start(started: Started, save: Save) -> None:
    pool = await started(reload=False)
    version = pool.code.version

    save("2")
    await until(lambda: pool.code.changed)
    outputs = [await outcome_of(pool, "version"), await version_of_yaml(pool)]
    await replace_runners(pool, *pool.pids())
    outputs.append(await outcome_of(pool, "later"))
    await replace_runners(pool, pool.fork_server_pid)
    outputs += [await outcome_of(pool, "version"), await outcome_of(pool, "later")]
    (Path.cwd() / "tasks.py").unlink()
    await replace_runners(pool, *pool.pids())
    outputs.append(await outcome_of(pool, "version"))

    assert outputs == ["1"] * 6
    assert (pool.code.version, pool.code.reload) == (version, False)


async def test_files_that_are_restored_are_no_change(started: Started, save: Save) -> None:
    pool = await started(reload=False)

    save("2")
    await until(lambda: pool.code.changed)
    save("1")

    await until(lambda: not pool.code.changed)


async def test_a_broken_save_fails_runs_with_its_error_until_the_file_is_corrected(
    started: Started, save: Save
) -> None:
    pool = await started(reload=True)
    before = pool.code.version

    (Path.cwd() / "tasks.py").write_text("def broken(:\n")
    await changed_from(pool, before)
    failed, error = await ended(pool, "version"), pool.code.error
    save("2")
    await until(lambda: pool.code.error is None)

    assert (failed.how, failed.error_type) == ("failed", "InvalidUsage")
    assert failed.message is not None
    assert "SyntaxError: invalid syntax (tasks.py, line 1)" in failed.message
    assert error is not None
    assert error.endswith("cannot be imported: SyntaxError: invalid syntax (tasks.py, line 1)")
    assert await outcome_of(pool, "version") == "2"


async def test_a_version_that_ends_every_runner_is_not_served(started: Started, save: Save) -> None:
    pool = await started(reload=True)

    (Path.cwd() / "tasks.py").write_text("import os\nos._exit(7)\n")
    await until(lambda: pool.code.error is not None)
    output = await outcome_of(pool, "version")
    reported = pool.code
    save("2")
    await until(lambda: pool.code.error is None)

    assert output == "1"
    assert reported.changed
    assert "exit code 7" in (reported.error or "")
    assert await outcome_of(pool, "version") == "2"


async def test_a_kill_during_a_reload_neither_loses_runs_nor_mixes_versions(started: Started, save: Save) -> None:
    pool = await started(reload=True)
    seen: list[tuple[str | None, object]] = []
    versions = [pool.code.version]

    async def run_until(done: asyncio.Event) -> None:
        while not done.is_set():
            async with asyncio.timeout(60), pool.borrow() as runner:
                runner.begin(RunJob(run_id="run-1", flow_name="version", params={}, attempt=1))
                updates = [update async for update in runner.updates()]
            if isinstance(updates[-1].end, RunEnded):  # else it was killed, and another attempt follows
                steps = [step for update in updates for step in update.steps if isinstance(step, TaskSucceeded)]
                seen.append((runner.code_version, steps[0].output))

    done = asyncio.Event()
    running = asyncio.create_task(run_until(done))
    for version in ("2", "3", "4", "5"):
        save(version)
        if version in "24":
            kill(pool.fork_server_pid)
        kill(*pool.pids())
        await changed_from(pool, versions[-1])
        versions.append(pool.code.version)
        await until(lambda wanted=version: bool(seen) and seen[-1][1] == wanted)  # type: ignore[misc]
    done.set()
    await running

    expected = dict(zip(versions, "12345", strict=True))
    assert all(expected[version] == output for version, output in seen)
    assert [output for output, _ in groupby(output for _, output in seen)][-4:] == ["2", "3", "4", "5"]


async def test_a_traceback_shows_the_lines_that_ran(started: Started, save: Save) -> None:
    pool = await started(reload=False)

    save("2")
    await until(lambda: pool.code.changed)
    failed = await ended(pool, "fail")

    assert failed.traceback is not None
    assert "a line of version 1" in failed.traceback
    assert "a line of version 2" not in failed.traceback


async def test_modules_behind_links_are_pinned_and_reloaded(started: Started, save: Save) -> None:
    here = Path.cwd()
    for version in ("1", "2"):
        folder = here / f"release-{version}" / "inner"  # not an identifier: not a folder of modules of `here`
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        (folder / "deep.py").write_text(f"VERSION = '{version}'\n")
    (here / "lazy.py").write_text("from linked.inner.deep import VERSION\n")
    (here / "tasks.py").rename(here / "tasks.txt")
    (here / "tasks.py").symlink_to("tasks.txt")
    (here / "linked").symlink_to("release-1")
    pinned, reloaded = await started(reload=False), await started(reload=True)
    before = reloaded.code.version

    (here / "next").symlink_to("release-2")
    (here / "next").rename(here / "linked")
    await changed_from(reloaded, before)
    await until(lambda: pinned.code.changed)
    await replace_runners(pinned, *pinned.pids())

    assert await outcome_of(reloaded, "later") == "2"
    assert [await outcome_of(pinned, "later"), await outcome_of(pinned, "version")] == ["1", "1"]


async def test_a_resolver_behind_a_symbolic_link_is_pinned_and_reloaded(started: Started, save: Save) -> None:
    here = Path.cwd()
    for version in ("1", "2"):
        folder = here / f"release-{version}"  # not an identifier: not a folder of modules of `here`
        folder.mkdir()
        (folder / "flows.py").write_text(RESOLVER.replace("tasks", f"tasks_of_{version}"))
        (folder / f"tasks_of_{version}.py").write_text(TASKS.format(version=version))
    (here / "current").symlink_to("release-1")
    pinned, reloaded = [await started(reload=reload, resolver="current/flows.py:resolve") for reload in (False, True)]
    before = reloaded.code.version
    assert pinned.code.version == before

    (here / "next").symlink_to("release-2")
    (here / "next").rename(here / "current")
    await changed_from(reloaded, before)
    await until(lambda: pinned.code.changed)
    await replace_runners(pinned, pinned.fork_server_pid)

    assert await outcome_of(reloaded, "version") == "2"
    assert await outcome_of(pinned, "version") == "1"
