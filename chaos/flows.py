"""The flows of the load. Each records its side effects in a file, independently of the program, and numbers the lines
that it prints.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pyoco import Flow, task
from pyoco.core.context import Context

TICK_SEC = 0.05
RECHECK_SEC = (0.1, 2.0)
# The packages of chaos/wheel_changes.py.
PACKAGES = ("chaos_alpha", "chaos_beta", "chaos_gamma")


def record(ctx: Context, what: str, detail: object = "") -> None:
    """Appends one line with one write, so lines of concurrent processes never mix."""
    line = f"{time.time():.6f} {ctx.run_context.run_id} {os.getpid()} {what} {detail}\n"
    descriptor = os.open(os.environ["PYOCO_CHAOS_SIDE_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def print_line(number: int) -> None:
    """Prints line `number`. Numbers start with 1; the end record contains the last one."""
    print(f"line {os.getpid()} {number}")


def instant(ctx: Context) -> str:
    record(ctx, "begin")
    print_line(1)
    print_line(2)
    record(ctx, "end", 2)
    return "done"


def step(number: int, last: int) -> Callable[[Context], int]:
    def work(ctx: Context) -> int:
        print_line(number)
        record(ctx, "begin" if number == 1 else "end" if number == last else "tick", number)
        return number

    work.__name__ = f"step_{number}"
    return work


def cooperative(ctx: Context, seconds: float) -> str:
    """Stops when cancelled."""
    record(ctx, "begin")
    end = time.monotonic() + seconds
    lines = 0
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(TICK_SEC)
        record(ctx, "tick")
        print_line(lines := lines + 1)
    record(ctx, "end", lines)
    return "stopped" if ctx.is_cancelled else "done"


def stubborn(ctx: Context, seconds: float) -> str:
    """Ignores a cancel, so it has to be killed."""
    record(ctx, "begin")
    end = time.monotonic() + seconds
    lines = 0
    while time.monotonic() < end:
        time.sleep(TICK_SEC)
        record(ctx, "tick")
        print_line(lines := lines + 1)
    record(ctx, "end", lines)
    return "done"


def flood(ctx: Context, count: int) -> str:
    """Prints as fast as it can."""
    record(ctx, "begin")
    for number in range(1, count + 1):
        print_line(number)
    record(ctx, "end", count)
    return "done"


def failing(ctx: Context) -> None:
    record(ctx, "begin")
    print_line(1)
    raise ValueError("this flow always fails")


def crashing(ctx: Context) -> None:
    record(ctx, "begin")
    print_line(1)
    os._exit(3)


def program(ctx: Context, seconds: float) -> str:
    """Starts a long-running child process, which must end when this process is killed."""
    record(ctx, "begin")
    print_line(1)
    with subprocess.Popen(["sleep", "60"]) as asleep:
        time.sleep(seconds)
        asleep.kill()
    print_line(2)
    record(ctx, "end", 2)
    return "done"


def wheel(ctx: Context, seconds: float) -> str:
    """Checks at its start and end which wheels it can import: they must not change in between."""
    record(ctx, "begin")
    home = Path(os.environ.get("VIRTUAL_ENV", ""))
    first = {name: importlib.import_module(name).STAMP for name in PACKAGES if importlib.util.find_spec(name)}
    print_line(1)
    time.sleep(seconds)
    last = {name: _stamp_on_disk(name) for name in PACKAGES if importlib.util.find_spec(name)}
    complete = home.parent.name != "envs" or (home / "environment.json").exists()
    print_line(2)
    record(ctx, "saw", json.dumps({"first": first, "last": last, "complete": complete}, separators=(",", ":")))
    record(ctx, "end", 2)
    return "done"


def code(ctx: Context, seconds: float) -> str:
    """Imports one module at its start and one at its end: they must be of one version."""
    record(ctx, "begin")
    first = importlib.import_module("chaos_code").STAMP
    print_line(1)
    time.sleep(seconds)
    later = importlib.import_module("chaos_code.later").STAMP
    print_line(2)
    record(ctx, "used", f"{first},{later}")
    record(ctx, "end", 2)
    return "done"


def recheck(ctx: Context, strategies: list[str], request_id: str, batch: int, reason: str) -> dict[str, object]:
    """One batch of a PDCA request, which a cancel ends early; the second one of a failing request fails."""
    record(ctx, "begin")
    end = time.monotonic() + random.Random(f"{request_id} {batch}").uniform(*RECHECK_SEC)
    while time.monotonic() < end and not ctx.is_cancelled:
        time.sleep(TICK_SEC)
    print_line(1)
    if reason == "failing" and batch % 2 == 0:
        raise ValueError("this batch always fails")
    record(ctx, "end", 1)
    healths = ("healthy", "degraded")
    results = [
        {"strategy": one, "health": healths[place % 2], "kpi": {"winrate": 0.5}} for place, one in enumerate(strategies)
    ]
    return {"results": results, "reports": [{"name": "report.md", "media_type": "text/markdown", "text": f"# {batch}"}]}


def _stamp_on_disk(package: str) -> str:
    """Reads the file, because an imported module would not change."""
    try:
        return Path(importlib.import_module(package).__file__ or "").with_name("stamp.txt").read_text()
    except OSError as error:
        return type(error).__name__


def _sequence(name: str, *functions: Callable[..., object]) -> Flow:
    flow = Flow(name)
    for function in functions:
        flow = flow >> task(function)
    return flow


FLOWS = {
    "instant": _sequence("instant", instant),
    "ten": _sequence("ten", *(step(number, 10) for number in range(1, 11))),
    "cooperative": _sequence("cooperative", cooperative),
    "stubborn": _sequence("stubborn", stubborn),
    "flood": _sequence("flood", flood),
    "failing": _sequence("failing", failing),
    "crashing": _sequence("crashing", crashing),
    "program": _sequence("program", program),
    "wheel": _sequence("wheel", wheel),
    "code": _sequence("code", code),
    "pdca.recheck": _sequence("pdca.recheck", recheck),
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
