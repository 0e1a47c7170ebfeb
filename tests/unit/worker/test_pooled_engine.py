"""The engine with lasting threads: used again from run to run, and unseen by user code."""

from __future__ import annotations

import concurrent.futures
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyoco.core.models import Flow
from pyoco.dsl.syntax import task

from pyoco_server.worker.runner_process.pooled_engine import PooledEngine

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def run(body: Callable[[], Any]) -> Any:
    """The result of a flow of one task."""
    return PooledEngine().run(Flow(name="one") >> step("only", body), {}).results["only"]


def run_side_by_side(body: Callable[[], Any]) -> list[Any]:
    """The results of a flow of two tasks that do not wait for each other."""
    results = PooledEngine().run(Flow(name="two") >> (step("left", body) & step("right", body)), {}).results
    return [results["left"], results["right"]]


def step(name: str, body: Callable[[], Any]) -> Any:
    def run(ctx: Any) -> Any:
        return body()

    run.__name__ = name
    return task(run)


def test_tasks_that_follow_each_other_run_where_the_engine_does() -> None:
    here = threading.get_ident()
    flow = Flow(name="two") >> step("first", threading.get_ident) >> step("second", threading.get_ident)

    results = PooledEngine().run(flow, {}).results

    assert (results["first"], results["second"]) == (here, here)


def test_tasks_that_do_not_wait_for_each_other_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=30)

    assert sorted(run_side_by_side(meeting.wait)) == [0, 1]


def test_runs_one_after_the_other_use_the_same_threads() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def where() -> int:
        meeting.wait()
        return threading.get_ident()

    threads = [set(run_side_by_side(where)) for _ in range(3)]

    assert threads[0] == threads[1] == threads[2]
    assert threading.get_ident() not in threads[0]


def test_the_engine_keeps_watch_over_a_task_with_a_deadline() -> None:
    late = step("late", threading.get_ident)
    late.task.timeout_sec = 60.0

    results = PooledEngine().run(Flow(name="one") >> late, {}).results

    assert results["late"] != threading.get_ident()


def test_what_a_task_raises_is_the_runs_failure() -> None:
    def fail() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        run(fail)


def test_user_code_finds_the_pools_of_the_standard_library() -> None:
    def own_pool() -> tuple[type, int]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return type(pool), pool.submit(lambda: 42).result()

    kind, result = run(own_pool)

    assert kind.__module__ == "concurrent.futures.thread"
    assert result == 42


def test_context_variables_of_one_run_do_not_reach_the_next() -> None:
    run(lambda: mark.set("left over"))
    run_side_by_side(lambda: mark.set("left over"))

    assert run(mark.get) == "none"
    assert run_side_by_side(mark.get) == ["none", "none"]


def test_a_run_beside_one_that_does_not_end_has_threads_of_its_own() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return let_go.wait(30)

    stuck = threading.Thread(target=run_side_by_side, args=(wait,))
    stuck.start()
    assert begun.wait(30)

    results = run_side_by_side(lambda: "done")

    let_go.set()
    stuck.join()
    assert results == ["done", "done"]
