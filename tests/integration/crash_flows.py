"""Flows that crash, for real runner processes; loaded by the resolver, never imported by a test."""

# ruff: noqa: T201  # that what tasks print is found again is what they are for
from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

for_ever = threading.Event()


def say_so() -> None:
    """Writes the line that must be in the log despite the crash."""
    print("about to go wrong", flush=True)


def leaves() -> None:
    sys.exit(3)


def vanishes() -> None:
    os._exit(3)


def segfaults() -> None:
    ctypes.string_at(0)


def aborts() -> None:
    os.abort()


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_group() -> None:
    os.killpg(0, signal.SIGKILL)


def terminates_its_group() -> None:
    os.killpg(0, signal.SIGTERM)
    for_ever.wait()


def wants_too_much() -> None:
    bytearray(1 << 60)


def is_limited() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
    bytearray(1 << 33)


def recurses() -> None:
    recurses()


def returns_a_set() -> object:
    return {1, 2}


def closes_descriptors() -> None:
    os.closerange(0, 16)


def closes_the_standard_ones() -> None:
    os.closerange(0, 3)
    raise ValueError("still there")


def says_much() -> None:
    raise ValueError("x" * 10_000_000)


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def is_speechless() -> None:
    raise Speechless


def speaks_in_halves() -> None:
    raise ValueError("half a character: \ud800")


def raises_many() -> None:
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


async def many() -> AsyncIterator[int]:
    yield 1


async def raises_later() -> None:
    await asyncio.sleep(0)
    raise ValueError("after a while")


async def gives_up_by_itself() -> None:
    raise asyncio.CancelledError


def goes_wrong_in_the_child_too() -> None:
    """Both copies raise; only one of them is the runner."""
    os.fork()
    raise ValueError("twice")


# Harmless errors.


def forks() -> str:
    """The child returns into the engine as if it were the runner."""
    child = os.fork()
    if child == 0:
        return "child"
    _, status = os.waitpid(child, 0)
    return f"child ended with {os.waitstatus_to_exitcode(status)}"


def forks_and_exits() -> str:
    child = os.fork()
    if child == 0:
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    return f"child ended with {os.waitstatus_to_exitcode(status)}"


def leaves_a_thread() -> None:
    def go_on() -> None:
        while not for_ever.wait(0.001):
            continue

    threading.Thread(target=go_on).start()


def leaves_a_program() -> None:
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(f"pid {program.pid}")


async def leaves_tasks() -> str:
    asyncio.get_running_loop().create_task(asyncio.sleep(1000))
    return "left"


def large() -> str:
    return "x" * 2_000_000


def fine() -> str:
    return "fine"


def stuck() -> None:
    print(f"pid {os.getpid()}", flush=True)
    for_ever.wait()


def quotes_its_password(password: str) -> None:
    raise PermissionError(f"login with {password!r} failed")


def crashes_with_its_password(password: str) -> None:
    print(f"using {password}", flush=True)
    os._exit(3)


def polls(ctx: Any) -> None:
    while not ctx.is_cancelled:
        for_ever.wait(0.01)


async def waits_for_ever(ctx: Any) -> None:
    ctx.progress(42, "halfway")
    await asyncio.sleep(1000)


def _flow(func: Callable[..., Any]) -> Flow:
    words, deed = (TaskWrapper(Task(func=each, name=each.__name__)) for each in (say_so, func))
    return Flow(name=func.__name__) >> words >> deed


BAD = (
    *(leaves, vanishes, segfaults, aborts, is_killed, kills_its_group, terminates_its_group, wants_too_much),
    *(is_limited, recurses, returns_a_set, closes_descriptors, closes_the_standard_ones, says_much, is_speechless),
    *(speaks_in_halves, raises_many, many, raises_later, gives_up_by_itself, goes_wrong_in_the_child_too),
)
GOOD = (forks, forks_and_exits, leaves_a_thread, leaves_a_program, leaves_tasks, large, fine, stuck, waits_for_ever)
FLOWS = {func.__name__: _flow(func) for func in (*BAD, *GOOD)}
FLOWS |= {func.__name__: _flow(func) for func in (quotes_its_password, crashes_with_its_password)}
FLOWS["sleeps_beyond_its_limit"] = Flow(name="limited") >> TaskWrapper(Task(func=stuck, name="stuck", timeout_sec=0.3))
FLOWS["observes_its_limit"] = Flow(name="limited") >> TaskWrapper(Task(func=polls, name="polls", timeout_sec=0.3))


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
