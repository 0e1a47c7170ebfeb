"""Flows that use the content of wheels, for runner processes; loaded by the resolver, never imported by a test."""

from __future__ import annotations

import importlib
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, Task


def version_of(package: str) -> str:
    try:
        return str(importlib.import_module(package).VERSION)
    except ModuleNotFoundError:
        return "absent"


def version_of_now_and_later(package: str, path: str) -> list[str]:
    """The version at the start, and again in a new process when a file exists."""
    first = version_of(package)
    Path(path).with_suffix(".begun").touch()
    while not Path(path).exists():
        time.sleep(0.005)
    return [first, version_in_a_program(package)]


def version_in_a_program(package: str) -> str:
    program = f"import {package}; print({package}.VERSION)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def version_in_a_process(package: str) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(version_of, [package])


def output_of(program: str) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


TASKS: dict[str, Any] = {
    "version": version_of,
    "now_and_later": version_of_now_and_later,
    "in_a_program": version_in_a_program,
    "in_a_process": version_in_a_process,
    "output": output_of,
}


def resolve(name: str) -> Flow:
    flow = Flow(name=name)
    flow.add_task(Task(func=TASKS[name], name=name))
    return flow
