"""One flow in a real pyoco Engine: its steps and its end."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyoco.core.context import Context
from pyoco.core.engine import Engine
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.trace import (
    MESSAGE_CAP_BYTES,
    TRACEBACK_CAP_BYTES,
    Step,
    TaskFailed,
    TaskProgressed,
    TasksDeclared,
    TaskStarted,
    TaskSucceeded,
)
from pyoco_server.worker.runner_process.flow_run import CancelSwitch, run_flow, run_job
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob, step_from_wire, step_to_wire
from pyoco_server.worker.runner_process.task_result import to_storable


@pytest.fixture(autouse=True)
def _in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # pyoco creates ./artifacts


def job(**params: Any) -> RunJob:
    return RunJob(run_id="run-1", flow_name="main", params=params, attempt=1)


def named(name: str, func: Callable[..., Any], **settings: Any) -> TaskWrapper:
    return TaskWrapper(Task(func=func, name=name, **settings))


def task(func: Callable[..., Any]) -> TaskWrapper:
    return named(func.__name__, func)


def flow_of(*tasks: Any) -> Flow:
    flow = Flow(name="main")
    for each in tasks:
        flow = flow >> each
    return flow


def play(flow: Flow, cancel: CancelSwitch | None = None, **params: Any) -> tuple[list[Step], RunEnded]:
    steps: list[Step] = []
    ended = run_flow(flow, job(**params), steps.append, cancel or CancelSwitch())
    assert [step_from_wire(orjson.loads(orjson.dumps(step_to_wire(step)))) for step in steps] == steps
    return steps, ended


def summary(steps: list[Step]) -> list[tuple[str, str, int]]:
    """The steps of nodes as (began | succeeded | failed, node, nth)."""
    short = {TaskStarted: "began", TaskProgressed: "progressed", TaskSucceeded: "succeeded", TaskFailed: "failed"}
    return [(short[type(step)], step.node, step.nth) for step in steps if not isinstance(step, TasksDeclared)]


def outputs(steps: list[Step]) -> dict[str, object]:
    return {step.node: step.output for step in steps if isinstance(step, TaskSucceeded)}


def failures(steps: list[Step]) -> list[TaskFailed]:
    return [step for step in steps if isinstance(step, TaskFailed)]


def raising(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def test_a_flow_reports_its_nodes_outputs_and_completion() -> None:
    @task
    def double(n: int) -> int:
        return 2 * n

    @task
    def describe(double: int) -> dict[str, int]:
        return {"value": double}

    steps, ended = play(flow_of(double, describe), n=21)

    assert isinstance(steps[0], TasksDeclared)
    assert steps[0].nodes == ("double", "describe")
    assert steps[0].edges == (("double", "describe"),)
    assert summary(steps) == [
        ("began", "double", 1),
        ("succeeded", "double", 1),
        ("began", "describe", 1),
        ("succeeded", "describe", 1),
    ]
    assert outputs(steps) == {"double": 42, "describe": {"value": 42}}
    assert (ended.how, ended.results) == ("completed", ("describe",))
    assert steps[0].at <= ended.at


def test_a_task_object_in_two_flows_fails_the_run_with_what_to_do() -> None:
    load, save = named("load", lambda: 1), named("save", lambda: 2)
    flow_of(load, save)
    alone = flow_of(save)

    steps, ended = play(alone)

    assert (ended.how, ended.error_type, summary(steps)) == ("failed", "SharedTask", [])
    assert "task 'save' waits for 'load', which the flow 'main' does not have" in str(ended.message)
    assert "Make one for each flow: task(function)" in str(ended.message)


def test_a_flow_that_runs_again_is_instrumented_once() -> None:
    @task
    def first(n: int) -> int:
        return n

    flow = flow_of(first)
    play(flow, n=1)
    guarded = first.task.func

    steps, _ = play(flow, n=2)

    assert first.task.func is guarded
    assert summary(steps) == [("began", "first", 1), ("succeeded", "first", 1)]
    assert outputs(steps) == {"first": 2}


def test_a_task_that_raises_fails_the_run_with_its_traceback() -> None:
    def divide() -> float:
        return 1 / 0

    steps, ended = play(flow_of(named("divide", divide), named("never", lambda: None)))

    (failed,) = failures(steps)
    assert (failed.node, failed.error_type, failed.message) == ("divide", "ZeroDivisionError", "division by zero")
    assert "return 1 / 0" in failed.traceback
    assert "engine.py" not in failed.traceback
    assert (ended.how, ended.error_type) == ("failed", "ZeroDivisionError")
    assert ended.traceback is not None
    assert "return 1 / 0" in ended.traceback
    assert summary(steps) == [("began", "divide", 1), ("failed", "divide", 1)]


def test_a_retry_that_succeeds_is_not_a_failure() -> None:
    tries: list[int] = []

    def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return len(tries)

    steps, ended = play(flow_of(named("flaky", flaky, retries=3)))

    assert failures(steps) == []
    assert outputs(steps) == {"flaky": 2}
    assert ended.how == "completed"


def test_each_try_of_a_task_is_a_start() -> None:
    left = [OSError("first"), OSError("second")]

    def flaky() -> None:
        if left:
            raise left.pop(0)

    steps, _ = play(flow_of(named("flaky", flaky, retries=3)))

    assert summary(steps) == [*(("began", "flaky", nth) for nth in (1, 2, 3)), ("succeeded", "flaky", 3)]


def test_the_last_try_is_the_one_that_failed() -> None:
    steps, _ = play(flow_of(named("bad", raising(OSError("no")), retries=2)))

    assert summary(steps) == [*(("began", "bad", nth) for nth in (1, 2, 3)), ("failed", "bad", 3)]


def test_a_task_that_calls_the_function_of_another_task_is_not_a_retry_of_it() -> None:
    def inner() -> int:
        return 1

    def outer() -> list[object]:
        return [wrapped.task.func(), wrapped.task.func()]

    wrapped = task(inner)

    steps, _ = play(flow_of(wrapped, task(outer)))

    assert outputs(steps) == {"inner": 1, "outer": [1, 1]}
    assert {step.nth for step in steps if isinstance(step, TaskStarted)} == {1}


def test_an_isolated_failure_is_reported_once_and_the_run_completes() -> None:
    steps, ended = play(flow_of(named("bad", raising(ValueError("no")), fail_policy="isolate")))

    assert summary(steps) == [("began", "bad", 1), ("failed", "bad", 1)]
    assert ended.how == "completed"


def test_values_of_secret_params_are_in_no_error() -> None:
    def login(password: str) -> None:
        raise PermissionError(f"wrong password: {password}")

    steps: list[Step] = []
    secret = "correct horse " * 2000  # longer than what is kept of a message
    job = RunJob(run_id="r", flow_name="main", params={"password": secret}, attempt=1, secret_params=("*password*",))

    ended = run_flow(flow_of(task(login)), job, steps.append, CancelSwitch())

    assert ended.message == "wrong password: ***"
    (failed,) = failures(steps)
    assert failed.message == "wrong password: ***"
    assert "correct horse" not in f"{ended.traceback}{failed.traceback}"


def test_the_limit_of_a_task_is_reported_unless_only_the_task_may_fail() -> None:
    limited = named("limited", lambda: None, timeout_sec=60.0)
    isolated = named("isolated", lambda: None, timeout_sec=60.0, fail_policy="isolate")

    steps, _ = play(flow_of(limited, isolated, named("free", lambda: None)))

    limits = {step.node: step.limit_sec for step in steps if isinstance(step, TaskStarted)}
    assert limits == {"limited": 60.0, "isolated": None, "free": None}


def test_a_task_that_outlasts_its_timeout_failed_even_if_it_returned() -> None:
    steps, ended = play(flow_of(named("slow", lambda: threading.Event().wait(0.05), timeout_sec=0.01)))

    assert summary(steps) == [("began", "slow", 1), ("failed", "slow", 1)]
    assert (ended.how, ended.error_type) == ("failed", "TimeoutError")


def test_an_async_task_is_awaited() -> None:
    @task
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    steps, ended = play(flow_of(fetch), n=1)

    assert outputs(steps) == {"fetch": 2}
    assert ended.how == "completed"


def progress_of(steps: list[Step], node: str) -> list[tuple[float | None, str | None]]:
    return [(step.percent, step.message) for step in steps if isinstance(step, TaskProgressed) and step.node == node]


def test_a_task_reports_progress_and_its_last_report_precedes_its_end() -> None:
    def load(ctx: Any) -> None:
        ctx.progress(42, "halfway")
        for percent in range(43, 101):
            ctx.progress(percent, "more")

    steps, ended = play(flow_of(named("load", load)))

    assert ended.how == "completed"
    assert progress_of(steps, "load") == [(42.0, "halfway"), (100.0, "more")]
    assert [word for word, *_ in summary(steps)] == ["began", "progressed", "progressed", "succeeded"]


def test_parallel_tasks_and_their_threads_report_progress_for_their_own_task() -> None:
    together = threading.Barrier(2, timeout=5)

    def work(ctx: Any, percent: float) -> None:
        together.wait()
        helper = threading.Thread(target=ctx.progress, args=(percent, "from a helper"))
        helper.start()
        helper.join()

    left = named("left", lambda ctx: work(ctx, 10))
    right = named("right", lambda ctx: work(ctx, 20))
    steps, ended = play(flow_of(named("first", lambda: 1), [left, right]))

    assert ended.how == "completed"
    assert progress_of(steps, "left") == [(10.0, "from a helper")]
    assert progress_of(steps, "right") == [(20.0, "from a helper")]


def test_a_flow_that_reports_progress_also_runs_in_plain_pyoco(capsys: pytest.CaptureFixture[str]) -> None:
    def load(ctx: Any) -> int:
        getattr(ctx, "progress", print)(42, "halfway")
        return 1

    Engine().run(flow_of(named("load", load)), {})
    printed = capsys.readouterr().out
    steps, _ = play(flow_of(named("load", load)))

    assert "42 halfway" in printed
    assert progress_of(steps, "load") == [(42.0, "halfway")]


def test_progress_that_is_not_a_number_fails_its_task() -> None:
    steps, _ = play(flow_of(named("load", lambda ctx: ctx.progress("half"))))

    assert failures(steps)[0].message == "progress is a number from 0 to 100, not str"


def test_a_task_that_returns_because_of_a_cancel_has_not_succeeded() -> None:
    cancel = CancelSwitch()

    steps, ended = play(flow_of(named("load", cancel.set)), cancel)

    assert summary(steps) == [("began", "load", 1)]
    assert ended.how == "cancelled"


def test_a_memory_error_without_a_message_gets_one() -> None:
    steps, ended = play(flow_of(named("load", raising(MemoryError()))))

    assert failures(steps)[0].message == "out of memory"
    assert (ended.error_type, ended.message) == ("MemoryError", "out of memory")


def test_the_nodes_of_a_loop_are_numbered() -> None:
    @task
    def step(ctx: Any) -> int:
        return int(ctx.loop.index)

    steps, ended = play(flow_of(step[3]))

    assert summary(steps) == [(word, "step", nth) for nth in (1, 2, 3) for word in ("began", "succeeded")]
    assert [each.output for each in steps if isinstance(each, TaskSucceeded)] == [0, 1, 2]
    assert ended.how == "completed"


def test_tasks_of_a_parallel_group_run_concurrently() -> None:
    both_there = threading.Barrier(2, timeout=5)

    def wait_for_both() -> int:
        return both_there.wait() >= 0

    start, left, right = named("start", lambda: 0), named("left", wait_for_both), named("right", wait_for_both)
    join = named("join", lambda left, right: [left, right])

    steps, ended = play(flow_of(start, [left, right], join))

    assert ended.how == "completed"
    assert isinstance(steps[0], TasksDeclared)
    assert steps[0].nodes == ("start", "left", "right", "join")
    assert outputs(steps)["join"] == [True, True]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "the task called sys.exit(3)"),
        (SystemExit(), "the task called sys.exit()"),
        (KeyboardInterrupt(), "the task raised KeyboardInterrupt"),
        (asyncio.CancelledError(), "the task raised CancelledError"),
    ],
)
def test_an_exit_of_a_task_is_an_ordinary_failure(error: BaseException, message: str) -> None:
    steps, ended = play(flow_of(named("leave", raising(error))))

    assert [failed.message for failed in failures(steps)] == [message]
    assert (ended.how, ended.error_type, ended.message) == ("failed", "TaskExited", message)


def test_a_cancel_during_a_task_starts_no_further_task() -> None:
    cancel = CancelSwitch()
    seen: list[bool] = []

    def stop_me(ctx: Any) -> None:
        cancel.set()
        seen.append(ctx.is_cancelled)

    steps, ended = play(flow_of(named("stop_me", stop_me), named("never", lambda: None)), cancel)

    assert seen == [True]
    assert ended == RunEnded(at=ended.at, how="cancelled")
    assert "never" not in {node for _, node, _ in summary(steps)}


def test_a_cancel_during_the_last_task_wins_over_its_success() -> None:
    cancel = CancelSwitch()

    _, ended = play(flow_of(named("last", cancel.set)), cancel)

    assert ended.how == "cancelled"


def test_a_cancel_before_the_start_runs_nothing() -> None:
    cancel = CancelSwitch()
    cancel.set()

    steps, ended = play(flow_of(named("never", lambda: None)), cancel)

    assert steps == []
    assert ended.how == "cancelled"


def test_a_cancel_stops_retries_at_once() -> None:
    cancel = CancelSwitch()
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        cancel.set()
        raise OSError("again")

    steps, ended = play(flow_of(named("fail", fail, retries=1000)), cancel)

    assert tries == [1]
    assert failures(steps) == []
    assert ended.how == "cancelled"


def test_a_cancel_ends_a_loop_between_iterations() -> None:
    cancel = CancelSwitch()

    steps, ended = play(flow_of(named("round", cancel.set)[1000]), cancel)

    assert summary(steps) == [("began", "round", 1)]
    assert ended.how == "cancelled"


def test_a_cancel_interrupts_an_async_task() -> None:
    cancel = CancelSwitch()

    async def wait_for_ever() -> None:
        threading.Thread(target=cancel.set).start()
        await asyncio.Event().wait()

    _, ended = play(flow_of(named("wait", wait_for_ever)), cancel)

    assert ended.how == "cancelled"


class Unprintable(list[int]):
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Wordy(list[int]):
    def __repr__(self) -> str:
        return "w" * 100_000


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ({"a": [1, 2.5, "x", None, True]}, {"a": [1, 2.5, "x", None, True]}),
        ((1, 2), [1, 2]),
        (2**64 - 1, 2**64 - 1),
        (2**64, {"repr": str(2**64), "type": "int"}),
        ({1: "one"}, {"1": "one"}),
        (math.nan, {"repr": "nan", "type": "float"}),
        ([None, {"deep": math.inf}], {"repr": "[None, {'deep': inf}]", "type": "list"}),
        ("\ud800", {"repr": "'\\ud800'", "type": "str"}),
        ({7: 2**70}, {"repr": "{7: 1180591620717411303424}", "type": "dict"}),
        (Unprintable([2**64]), {"repr": "<Unprintable whose repr raised RuntimeError>", "type": "Unprintable"}),
        (Wordy([2**64]), {"repr": "w" * 4096, "type": "Wordy"}),
    ],
)
def test_an_output_that_cannot_be_stored_as_json_is_stored_as_its_repr(value: object, stored: object) -> None:
    assert to_storable(value) == stored


def cyclic_list() -> list[object]:
    tied: list[object] = []
    tied.append(tied)
    return tied


async def many() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({1, 2}, "Type is not JSON serializable: set"),
        ({"when": object()}, "Type is not JSON serializable: object"),
        (cyclic_list(), "Recursion limit reached"),
        ((n for n in [1]), "the task yields instead of returning"),
        (many(), "the task yields instead of returning"),
    ],
)
def test_a_result_that_is_not_json_fails_its_task_with_advice(value: object, why: str) -> None:
    steps, ended = play(flow_of(named("make", lambda: value), named("never", lambda: None)))

    (failed,) = failures(steps)
    assert failed.error_type == "UnserialisableResult"
    assert why in failed.message
    assert ("ctx.scratch" in failed.message) is not ("yields" in failed.message)
    assert ended.how == "failed"


def test_an_object_that_is_no_json_is_passed_through_the_scratch() -> None:
    def put(ctx: Any) -> None:
        ctx.scratch["seen"] = {1, 2}

    def take(ctx: Any) -> int:
        return len(ctx.scratch["seen"])

    steps, ended = play(flow_of(named("put", put), named("take", take)))

    assert outputs(steps)["take"] == 2
    assert ended.how == "completed"


def test_a_large_output_is_stored_as_its_size_and_its_beginning() -> None:
    stored = to_storable("x" * 100_000)

    assert stored == {"truncated": True, "bytes": 100_002, "preview": '"' + "x" * 1023}


def test_an_output_is_captured_at_the_end_of_its_task() -> None:
    shared: list[int] = [1]

    steps, _ = play(flow_of(named("make", lambda: shared), named("change", lambda: shared.append(2))))

    assert outputs(steps)["make"] == [1]


def test_long_error_texts_are_truncated() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("é" * 100_000)
        exec(f"def level{n}(deep):\n    deep({n - 1})\nlevel{n}(deep)", {"deep": deep})

    steps, _ = play(flow_of(named("deep", lambda: deep(200))))

    (failed,) = failures(steps)
    assert len(failed.message.encode()) <= MESSAGE_CAP_BYTES
    assert len(failed.traceback.encode()) <= TRACEBACK_CAP_BYTES


def test_an_error_whose_str_raises_is_still_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    steps, ended = play(flow_of(named("mute", raising(Mute()))))

    assert summary(steps) == [("began", "mute", 1), ("failed", "mute", 1)]
    assert ended.how == "failed"
    assert ended.traceback is not None
    assert "Mute" in ended.traceback


def test_the_standard_streams_are_restored() -> None:
    before = sys.stdout, sys.stderr

    def replace() -> None:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # closed by the next line
        sys.stdout.close()
        raise ValueError("and leave them so")

    play(flow_of(named("replace", replace)))

    assert (sys.stdout, sys.stderr) == before


def test_an_unknown_flow_is_not_found() -> None:
    ended = run_job(dict[str, Flow]().__getitem__, job(), lambda step: None, CancelSwitch())

    assert (ended.how, ended.error_type) == ("flow_not_found", "FlowNotFound")
    assert ended.message == "no flow named 'main' is served here"


def test_a_resolver_that_raises_fails_the_run() -> None:
    def broken(_name: str) -> Flow:
        raise OSError("the disk is gone")

    ended = run_job(broken, job(), lambda step: None, CancelSwitch())

    assert (ended.how, ended.error_type, ended.message) == ("failed", "OSError", "the disk is gone")


def test_a_resolver_that_returns_no_flow_fails_the_run() -> None:
    ended = run_job(lambda name: name, job(), lambda step: None, CancelSwitch())

    assert ended.how == "failed"
    assert ended.message == "the resolver returned a str for 'main', not a pyoco Flow"


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_an_invalid_task_name_fails_the_run_before_its_first_task(name: str) -> None:
    ran: list[str] = []

    steps, ended = play(flow_of(named("first", lambda: ran.append("first")), named(name, lambda: ran.append(name))))

    assert (steps, ran) == ([], [])
    assert (ended.how, ended.message) == ("failed", f"the name of a task has 1 to 128 characters, not {len(name)}")


def test_a_flow_with_too_many_tasks_fails_before_its_first_task() -> None:
    steps, ended = play(flow_of(*(named(f"t{place}", lambda: None) for place in range(MAX_NODES + 1))))

    assert steps == []
    assert (ended.how, ended.message) == (
        "failed",
        f"the flow has {MAX_NODES + 1} tasks; at most {MAX_NODES} can be run",
    )


def test_a_run_without_artifacts_makes_no_folder_for_them(tmp_path: Path) -> None:
    def say(ctx: Context) -> str:
        return type(ctx.params).__name__

    _, ended = play(flow_of(task(say)))

    assert ended.how == "completed"
    assert list(tmp_path.iterdir()) == []


def test_a_task_can_write_to_the_folder_of_artifacts_itself(tmp_path: Path) -> None:
    def write(ctx: Context) -> str:
        Path(ctx.artifact_dir, "note.txt").write_text("kept")
        return "written"

    _, ended = play(flow_of(task(write)))

    assert ended.how == "completed"
    assert (tmp_path / "artifacts" / "note.txt").read_text() == "kept"


@pytest.mark.parametrize("in_threads", [False, True], ids=["chain", "threads"])
def test_artifacts_are_saved_in_the_folder_of_the_job(tmp_path: Path, in_threads: bool) -> None:
    def save(ctx: Context) -> str:
        path: str = ctx.save_artifact("note.txt", "kept")
        return path

    both = Flow(name="main") >> (named("left", save) & named("right", save))
    steps: list[Step] = []
    run_flow(
        both if in_threads else flow_of(task(save)),
        RunJob(run_id="run-1", flow_name="main", params={}, attempt=1, artifact_dir=str(tmp_path / "data")),
        steps.append,
        CancelSwitch(),
    )

    assert set(outputs(steps).values()) == {str(tmp_path / "data" / "note.txt")}
    assert (tmp_path / "data" / "note.txt").read_text() == "kept"
    assert not (tmp_path / "artifacts").exists()
