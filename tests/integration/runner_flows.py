"""Correct and faulty flows for runner processes; loaded by the resolver, never imported by a test."""

# ruff: noqa: T201  # that what tasks print is found again is what they are for
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

for_ever = threading.Event()


def add(a: int, b: int) -> int:
    print(f"adding {a} and {b}")
    return a + b


def tell(add: int) -> str:
    return f"the sum is {add}"


def vanish() -> None:
    print("last words", end="", flush=True)
    os._exit(3)


def crash() -> None:
    for n in range(30):
        print(f"line {n}")
    ctypes.string_at(0)


def print_beside_a_non_blocking_child() -> None:
    subprocess.run([sys.executable, "-c", "import os; os.set_blocking(1, False)"], check=True)
    print_much()


def print_much() -> None:
    for n in range(100_000):
        print(f"line {n}")


def wait_until_cancelled(ctx: Any) -> str:
    print("waiting")
    while not ctx.is_cancelled:
        for_ever.wait(0.005)
    return "stopped"


def ignore_cancel() -> None:
    print("waiting")
    for_ever.wait()


def start_programs() -> None:
    """Two programs that outlive their task; one has left the runner's process group."""
    for own_session in (False, True):
        program = subprocess.Popen(["sleep", "1000"], start_new_session=own_session)
        print(f"pid {program.pid}")
    for_ever.wait()


def start_programs_and_crash() -> None:
    program = subprocess.Popen(["sleep", "1000"])
    print(f"pid {program.pid}")
    os.abort()


def fork_and_crash() -> None:
    """The child has every descriptor of the runner and a session of its own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "1000"])
    print(f"pid {child}")
    os.abort()


def daemon() -> None:
    """A process that is not a descendant of its runner, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        child = os.fork()
        if child == 0:
            os.execvp("sleep", ["sleep", "1000"])
        os.write(1, f"pid {child}\n".encode())
        os._exit(0)
    os.wait()


def write_nonsense() -> None:
    os.write(3, b"hello, supervisor\n")
    for_ever.wait()


def close_stdout() -> None:
    sys.stdout.close()


def print_to_both() -> None:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    subprocess.run(["echo", "from a program"], check=True)
    print("no newline", end="")


def wander_off() -> None:
    os.chdir("/")
    os.environ["LEFT_BEHIND"] = "by an earlier run"
    del os.environ["PATH"]


def look_around() -> list[str | None]:
    return [os.getcwd(), os.environ.get("LEFT_BEHIND"), os.environ.get("PATH")]


def secrets() -> list[str]:
    return sorted(name for name in os.environ if name.startswith("PYOCO_"))


def where(ctx: Any) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "run_id": ctx.run_context.run_id,
        "stdin": os.read(0, 1).decode(),
        "open": sorted(int(name) for name in os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else [],
        "threads": threading.active_count(),
    }


def many_large() -> str:
    return "y" * 60_000


def _task(func: Callable[..., Any]) -> TaskWrapper:
    return TaskWrapper(Task(func=func, name=func.__name__))


def _flow(name: str, *parts: Any) -> Flow:
    flow = Flow(name=name)
    for part in parts:
        flow = flow >> part
    return flow


ALONE = (
    *(vanish, crash, print_much, wait_until_cancelled, ignore_cancel),
    *(start_programs, start_programs_and_crash, fork_and_crash, write_nonsense, close_stdout, print_to_both, where),
    *(wander_off, look_around, secrets, daemon, print_beside_a_non_blocking_child),
)
FLOWS = {func.__name__: _flow(func.__name__, _task(func)) for func in ALONE}
FLOWS["sum"] = _flow("sum", _task(add), _task(tell))
FLOWS["large_loop"] = _flow("large_loop", _task(many_large)[200])


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
