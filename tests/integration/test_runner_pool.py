"""Real runner processes of a real pool: ends of runs, deaths of processes, and no leftovers."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.errors import InvalidUsage
from pyoco_server.trace import Step, TasksDeclared, TaskStarted, TaskSucceeded
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_pool.runner import ProcessRunner
from pyoco_server.worker.runner_process.protocol import FrameTooLarge, RunEnded, RunJob, RunnerDied, RunUpdate

FLOWS = f"{Path(__file__).with_name('runner_flows.py')}:resolve"

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, pidfd and a subreaper")


class Output:
    """The output of the runners, with a way to wait for it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.all_lines: list[LogLine] = []
        self._more = asyncio.Event()

    def __call__(self, run_id: str, lines: Sequence[LogLine]) -> None:
        self.lines += [(run_id, line.text) for line in lines]
        self.all_lines += lines
        self._more.set()

    def of(self, run_id: str) -> list[str]:
        return [line for each, line in self.lines if each == run_id]

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        async with asyncio.timeout(10):
            while not condition([line for _, line in self.lines]):
                self._more.clear()
                await self._more.wait()
        return [line for _, line in self.lines]


@pytest.fixture
def output() -> Output:
    return Output()


one_runner = pytest.mark.parametrize("pool", [1], indirect=True, ids=[""])


@pytest.fixture
async def pool(
    request: pytest.FixtureRequest, output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunnerPool]:
    monkeypatch.chdir(tmp_path)
    pool = RunnerPool(FLOWS, getattr(request, "param", 2), output)
    await pool.start()
    yield pool
    pids = pool.pids()
    async with asyncio.timeout(10):
        await pool.close()
    assert not [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_stopped(pid: int, limit_sec: float = 10) -> None:
    """Waits until every thread of the process has stopped; the kernel reports this to the parent only."""
    deadline = time.monotonic() + limit_sec
    while not all(stat.read_text().rpartition(") ")[2][0] == "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < deadline, f"process {pid} did not stop"
        os.sched_yield()


def wait_until_ended(pid: int, limit_sec: float = 10) -> None:
    """Waits for the end of a process that is not a child of this one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], limit_sec)
    finally:
        os.close(handle)
    assert ended, f"process {pid} is still there"


def job(flow_name: str, run_id: str = "run-1", **params: Any) -> RunJob:
    return RunJob(run_id=run_id, flow_name=flow_name, params=params, attempt=1)


async def updates_of(runner: ProcessRunner) -> list[RunUpdate]:
    async with asyncio.timeout(20):
        return [update async for update in runner.updates()]


async def play(pool: RunnerPool, flow_name: str, run_id: str = "run-1", **params: Any) -> list[RunUpdate]:
    async with pool.borrow() as runner:
        runner.begin(job(flow_name, run_id, **params))
        return await updates_of(runner)


def steps_of(updates: list[RunUpdate]) -> list[Step]:
    return [step for update in updates for step in update.steps]


def ended_of(updates: list[RunUpdate]) -> RunEnded:
    ended = updates[-1].end
    assert isinstance(ended, RunEnded), ended
    return ended


def died_of(updates: list[RunUpdate]) -> RunnerDied:
    died = updates[-1].end
    assert isinstance(died, RunnerDied), died
    return died


def outputs_of(updates: list[RunUpdate]) -> dict[str, object]:
    return {step.node: step.output for step in steps_of(updates) if isinstance(step, TaskSucceeded)}


def pids_in(lines: list[str]) -> list[int]:
    return [int(line.removeprefix("pid ")) for line in lines if line.startswith("pid ")]


async def test_a_short_run_returns_one_batch_of_updates(pool: RunnerPool, output: Output) -> None:
    tries = [await play(pool, "sum", a=2, b=3) for _ in range(20)]  # a busy machine may make some of them long

    updates = min(tries, key=len)
    assert len(updates) == 1
    assert [type(step) for step in steps_of(updates)] == [
        *(TasksDeclared, TaskStarted, TaskSucceeded, TaskStarted, TaskSucceeded)
    ]
    assert outputs_of(updates) == {"add": 5, "tell": "the sum is 5"}
    assert ended_of(updates).how == "completed"
    assert output.of("run-1") == ["adding 2 and 3"] * 20


async def test_steps_of_a_long_run_are_reported_while_it_runs(pool: RunnerPool) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("wait_until_cancelled"))
        updates = runner.updates()
        async with asyncio.timeout(10):
            first = await anext(updates)
            runner.cancel()
            rest = [update async for update in updates]

    assert [type(step) for step in first.steps] == [TasksDeclared, TaskStarted]
    assert ended_of(rest).how == "cancelled"


async def test_runners_work_in_parallel_and_are_reused(pool: RunnerPool) -> None:
    pids = pool.pids()

    runs = [play(pool, "sum", f"run-{n}", a=n, b=n) for n in range(20)]
    results = await asyncio.gather(*runs)

    assert [outputs_of(updates)["add"] for updates in results] == [2 * n for n in range(20)]
    assert pool.pids() == pids


async def test_outputs_above_the_frame_limit_are_sent_in_several_frames(pool: RunnerPool) -> None:
    updates = await play(pool, "large_loop")

    assert [step.nth for step in steps_of(updates) if isinstance(step, TaskSucceeded)] == list(range(1, 201))
    assert ended_of(updates).how == "completed"


async def test_a_job_above_the_frame_limit_is_rejected_and_the_runner_stays_free(pool: RunnerPool) -> None:
    async with pool.borrow() as runner:
        with pytest.raises(FrameTooLarge):
            runner.begin(job("sum", a="x" * 9_000_000))
        runner.begin(job("sum", a=1, b=1))

        assert ended_of(await updates_of(runner)).how == "completed"


async def test_a_hundred_thousand_lines_arrive_before_the_end(pool: RunnerPool, output: Output) -> None:
    await play(pool, "print_much")

    assert output.of("run-1") == [f"line {n}" for n in range(100_000)]


async def test_a_child_that_makes_stdout_non_blocking_does_not_break_print(pool: RunnerPool, output: Output) -> None:
    updates = await play(pool, "print_beside_a_non_blocking_child")

    assert ended_of(updates).how == "completed"
    assert output.of("run-1") == [f"line {n}" for n in range(100_000)]


async def test_everything_written_to_the_standard_descriptors_is_output_of_its_run(
    pool: RunnerPool, output: Output
) -> None:
    await play(pool, "print_to_both", "run-a")
    await play(pool, "sum", "run-b", a=1, b=1)

    assert output.of("run-a") == ["to stdout", "to stderr", "from a program", "no newline"]
    assert output.of("run-b") == ["adding 1 and 1"]


@one_runner
async def test_a_task_that_closes_stdout_does_not_silence_the_next_run(pool: RunnerPool, output: Output) -> None:
    await play(pool, "close_stdout", "run-a")
    await play(pool, "sum", "run-b", a=1, b=1)

    assert output.of("run-b") == ["adding 1 and 1"]


@one_runner
async def test_the_next_run_has_the_original_folder_and_environment(pool: RunnerPool, tmp_path: Path) -> None:
    pids = pool.pids()

    await play(pool, "wander_off", "run-a")
    updates = await play(pool, "look_around", "run-b")

    assert pool.pids() == pids
    assert outputs_of(updates) == {"look_around": [str(tmp_path), None, os.environ["PATH"]]}


async def test_a_flow_does_not_see_the_secrets_of_its_worker(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYOCO_NATS_URL", "PYOCO_NATS_TOKEN", "PYOCO_AUTH_PEPPER", "PYOCO_OF_THE_FLOW"):
        monkeypatch.setenv(name, "nats://user:secret@127.0.0.1:4222")
    pool = RunnerPool(FLOWS, 1, output)
    await pool.start()

    updates = await play(pool, "secrets", "run-a")
    await pool.close()

    assert outputs_of(updates) == {"secrets": ["PYOCO_OF_THE_FLOW", "PYOCO_RUN_ID"]}


async def test_an_exit_by_a_task_is_reported_with_its_exit_code(pool: RunnerPool) -> None:
    updates = await play(pool, "vanish")

    assert died_of(updates) == RunnerDied(exit_code=3, signal_name=None, last_lines=("last words",))


async def test_a_crash_is_reported_with_its_signal_and_last_lines(pool: RunnerPool, output: Output) -> None:
    updates = await play(pool, "crash")

    died = died_of(updates)
    assert (died.exit_code, died.signal_name) == (None, "SIGSEGV")
    report = "\n".join(died.last_lines)
    assert "line 29" in died.last_lines
    assert "Fatal Python error: Segmentation fault" in report
    assert "runner_flows.py" in report
    assert "in crash" in report
    assert output.of("run-1")[:30] == [f"line {n}" for n in range(30)]


async def test_a_dead_runner_is_replaced(pool: RunnerPool) -> None:
    for n in range(4):  # more deaths than runners
        assert died_of(await play(pool, "vanish", f"run-{n}")).exit_code == 3

    assert ended_of(await play(pool, "sum", a=1, b=1)).how == "completed"


@needs_linux
async def test_a_job_given_to_a_dead_runner_never_began(pool: RunnerPool) -> None:
    async with pool.borrow() as runner:
        os.kill(runner.pid, signal.SIGKILL)
        wait_until_ended(runner.pid)
        runner.begin(job("sum", a=1, b=1))

        updates = await updates_of(runner)

    assert [update.end for update in updates] == [
        RunnerDied(exit_code=None, signal_name="SIGKILL", last_lines=(), never_began=True)
    ]


@needs_linux
async def test_a_job_unread_by_a_dead_runner_never_began(pool: RunnerPool) -> None:
    async with pool.borrow() as runner:
        os.kill(runner.pid, signal.SIGSTOP)
        wait_until_stopped(runner.pid)
        runner.begin(job("sum", a=1, b=1))
        runner.kill()

        updates = await updates_of(runner)

    assert [update.end for update in updates] == [
        RunnerDied(exit_code=None, signal_name="SIGKILL", last_lines=(), never_began=True)
    ]


async def test_an_idle_runner_that_dies_is_replaced(pool: RunnerPool) -> None:
    before = pool.pids()

    os.kill(before[0], signal.SIGKILL)
    async with asyncio.timeout(10):
        while before[0] in pool.pids() or len(pool.pids()) < 2:
            last = (await play(pool, "sum", a=1, b=1))[-1].end
            assert (
                last.how == "completed"
                if isinstance(last, RunEnded)
                else isinstance(last, RunnerDied) and last.never_began
            )

    assert before[1] in pool.pids()


async def test_an_ignored_cancel_ends_with_a_kill(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("ignore_cancel"))
        await output.until(lambda lines: "waiting" in lines)
        runner.cancel()
        runner.kill()

        died = died_of(await updates_of(runner))

    assert died == RunnerDied(exit_code=None, signal_name="SIGKILL", last_lines=("waiting",))


@one_runner
async def test_a_late_cancel_does_not_affect_the_next_run(pool: RunnerPool) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("sum", "run-a", a=1, b=1))
        runner.cancel()  # may arrive too late for run-a
        await updates_of(runner)
        runner.begin(job("sum", "run-b", a=1, b=1))
        second = ended_of(await updates_of(runner))

    assert second.how == "completed"


async def test_a_runner_returned_during_a_run_is_not_reused(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("ignore_cancel"))
        await output.until(lambda lines: "waiting" in lines)
        left = runner.pid

    results = await asyncio.gather(*(play(pool, "where", f"run-{n}") for n in range(4)))

    used = {outputs_of(updates)["where"]["pid"] for updates in results}  # type: ignore[index]
    assert left not in used


@needs_linux
async def test_a_runner_is_isolated_from_its_supervisor(pool: RunnerPool) -> None:
    seen = outputs_of(await play(pool, "where", "run-7"))["where"]

    assert isinstance(seen, dict)
    assert seen["pid"] == seen["session"]
    assert (seen["run_id"], seen["stdin"]) == ("run-7", "")
    assert len(seen["open"]) <= 8  # standard three, control socket, reader's pipe, listing


@needs_linux
async def test_a_kill_ends_the_programs_of_a_task(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("start_programs"))
        pids = pids_in(await output.until(lambda lines: len(pids_in(lines)) == 2))
        runner.kill()
        assert died_of(await updates_of(runner)).signal_name == "SIGKILL"

    for pid in pids:
        wait_until_ended(pid)


@needs_linux
async def test_a_crash_ends_the_process_group_of_the_runner(pool: RunnerPool, output: Output) -> None:
    updates = await play(pool, "start_programs_and_crash")

    assert died_of(updates).signal_name == "SIGABRT"
    for pid in pids_in(output.of("run-1")):
        wait_until_ended(pid)


@one_runner
async def test_tenants_never_share_a_process(pool: RunnerPool) -> None:
    pids = []
    for tenant in ("a", "b", "a", None):
        async with pool.borrow(tenant) as runner:
            runner.begin(job("sum", a=1, b=1))
            await updates_of(runner)
            pids.append(runner.pid)

    assert len(set(pids)) == 4


@needs_linux
@one_runner
async def test_a_daemon_of_a_task_ends_before_the_next_tenant_has_a_runner(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow("a") as runner:
        runner.begin(job("daemon"))
        await updates_of(runner)
    (daemon,) = pids_in(await output.until(lambda lines: bool(pids_in(lines))))
    was_running = is_running(daemon)

    async with pool.borrow("b"):
        wait_until_ended(daemon)

    assert was_running


@needs_linux
async def test_a_daemon_does_not_end_with_the_runner_of_another_tenant(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow("a") as runner:
        runner.begin(job("daemon"))
        await updates_of(runner)
    (daemon,) = pids_in(await output.until(lambda lines: bool(pids_in(lines))))

    async with pool.borrow("b") as other:
        os.kill(other.pid, signal.SIGSEGV)
    await other.exited
    await play(pool, "sum", a=1, b=1)

    assert is_running(daemon)


@needs_linux
@one_runner
async def test_a_daemon_ends_with_a_runner_that_crashes(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("daemon"))
        await updates_of(runner)
        (daemon,) = pids_in(await output.until(lambda lines: bool(pids_in(lines))))
        os.kill(runner.pid, signal.SIGSEGV)

    wait_until_ended(daemon)


@needs_linux
@one_runner
async def test_a_stray_process_with_an_open_log_pipe_delays_nothing_and_ends_with_the_pool(
    pool: RunnerPool, output: Output
) -> None:
    async with asyncio.timeout(5):
        updates = await play(pool, "fork_and_crash")
    await pool.close()

    assert died_of(updates).signal_name == "SIGABRT"
    (stray,) = pids_in(output.of("run-1"))
    wait_until_ended(stray)


async def test_a_runner_that_sends_invalid_frames_is_killed(pool: RunnerPool) -> None:
    updates = await play(pool, "write_nonsense")

    assert died_of(updates).signal_name == "SIGKILL"


async def test_a_lost_fork_server_is_replaced_and_borrowed_runners_report_death(
    pool: RunnerPool, output: Output
) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("ignore_cancel"))
        await output.until(lambda lines: "waiting" in lines)
        lost = pool.fork_server_pid
        assert lost is not None
        os.kill(lost, signal.SIGKILL)
        died = died_of(await updates_of(runner))

    assert died == RunnerDied(exit_code=None, signal_name=None, last_lines=("waiting",))
    assert ended_of(await play(pool, "sum", a=1, b=1)).how == "completed"
    assert pool.fork_server_pid != lost


@one_runner
async def test_a_waiting_borrower_fails_when_the_pool_closes(pool: RunnerPool, output: Output) -> None:
    async with pool.borrow() as runner:
        runner.begin(job("ignore_cancel"))
        waiting = asyncio.create_task(play(pool, "sum", a=1, b=1))
        await output.until(lambda lines: "waiting" in lines)
        await pool.close()
        died = died_of(await updates_of(runner))

    assert died.last_lines == ("waiting",)
    with pytest.raises(RuntimeError, match="closed"):
        await waiting


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("print('so long'); import os; os._exit(7)", "died (exit code 7)\nso long"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "died (SIGSEGV)"),
    ],
)
async def test_a_resolver_that_cannot_be_loaded_fails_the_start(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "broken_flows.py").write_text(code)
    pool = RunnerPool(f"{tmp_path}/broken_flows.py:resolve", 2, lambda run_id, lines: None)

    with pytest.raises(InvalidUsage) as refused:
        async with asyncio.timeout(10):
            await pool.start()

    assert message in refused.value.detail
    assert pool.pids() == []


async def test_a_resolver_that_breaks_later_fails_its_jobs(
    output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flows = tmp_path / "changing_flows.py"
    flows.write_text(
        "import os\nfrom pyoco.core.models import Flow, Task\n"
        "if os.path.exists('broken'): 1 / 0\n"
        "def resolve(name): return Flow(name=name) >> Task(func=lambda: os._exit(1), name='vanish')\n"
    )
    pool = RunnerPool(f"{flows}:resolve", 1, output)
    await pool.start()

    (tmp_path / "broken").touch()
    died_of(await play(pool, "any"))
    ended = ended_of(await play(pool, "any"))
    await pool.close()

    assert (ended.how, ended.error_type) == ("failed", "InvalidUsage")
    assert ended.message is not None
    assert "ZeroDivisionError" in ended.message


SUPERVISOR = """
import asyncio, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_process.protocol import RunJob

async def main():
    def say(run_id, lines):
        for line in lines:
            print(line.text, flush=True)

    pool = RunnerPool(sys.argv[2], 2, say)
    await pool.start()
    print("runners", json.dumps([pool.fork_server_pid, *pool.pids()]), flush=True)
    async with pool.borrow() as runner:
        runner.begin(RunJob(run_id="run-1", flow_name="start_programs", params={}, attempt=1))
        async for _ in runner.updates():
            pass

asyncio.run(main())
"""


@needs_linux
def test_a_killed_supervisor_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISOR, json.dumps(sys.path), FLOWS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as supervisor:
        assert supervisor.stdout is not None
        runners = json.loads(supervisor.stdout.readline().removeprefix("runners "))
        programs = pids_in([supervisor.stdout.readline().strip() for _ in range(2)])

        supervisor.kill()

        for pid in (*runners, *programs):
            wait_until_ended(pid)
