"""The flows that are run while processes are killed. Each tells a file of its own what it does, beside the program, so
that what was really executed can be counted from outside; and each numbers the lines that it prints.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pyoco import Flow, task
from pyoco.core.context import Context

TICK_SEC = 0.05
# The packages of chaos/wheelwright.py.
PACKAGES = ("chaos_alpha", "chaos_beta", "chaos_gamma")


def tell(ctx: Context, what: str, detail: object = "") -> None:
    """One line, written by one call: lines of many processes never mix."""
    line = f"{time.time():.6f} {ctx.run_context.run_id} {os.getpid()} {what} {detail}\n"
    descriptor = os.open(os.environ["PYOCO_CHAOS_WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def say(number: int) -> None:
    """Print the line of that number: they begin with 1, and the last is told to the witness at the end."""
    print(f"line {os.getpid()} {number}")


def instant(ctx: Context) -> str:
    tell(ctx, "begin")
    say(1)
    say(2)
    tell(ctx, "end", 2)
    return "done"


def step(number: int, last: int) -> Callable[[Context], int]:
    def work(ctx: Context) -> int:
        say(number)
        tell(ctx, "begin" if number == 1 else "end" if number == last else "tick", number)
        return number

    work.__name__ = f"step_{number}"
    return work


def cooperative(ctx: Context, seconds: float) -> str:
    """Asks whether it should stop, and then stops."""
    tell(ctx, "begin")
    end = time.monotonic() + seconds
    lines = 0
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(TICK_SEC)
        tell(ctx, "tick")
        say(lines := lines + 1)
    tell(ctx, "end", lines)
    return "stopped" if ctx.is_cancelled else "done"


def stubborn(ctx: Context, seconds: float) -> str:
    """Never asks: a cancel has to kill it."""
    tell(ctx, "begin")
    end = time.monotonic() + seconds
    lines = 0
    while time.monotonic() < end:
        time.sleep(TICK_SEC)
        tell(ctx, "tick")
        say(lines := lines + 1)
    tell(ctx, "end", lines)
    return "done"


def failing(ctx: Context) -> None:
    tell(ctx, "begin")
    say(1)
    raise ValueError("this flow always fails")


def crashing(ctx: Context) -> None:
    tell(ctx, "begin")
    say(1)
    os._exit(3)


def program(ctx: Context, seconds: float) -> str:
    """Starts a program that would run for long: when this process is killed, it has to go too."""
    tell(ctx, "begin")
    say(1)
    with subprocess.Popen(["sleep", "60"]) as asleep:
        time.sleep(seconds)
        asleep.kill()
    say(2)
    tell(ctx, "end", 2)
    return "done"


def wheel(ctx: Context, seconds: float) -> str:
    """Looks twice which wheels it can import, and where it is: nothing may change under it."""
    tell(ctx, "begin")
    home = Path(os.environ.get("VIRTUAL_ENV", ""))
    first = {name: importlib.import_module(name).STAMP for name in PACKAGES if importlib.util.find_spec(name)}
    say(1)
    time.sleep(seconds)
    last = {name: _stamp_on_disk(name) for name in PACKAGES if importlib.util.find_spec(name)}
    complete = home.parent.name != "envs" or (home / "environment.json").exists()
    say(2)
    tell(ctx, "saw", json.dumps({"first": first, "last": last, "complete": complete}, separators=(",", ":")))
    tell(ctx, "end", 2)
    return "done"


def _stamp_on_disk(package: str) -> str:
    """Read anew: what is imported already would not change."""
    try:
        return Path(importlib.import_module(package).__file__ or "").with_name("stamp.txt").read_text()
    except OSError as error:
        return type(error).__name__


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
    "wheel": _in_a_row("wheel", wheel),
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
