"""The engine with lasting threads: used again from run to run, and unseen by user code."""

from __future__ import annotations

import concurrent.futures
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from pyoco.core.models import Flow
from pyoco.dsl.syntax import task

from pyoco_server.worker.pooled_engine import PooledEngine

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def run(body: Callable[[], Any]) -> Any:
    """The result of a flow of one task."""

    def only(ctx: Any) -> Any:
        return body()

    flow = Flow(name="one") >> task(only)
    return PooledEngine().run(flow, {}).results["only"]


def test_runs_one_after_the_other_use_the_same_thread() -> None:
    threads = {run(threading.get_ident) for _ in range(3)}

    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_user_code_finds_the_pools_of_the_standard_library() -> None:
    def own_pool() -> tuple[type, int]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return type(pool), pool.submit(lambda: 42).result()

    kind, result = run(own_pool)

    assert kind.__module__ == "concurrent.futures.thread"
    assert result == 42


def test_context_variables_of_one_run_do_not_reach_the_next() -> None:
    run(lambda: mark.set("left over"))

    assert run(mark.get) == "none"


def test_a_run_beside_one_that_does_not_end_has_threads_of_its_own() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return let_go.wait(30)

    stuck = threading.Thread(target=run, args=(wait,))
    stuck.start()
    assert begun.wait(30)

    result = run(lambda: "done")

    let_go.set()
    stuck.join()
    assert result == "done"
