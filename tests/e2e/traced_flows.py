"""Flows that use OpenTelemetry themselves; loaded by a worker, never imported by a test."""

# ruff: noqa: T201  # that what tasks print is found again is what they are for
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from opentelemetry.trace import get_current_span
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper


def first(secret: str = "") -> str:
    """Prints its span as OpenTelemetry code in it sees it, and the variables of programs that it would start."""
    context = get_current_span().get_span_context()
    print(f"span {context.trace_id:032x} {context.span_id:016x} sampled={context.trace_flags.sampled}")
    print(f"variables {os.environ.get('TRACEPARENT')} {os.environ.get('OTEL_EXPORTER_OTLP_HEADERS')}")
    return secret


def second(path: str = "") -> str:
    """Waits for the file, if there is a path."""
    while path and not Path(path).exists():
        time.sleep(0.01)
    return "done"


def fail(secret: str = "") -> None:
    raise ValueError(secret)


def _flow(name: str, *functions: Any) -> Flow:
    flow = Flow(name=name)
    for function in functions:
        flow = flow >> TaskWrapper(Task(func=function, name=function.__name__))
    return flow


def check(strategies: list[str]) -> dict[str, Any]:
    """A batch of a recheck."""
    print(f"request {os.environ.get('PYOCO_REQUEST_ID')}")
    return {"results": [{"strategy": one, "health": "healthy", "kpi": {}} for one in strategies]}


FLOWS = {
    "traced": _flow("traced", first, second),
    "fails": _flow("fails", fail),
    "pdca.recheck": _flow("pdca.recheck", check),
}


def resolve(name: str) -> Flow:
    return FLOWS[name]
