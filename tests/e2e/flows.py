"""Correct and faulty flows for real workers; loaded by their resolver, never imported by a test."""

# ruff: noqa: T201  # that what tasks print is found again is what they are for
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper


def greet(name: str = "world") -> str:
    print(f"saying hello to {name}")
    return f"Hello, {name}!"


def numbers(count: int = 3) -> list[int]:
    return list(range(1, count + 1))


def total(numbers: list[int]) -> int:
    return sum(numbers)


def divide() -> float:
    return 1 / 0


def wait(ctx: Any) -> str:
    """Stops when cancelled."""
    print("waiting")
    while not ctx.is_cancelled:
        time.sleep(0.01)
    return "stopped"


def ignore() -> None:
    """Ignores a cancel."""
    print("waiting")
    time.sleep(600)


def wait_for_file(path: str) -> str:
    """Ends when the file exists."""
    while not Path(path).exists():
        time.sleep(0.01)
    return "found"


def count(ctx: Any, path: str) -> str:
    """Reports progress and waits for the file."""
    for percent in range(1, 43):
        ctx.progress(percent, "counting")
    ctx.progress(42, "halfway")
    return wait_for_file(path)


def note_and_wait(path: str, witness: str) -> str:
    """The same, and writes a line when it starts."""
    with Path(witness).open("a") as file:
        file.write("begun\n")
    return wait_for_file(path)


def unsteady(path: str) -> str:
    """Fails twice."""
    with Path(path).open("a") as file:
        file.write("tried\n")
    tries = len(Path(path).read_text().splitlines())
    if tries < 3:
        raise RuntimeError(f"try {tries} failed")
    return "steady"


def join() -> str:
    return "\u202ejoined <script>alert(1)</script>"


HOSTILE_NAME = "\u202e<img src=x onerror=alert(1)>\n"


def _fan() -> Flow:
    """One task, two beside each other, and one behind both."""
    total_task = TaskWrapper(Task(func=total, name="total"))
    hostile_task = TaskWrapper(Task(func=greet, name=HOSTILE_NAME))
    first = Flow(name="fan") >> TaskWrapper(Task(func=numbers, name="numbers"))
    return first >> [total_task, hostile_task] >> TaskWrapper(Task(func=join, name="join"))


def print_texts(texts: list[str], long: int = 0) -> None:
    """The texts, then a line of so many characters."""
    for text in texts:
        print(text)
    if long:
        print("x" * long)


def print_many(count: int, needle: int) -> None:
    """Numbered lines; the one with this number has another text."""
    for number in range(1, count + 1):
        print("here is the Needle" if number == needle else f"line {number} of many")


def print_file(path: str) -> None:
    """Prints the lines of a growing file, until one of them is `end`."""
    while not Path(path).exists():
        time.sleep(0.01)
    with Path(path).open() as file:
        line = ""
        while line != "end\n":
            line = file.readline()
            if line.endswith("\n"):
                print(line, end="")
            else:
                time.sleep(0.01)


def _flow(name: str, *functions: Any) -> Flow:
    flow = Flow(name=name)
    for function in functions:
        flow = flow >> TaskWrapper(Task(func=function, name=function.__name__))
    return flow


FLOWS = {
    "hello": _flow("hello", greet),
    "sum": _flow("sum", numbers, total),
    "fails": _flow("fails", divide),
    "listens": _flow("listens", wait),
    "deaf": _flow("deaf", ignore),
    "waits": _flow("waits", wait_for_file),
    "counts": _flow("counts", count),
    "notes": _flow("notes", note_and_wait),
    "prints": _flow("prints", print_texts, greet),
    "chatters": _flow("chatters", print_many),
    "repeats": _flow("repeats", print_file),
    "fan": _fan(),
    "unsteady": Flow(name="unsteady") >> TaskWrapper(Task(func=unsteady, name="unsteady", retries=2)),
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
