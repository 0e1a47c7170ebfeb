"""Running a flow in a test: the documented example, and what a result contains."""

from __future__ import annotations

import doctest

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server import testing
from pyoco_server.trace import TaskFailed


def test_the_documented_example_runs() -> None:
    results = doctest.testmod(testing, raise_on_error=True)

    assert results.attempted >= 8


def test_a_coroutine_is_awaited_and_a_failure_is_reported() -> None:
    async def fetch() -> str:
        return "fetched"

    def store(fetch: str) -> None:
        raise ValueError(f"cannot store {fetch}")

    flow = Flow("main")
    flow >> TaskWrapper(Task(func=fetch, name="fetch")) >> TaskWrapper(Task(func=store, name="store"))

    result = testing.run_flow(flow)

    assert (result.status, result.error) == ("FAILED", "ValueError: cannot store fetched")
    assert result.outputs == {"fetch": "fetched"}
    (failed,) = [step for step in result.steps if isinstance(step, TaskFailed)]
    assert (failed.node, failed.error_type) == ("store", "ValueError")
