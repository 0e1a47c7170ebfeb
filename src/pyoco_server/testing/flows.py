"""Runs a flow in the calling process with the code of a worker's runner."""

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
