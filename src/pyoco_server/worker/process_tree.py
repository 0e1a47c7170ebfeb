"""What the operating system is asked about the kinship of processes; on systems other than Linux it asks for less.

There a runner's process group can still be killed; orphans with a session of their own cannot be found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent_pid: int, signal_number: int) -> None:
    """Be sent this signal when the parent dies; leave at once if it has died already."""
    _prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that it can be found and reaped."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, argument: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {argument}) was refused")


def children_of(pid: int) -> list[int]:
    """The pids whose parent it is; none where there is no /proc."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                found.extend(int(child) for child in children.read().split())
    return found


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    for child in found:  # the list grows while it is walked: the children's children follow
        found.extend(children_of(child))
    return found


def kill_group(pid: int) -> None:
    """SIGKILL the process group that the pid leads, if there still is one."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
        os.killpg(pid, signal.SIGKILL)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
