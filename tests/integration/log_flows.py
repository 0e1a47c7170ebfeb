"""Flows that write output in every possible way, for real runners; loaded by their resolver only."""

# ruff: noqa: T201  # that what tasks write is found again is what they are for
from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

LOGGER = logging.getLogger("flow")


def every_way() -> None:
    print("by print")
    print("two", "lines\nat once", end="")
    print()
    sys.stderr.writelines(["by stderr\n"])
    print("by the first stdout", file=sys.__stdout__)
    os.write(1, b"by a descriptor\n")
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'by a program\\n')"], check=True)
    LOGGER.info("by logging")
    LOGGER.error("by logging, bad")
    LOGGER.debug("too fine")
    thread = threading.Thread(target=print, args=("by a thread",))
    thread.start()
    thread.join()
    print("no newline", end="")


def second() -> None:
    subprocess.run(["echo", "by another program"], check=True)
    print("by the second")


def configured() -> None:
    """A logging configuration of user code applies, and its lines are captured once."""
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s|%(message)s", force=True)
    LOGGER.debug("fine")
    LOGGER.warning("hm")
    logging.getLogger().handlers.clear()
    logging.getLogger().setLevel(logging.INFO)


def die_by_exit() -> None:
    print("last words")
    sys.stdout.write("unfinished")
    sys.stdout.flush()
    os._exit(3)


def die_by_segfault() -> None:
    LOGGER.error("last words")
    os.kill(os.getpid(), signal.SIGSEGV)


def die_by_kill() -> None:
    os.write(2, b"before\n")
    print("last words")
    os.kill(os.getpid(), signal.SIGKILL)


def fails() -> None:
    print("so far so good")
    raise ValueError("no such file")


def chatters(ctx: Any, lines: int = 10_000_000) -> str:
    """Prints without a pause until it is cancelled."""
    for number in range(lines):
        print(f"line {number} of very many, and every one of them of some length, as lines are")
        if ctx.is_cancelled:
            return f"stopped after {number}"
    return "never stopped"


def counts(ctx: Any, lines: int = 100) -> None:
    for number in range(lines):
        print(f"line {number}")


def counts_slowly(ctx: Any, lines: int = 1000) -> None:
    for number in range(lines):
        print(f"line {number}")
        time.sleep(0.005)


def side_by_side(name: str) -> Any:
    def writes() -> None:
        for number in range(200):
            print(f"{name} {number}")
            print(f"{name} long " + "x" * 6000)

    writes.__name__ = name
    return writes


def _flow(name: str, *functions: Any) -> Flow:
    flow = Flow(name=name)
    for function in functions:
        flow = flow >> TaskWrapper(Task(func=function, name=function.__name__))
    return flow


def _parallel() -> Flow:
    flow = Flow(name="parallel")
    for name in ("left", "right"):
        flow.add_task(Task(func=side_by_side(name), name=name))
    return flow


FLOWS = {
    "every_way": _flow("every_way", every_way, second),
    "configured": _flow("configured", configured),
    "exits": _flow("exits", die_by_exit),
    "segfaults": _flow("segfaults", die_by_segfault),
    "killed": _flow("killed", die_by_kill),
    "fails": _flow("fails", fails),
    "chatters": _flow("chatters", chatters),
    "counts": _flow("counts", counts),
    "counts_slowly": _flow("counts_slowly", counts_slowly),
    "parallel": _parallel(),
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
