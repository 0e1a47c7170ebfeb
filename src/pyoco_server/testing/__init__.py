"""Helpers for tests: run a flow as a worker does, and in-memory implementations of the ports.

`run_flow` runs a flow in the calling process with the code of a worker's runner, without a broker, gateway or worker:
coroutines are awaited, task timeouts apply, and outputs are stored as the server would store them.

    >>> from pyoco import Flow, task
    >>> from pyoco_server.testing import run_flow
    >>>
    >>> @task
    ... def load(count: int) -> list[int]:
    ...     return list(range(count))
    >>> @task
    ... def total(load: list[int]) -> int:
    ...     return sum(load)
    >>>
    >>> result = run_flow(Flow("sums") >> load >> total, {"count": 5})
    >>> result.status
    'COMPLETED'
    >>> result.outputs
    {'load': [0, 1, 2, 3, 4], 'total': 10}

A failed run does not raise; `result.error` describes the exception and `result.steps` has every step in order:

    >>> result = run_flow(Flow("sums") >> load >> total, {"count": "five"})
    >>> result.status, result.error
    ('FAILED', "TypeError: 'str' object cannot be interpreted as an integer")

The modules `broker`, `job_queue`, `index`, `signals` and `wheel_store` implement the ports of `pyoco_server.ports` in
memory, with the guarantees of the real ones: the same contract suites test both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyoco.core.models import Flow

from pyoco_server.trace import Step, TaskSucceeded
from pyoco_server.worker.runner_process import flow_run
from pyoco_server.worker.runner_process.protocol import RunJob


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """The outcome of a run: its status, the last output of each task by name, its error, and all steps."""

    status: Literal["COMPLETED", "FAILED"]
    outputs: Mapping[str, object]
    error: str | None
    steps: tuple[Step, ...]


def run_flow(flow: Flow, params: Mapping[str, Any] | None = None) -> FlowResult:
    """Run the flow to its end; failures of tasks are part of the result."""
    steps: list[Step] = []
    job = RunJob(run_id="test", flow_name=flow.name, params=dict(params or {}), attempt=1)
    ended = flow_run.run_flow(flow, job, steps.append, flow_run.CancelSwitch())
    return FlowResult(
        status="COMPLETED" if ended.how == "completed" else "FAILED",
        outputs={step.node: step.output for step in steps if isinstance(step, TaskSucceeded)},
        error=None if ended.how == "completed" else f"{ended.error_type}: {ended.message}",
        steps=tuple(steps),
    )
