"""The flows that both sides of the benchmark run; they do no I/O and keep no state: only the backend is measured."""

import threading
import time
from collections.abc import Callable
from typing import Any

from pyoco.core.models import Flow
from pyoco.dsl.syntax import TaskWrapper, task

SLEEPER_POLL_SEC = 0.001
SLEEPER_MAX_SEC = 5.0
LINE_FILLER = "x" * 64
LOUD_BYTES_PER_SEC = 10_000_000
LOUD_LINE = "y" * 499


def fibo(n: int) -> int:
    """The naive recursion: a small, fixed amount of pure Python."""
    return n if n < 2 else fibo(n - 1) + fibo(n - 2)


def _increment(ctx: Any) -> int:
    return 1 + int(ctx.params.get("x", 0))


def _fibo_step(ctx: Any) -> int:
    return fibo(10)


def _sleep_until_cancelled(ctx: Any) -> str:
    never = threading.Event()
    end = time.monotonic() + SLEEPER_MAX_SEC
    while time.monotonic() < end:
        if ctx.is_cancelled:
            return "stopped"
        never.wait(SLEEPER_POLL_SEC)
    return "slept to the end"


def _print_lines(ctx: Any) -> int:
    """Prints at full speed."""
    count = int(ctx.params["lines"])
    for number in range(count):
        print(f"line {number:09d} {LINE_FILLER}")
    return count


def _print_until_cancelled(ctx: Any) -> str:
    """Prints ten megabytes a second at a constant rate."""
    never, began = threading.Event(), time.monotonic()
    printed = 0
    while (elapsed := time.monotonic() - began) < SLEEPER_MAX_SEC:
        while printed < elapsed * LOUD_BYTES_PER_SEC:
            print(LOUD_LINE)
            printed += len(LOUD_LINE) + 1
            if ctx.is_cancelled:
                return "stopped"
        if ctx.is_cancelled:
            return "stopped"
        never.wait(SLEEPER_POLL_SEC)
    return "printed to the end"


def _print_evenly(ctx: Any) -> int:
    """Prints one line at a time, with the time of printing in it."""
    never, began = threading.Event(), time.monotonic()
    count, per_sec = int(ctx.params["lines"]), float(ctx.params["per_sec"])
    for number in range(count):
        never.wait(max(0.0, began + number / per_sec - time.monotonic()))
        print(f"line {number:06d} printed at {time.time():.6f}")
    return count


def _step(name: str, body: Callable[[Any], Any]) -> TaskWrapper:
    def run(ctx: Any) -> Any:
        return body(ctx)

    run.__name__ = name
    wrapper: TaskWrapper = task(run)
    return wrapper


def _chain(name: str, *steps: TaskWrapper) -> Flow:
    flow = Flow(name=name)
    for step in steps:
        flow = flow >> step
    return flow


def _one() -> Flow:
    return _chain("one", _step("only", _increment))


def _ten() -> Flow:
    return _chain("ten", *(_step(f"step{i:02d}", _increment) for i in range(10)))


def _fibo40() -> Flow:
    return _chain("fibo40", *(_step(f"fibo{i:02d}", _fibo_step) for i in range(40)))


def _sleeper() -> Flow:
    # pyoco checks for a cancel between tasks only: without a task after the sleeper a cancelled run would
    # depend on how the backend treats the last task, and that is not what the row measures.
    return _chain("sleeper", _step("sleeper", _sleep_until_cancelled), _step("after", _increment))


def _prints() -> Flow:
    return _chain("prints", _step("prints", _print_lines))


def _ticks() -> Flow:
    return _chain("ticks", _step("ticks", _print_evenly))


def _loud() -> Flow:
    return _chain("loud", _step("loud", _print_until_cancelled), _step("after", _increment))


FLOWS: dict[str, Callable[[], Flow]] = {
    "one": _one,
    "ten": _ten,
    "fibo40": _fibo40,
    "sleeper": _sleeper,
    "prints": _prints,
    "loud": _loud,
    "ticks": _ticks,
}


def resolve(flow_name: str) -> Flow:
    """A fresh flow each time; an unknown name is a KeyError, as the contract of flow resolvers asks."""
    return FLOWS[flow_name]()
