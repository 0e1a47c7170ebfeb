"""Tasks that try to read what belongs to their worker; loaded by the resolver, never imported by a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper


def ancestors() -> list[int]:
    found, pid = [], os.getppid()
    while pid > 1:
        found.append(pid)
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.partition("PPid:")[2].split()[0])
    return found


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "succeeded"


def identity() -> dict[str, Any]:
    status = Path("/proc/self/status").read_text().splitlines()
    known = dict(line.split(":", 1) for line in status)
    return {
        "uids": sorted(set(os.getresuid())),
        "gids": sorted({*os.getresgid(), *os.getgroups()}),
        "home": os.environ.get("HOME"),
        "capabilities": sorted({int(known[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}),
        "no_new_privileges": known["NoNewPrivs"].strip(),
    }


def attack(secret_file: str) -> dict[str, list[str]]:
    """Every way to the secret, with its outcomes."""
    found: dict[str, list[str]] = {}
    for pid in ancestors()[:2]:  # the fork server and its supervisor
        for name in ("environ", "mem", "maps"):
            found.setdefault(name, []).append(outcome(Path(f"/proc/{pid}/{name}").open))
        found.setdefault("descriptors", []).append(outcome(Path(f"/proc/{pid}/fd/0").readlink))
    found["kill"] = [outcome(lambda: os.kill(ancestors()[1], signal.SIGCONT))]
    found["file"] = [outcome(Path(secret_file).read_text)]
    found["setuid"] = [outcome(lambda: os.setuid(0))]
    return found


def linger() -> None:
    """Prints its pid and that of a program in a session of its own, and never ends."""
    if os.fork() == 0:
        os.setsid()
        child = os.fork()
        if child == 0:
            os.execvp("sleep", ["sleep", "1000"])
        os.write(1, f"pid {child}\n".encode())
        os._exit(0)
    os.wait()
    os.write(1, f"pid {os.getpid()}\n".encode())
    signal.pause()


FLOWS = {
    func.__name__: Flow(name=func.__name__) >> TaskWrapper(Task(func=func, name=func.__name__))
    for func in (identity, attack, linger)
}


def resolve(flow_name: str) -> Flow:
    return FLOWS[flow_name]
