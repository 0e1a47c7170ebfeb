"""Flows to try the server with; `scripts/up` serves them.

A resolver is given the name of a flow and returns the flow; KeyError means that it has no flow of that name.
What is in `FLOWS` of its module the worker announces.
"""

from __future__ import annotations

import time

from pyoco import Flow, task
from pyoco.core.context import Context


@task
def greet(name: str = "world") -> str:
    print(f"saying hello to {name}")
    return f"Hello, {name}!"


@task
def numbers(count: int = 5) -> list[int]:
    return list(range(1, count + 1))


# A parameter named like an earlier task receives what that task returned.
@task
def squares(numbers: list[int]) -> list[int]:
    return [number * number for number in numbers]


@task
def total(squares: list[int]) -> int:
    return sum(squares)


@task
def wait(ctx: Context, seconds: float = 30.0) -> str:
    """Stops within a twentieth of a second when the run is cancelled, because it asks."""
    print(f"waiting for {seconds:g} s")
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(0.05)
    return "stopped" if ctx.is_cancelled else "done"


@task
def count(ctx: Context, seconds: float = 10.0) -> int:
    """Says how far it is. Plain pyoco has no `ctx.progress`; with `getattr` the flow runs there too, and prints."""
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
    """Does what a job is for: takes its parameters, and says line by line what it does with them."""
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
    """Does not care about a cancel: its runner is killed when the grace period is over."""
    time.sleep(seconds)
    return "done"


@task
def fail(message: str = "this flow always fails") -> None:
    raise ValueError(message)


FLOWS = {
    "hello": Flow("hello") >> greet,
    "main": Flow("main") >> analyse,  # what POST /jobs runs when it names no flow
    "pipeline": Flow("pipeline") >> numbers >> squares >> total,
    "slow": Flow("slow") >> wait,
    "count": Flow("count") >> count,
    "stubborn": Flow("stubborn") >> never_ask,
    "fails": Flow("fails") >> fail,
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
