"""A run ends for any end of its flow, and the next run works: real runner processes, stores in memory."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.adapters.system import SystemClock
from pyoco_server.domain.ids import WorkerId
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.supervisor.supervisor import Supervisor
from support.world import HELLO, USER, World

FLOWS = f"{Path(__file__).with_name('crash_flows.py')}:resolve"
PATIENCE_SEC = 30.0

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is not kept elsewhere")


@pytest.fixture
def world() -> World:
    return World(clock=SystemClock(), run_heartbeat_interval_sec=0.05, cancel_grace_period_sec=0.2)


@pytest.fixture
async def written(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """A worker with one runner for these flows; returns the output of its runs."""
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    pool = RunnerPool(FLOWS, 1, lambda _run_id, printed: lines.extend(line.text for line in printed))
    supervisor = Supervisor(world.stores, pool, world.config, WorkerId("w-1"), ("default",), 1)
    stop, at_once = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(PATIENCE_SEC):
        working = asyncio.create_task(supervisor.run(stop, at_once=at_once))
        try:
            yield lines
        finally:
            stop.set()
            at_once.set()
            await working


async def play(world: World, flow_name: str, *statuses: str, timeout_sec: float | None = None) -> Mapping[str, Any]:
    run_id = await world.submit(replace(HELLO, flow_name=flow_name, input={}, timeout_sec=timeout_sec))
    return await world.until(run_id, *statuses or ("COMPLETED",))


async def check_next_run(world: World) -> None:
    run = await play(world, "fine")
    assert (run["task_records"]["fine"]["output"], run["error"]) == ("fine", None)


BAD = {
    "leaves": "TaskExited: the task called sys.exit(3)",
    "vanishes": "the runner process exited with code 3 in the middle of the run; its last line was: about to go wrong",
    "segfaults": "the runner process was ended by SIGSEGV; its last line was: about to go wrong",
    "aborts": "the runner process was ended by SIGABRT; its last line was: about to go wrong",
    "is_killed": "ran out of memory, or the process was killed from outside; its last line was: about to",
    "kills_its_group": "the runner process was ended by SIGKILL",
    "terminates_its_group": "the runner process was ended by SIGTERM",
    "wants_too_much": "MemoryError: out of memory",
    "recurses": "RecursionError: maximum recursion depth exceeded",
    "returns_a_set": "cannot be stored as JSON: Type is not JSON serializable: set. Return plain data",
    "closes_descriptors": "a task has closed file descriptors not its own",
    "closes_the_standard_ones": "ValueError: still there",
    "says_much": "ValueError: xxx",
    "is_speechless": "RuntimeError: no words",
    "speaks_in_halves": "ValueError: half a character: \\ud800",
    "raises_many": "ExceptionGroup: several (2 sub-exceptions)",
    "many": "the task yields instead of returning: collect what it yields in a list and return that",
    "raises_later": "ValueError: after a while",
    "gives_up_by_itself": "TaskExited: the task raised CancelledError",
    "goes_wrong_in_the_child_too": "ValueError: twice",
}


@pytest.mark.parametrize("flow_name", BAD)
async def test_a_crashing_flow_fails_with_a_reason_and_last_lines_and_the_next_run_completes(
    world: World, written: list[str], flow_name: str
) -> None:
    run = await play(world, flow_name, "FAILED")

    assert BAD[flow_name] in run["error"]
    assert len(run["error"]) <= 1_000
    assert run["error_code"] == "ERR-PYOCO-0007"
    assert "about to go wrong" in run["last_lines"]
    await check_next_run(world)


@needs_linux
async def test_a_flow_that_exceeds_its_memory_limit_fails(world: World, written: list[str]) -> None:
    run = await play(world, "is_limited", "FAILED")

    assert run["error"] == "MemoryError: out of memory"


GOOD = {
    "forks": "child ended with 0",
    "forks_and_exits": "child ended with 7",
    "leaves_a_thread": None,
    "leaves_a_program": None,
    "leaves_tasks": "left",
    "large": {"truncated": True, "bytes": 2_000_002, "preview": '"' + "x" * 1023},
}


@pytest.mark.parametrize("flow_name", GOOD)
async def test_a_harmless_error_in_a_flow_affects_neither_its_run_nor_the_next(
    world: World, written: list[str], flow_name: str
) -> None:
    run = await play(world, flow_name)

    assert run["task_records"][flow_name].get("output") == GOOD[flow_name]
    await check_next_run(world)
    assert "Traceback" not in "\n".join(written)


async def wait_for_pid(written: list[str]) -> int:
    """Polls, because output and task states arrive on different channels."""
    while True:
        for line in written:
            if line.startswith("pid "):
                return int(line.removeprefix("pid "))
        await asyncio.sleep(0.01)


async def test_a_runner_killed_from_outside_fails_its_run_and_is_replaced(world: World, written: list[str]) -> None:
    run_id = await world.submit(replace(HELLO, flow_name="stuck", input={}))
    await world.until(run_id, "RUNNING", tasks={"say_so": "SUCCEEDED", "stuck": "RUNNING"})

    os.kill(await wait_for_pid(written), signal.SIGKILL)

    run = await world.until(run_id, "FAILED")
    assert "ended by SIGKILL, and not by its worker" in run["error"]
    assert run["task_records"]["stuck"]["state"] == "FAILED"
    await check_next_run(world)


@pytest.mark.parametrize("flow_name", ["quotes_its_password", "crashes_with_its_password"])
async def test_a_secret_param_is_in_no_error_dead_letter_log_line_or_event_but_that_of_the_submit(
    world: World, written: list[str], caplog: pytest.LogCaptureFixture, flow_name: str
) -> None:
    secret = "it's a 'hunter22'"
    run_id = await world.submit(replace(HELLO, flow_name=flow_name, input={"password": secret}))

    with caplog.at_level(logging.DEBUG):
        run = await world.until(run_id, "FAILED")

    letters = await world.truth.dead_letters.recent()
    events = [commit.commit.events for commit in await world.truth.events.read(run_id)][1:]
    logged = [record.__dict__ for record in caplog.records if record.name != "pyoco_server.task"]
    shown = repr([dict(run) | {"params": None}, letters, events, logged])
    assert "***" in run["error"]
    assert len(letters) == 1
    assert "hunter22" not in shown


# --- limits and cancels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flow_name", "how"), [("sleeps_beyond_its_limit", "killed"), ("observes_its_limit", "cooperative")]
)
async def test_a_task_over_its_own_limit_ends_its_run(
    world: World, written: list[str], flow_name: str, how: str
) -> None:
    run = await play(world, flow_name, "FAILED")

    assert (run["error_code"], run["timeout"]["how"], run["timeout"]["limit_sec"]) == ("ERR-PYOCO-0042", how, 0.3)
    assert set(run["tasks"].values()) == {"FAILED"}
    await check_next_run(world)


async def test_a_task_that_ignores_its_timeout_is_killed(world: World, written: list[str]) -> None:
    run = await play(world, "stuck", "FAILED", timeout_sec=0.3)

    assert (run["error_code"], run["timeout"]["how"]) == ("ERR-PYOCO-0042", "killed")
    assert "while running stuck; it did not stop within" in run["error"]
    assert run["last_lines"][0] == "about to go wrong"
    await check_next_run(world)


async def test_progress_of_an_async_task_is_visible_until_its_cancel(world: World, written: list[str]) -> None:
    run_id = await world.submit(replace(HELLO, flow_name="waits_for_ever", input={}))
    await world.until(run_id, "RUNNING", progress={"waits_for_ever": 42.0})

    await cancel(world.truth, run_id, None, USER)

    run = await world.until(run_id, "CANCELLED")
    assert run["cancel"]["how"] == "cooperative"
    assert run["task_records"]["waits_for_ever"]["message"] == "halfway"
    assert "progress" not in run
