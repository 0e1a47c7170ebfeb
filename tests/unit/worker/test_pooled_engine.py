"""The engine with pooled threads: reused between runs, invisible to user code."""

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

# Of the engine of pyoco.
MOST_THREADS = 8
mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def run(body: Callable[[], Any]) -> Any:
    """The result of a flow of one task."""
    return PooledEngine(None).run(Flow(name="one") >> step("only", body), {}).results["only"]


def run_in_parallel(body: Callable[[], Any]) -> list[Any]:
    """The results of a flow of two tasks that do not wait for each other."""
    results = PooledEngine(None).run(Flow(name="two") >> (step("left", body) & step("right", body)), {}).results
    return [results["left"], results["right"]]


def step(name: str, body: Callable[[], Any]) -> Any:
    def run(ctx: Any) -> Any:
        return body()

    run.__name__ = name
    return task(run)


def test_sequential_tasks_run_in_the_thread_of_the_engine() -> None:
    here = threading.get_ident()
    flow = Flow(name="two") >> step("first", threading.get_ident) >> step("second", threading.get_ident)

    results = PooledEngine(None).run(flow, {}).results

    assert (results["first"], results["second"]) == (here, here)


def test_independent_tasks_run_concurrently() -> None:
    meeting = threading.Barrier(2, timeout=30)

    assert sorted(run_in_parallel(meeting.wait)) == [0, 1]


def test_consecutive_runs_share_the_threads_of_one_pool() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def thread() -> threading.Thread:
        meeting.wait()
        return threading.current_thread()

    # Each run needs two. A pool may add one while another has not yet reported that it is free.
    threads = {one for _ in range(20) for one in run_in_parallel(thread)}

    assert len(threads) <= MOST_THREADS
    assert threading.current_thread() not in threads


def test_the_engine_supervises_a_task_with_a_timeout() -> None:
    late = step("late", threading.get_ident)
    late.task.timeout_sec = 60.0

    results = PooledEngine(None).run(Flow(name="one") >> late, {}).results

    assert results["late"] != threading.get_ident()


def test_an_exception_of_a_task_fails_the_run() -> None:
    def fail() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        run(fail)


def test_user_code_gets_the_pools_of_the_standard_library() -> None:
    def own_pool() -> tuple[type, int]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return type(pool), pool.submit(lambda: 42).result()

    kind, result = run(own_pool)

    assert kind.__module__ == "concurrent.futures.thread"
    assert result == 42


def test_context_variables_are_not_shared_between_runs() -> None:
    run(lambda: mark.set("left over"))
    run_in_parallel(lambda: mark.set("left over"))

    assert run(mark.get) == "none"
    assert run_in_parallel(mark.get) == ["none", "none"]


def test_a_run_beside_an_endless_one_has_its_own_threads() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return let_go.wait(30)

    stuck = threading.Thread(target=run_in_parallel, args=(wait,))
    stuck.start()
    assert begun.wait(30)

    results = run_in_parallel(lambda: "done")

    let_go.set()
    stuck.join()
    assert results == ["done", "done"]
