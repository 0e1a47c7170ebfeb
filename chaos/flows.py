"""The flows that are run while processes are killed. Each tells a file of its own what it does, beside the program, so
that what was really executed can be counted from outside.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

from pyoco import Flow, task
from pyoco.core.context import Context

TICK_SEC = 0.05


def tell(ctx: Context, what: str) -> None:
    """One line, written by one call: lines of many processes never mix."""
    line = f"{time.time():.6f} {ctx.run_context.run_id} {os.getpid()} {what}\n"
    descriptor = os.open(os.environ["PYOCO_CHAOS_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def instant(ctx: Context) -> str:
    tell(ctx, "begin")
    tell(ctx, "end")
    return "done"


def step(number: int, last: int) -> Callable[[Context], int]:
    def work(ctx: Context) -> int:
        tell(ctx, "begin" if number == 1 else "end" if number == last else "tick")
        return number

    work.__name__ = f"step_{number}"
    return work


def cooperative(ctx: Context, seconds: float) -> str:
    """Asks whether it should stop, and then stops."""
    tell(ctx, "begin")
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(TICK_SEC)
        tell(ctx, "tick")
    tell(ctx, "end")
    return "stopped" if ctx.is_cancelled else "done"


def stubborn(ctx: Context, seconds: float) -> str:
    """Never asks: a cancel has to kill it."""
    tell(ctx, "begin")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(TICK_SEC)
        tell(ctx, "tick")
    tell(ctx, "end")
    return "done"


def failing(ctx: Context) -> None:
    tell(ctx, "begin")
    raise ValueError("this flow always fails")


def crashing(ctx: Context) -> None:
    tell(ctx, "begin")
    os._exit(3)


def program(ctx: Context, seconds: float) -> str:
    """Starts a program that would run for long: when this process is killed, it has to go too."""
    tell(ctx, "begin")
    with subprocess.Popen(["sleep", "60"]) as asleep:
        time.sleep(seconds)
        asleep.kill()
    tell(ctx, "end")
    return "done"


def _in_a_row(name: str, *functions: Callable[..., object]) -> Flow:
    flow = Flow(name)
    for function in functions:
        flow = flow >> task(function)
    return flow


FLOWS = {
    "instant": _in_a_row("instant", instant),
    "ten": _in_a_row("ten", *(step(number, 10) for number in range(1, 11))),
    "cooperative": _in_a_row("cooperative", cooperative),
    "stubborn": _in_a_row("stubborn", stubborn),
    "failing": _in_a_row("failing", failing),
    "crashing": _in_a_row("crashing", crashing),
    "program": _in_a_row("program", program),
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
