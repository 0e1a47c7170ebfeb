"""Example flows; `scripts/up` serves them.

A resolver maps the name of a flow to the flow; KeyError means that there is none. The worker announces `FLOWS`.
"""

from __future__ import annotations

import time

from pyoco import Flow, task
from pyoco.core.context import Context

import pdca_recheck


@task
def greet(name: str = "world") -> str:
    print(f"saying hello to {name}")
    return f"Hello, {name}!"


@task
def numbers(count: int = 5) -> list[int]:
    return list(range(1, count + 1))


# A parameter named like an earlier task receives its result.
@task
def squares(numbers: list[int]) -> list[int]:
    return [number * number for number in numbers]


@task
def total(squares: list[int]) -> int:
    return sum(squares)


@task
def wait(ctx: Context, seconds: float = 30.0) -> str:
    """Checks for a cancel and stops within a twentieth of a second."""
    print(f"waiting for {seconds:g} s")
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(0.05)
    return "stopped" if ctx.is_cancelled else "done"


@task
def count(ctx: Context, seconds: float = 10.0) -> int:
    """Reports progress. Plain pyoco has no `ctx.progress`; with `getattr` the flow runs there too, and prints."""
    progress = getattr(ctx, "progress", print)
    for percent in range(100):
        if ctx.is_cancelled:
            return percent
        progress(percent, f"counting: {percent}")
        time.sleep(seconds / 100)
    progress(100, "done")
    return 100


@task
def analyse(ctx: Context, input: str = "data.csv", mode: str = "fast", steps: int = 3) -> dict[str, object]:
    """A typical job: takes parameters and prints what it does."""
    print(f"Start analysis of {input}.")
    for step in range(1, steps + 1):
        if ctx.is_cancelled:
            return {"input": input, "steps": step - 1}
        time.sleep(0.05 if mode == "fast" else 1.0)
        print(f"Step {step} complete.")
    print("Done.")
    return {"input": input, "steps": steps}


@task
def never_ask(seconds: float = 300.0) -> str:
    """Ignores a cancel: its runner is killed after the grace period."""
    time.sleep(seconds)
    return "done"


@task
def fail(message: str = "this flow always fails") -> None:
    raise ValueError(message)


FLOWS = {
    "hello": Flow("hello") >> greet,
    "main": Flow("main") >> analyse,  # the default flow of POST /jobs
    "pipeline": Flow("pipeline") >> numbers >> squares >> total,
    "slow": Flow("slow") >> wait,
    "count": Flow("count") >> count,
    "stubborn": Flow("stubborn") >> never_ask,
    "fails": Flow("fails") >> fail,
    "pdca.recheck": pdca_recheck.FLOW,  # the batches of PDCA requests
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
