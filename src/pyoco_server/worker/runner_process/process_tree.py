"""Process trees: death signals, subreaping, descendants and kills.

On systems other than Linux a process group can still be killed; orphans with their own session cannot be found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Becomes the parent of every orphaned descendant, so that it can be found and reaped."""
    _set(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Other processes of the same user can no longer read memory, environment and descriptors of this one.

    Forks inherit it; the start of another program ends it. Root can read everything.
    """
    _set(PR_SET_DUMPABLE, 0)


def _set(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option})")


def reap_ended_children() -> None:
    """Removes the entries of children that have ended, adopted ones included, from the process table."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def children_of(pid: int) -> list[int]:
    """The pids of its children; none without /proc."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                found.extend(int(child) for child in children.read().split())
    return found


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    for child in found:  # the list grows during the loop: grandchildren follow
        found.extend(children_of(child))
    return found


def kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # EPERM: a group of zombies on macOS
        os.killpg(pid, signal.SIGKILL)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Kills a child, its process group and its descendants."""
    descendants = descendants_of(pid)
    kill_group(pid)
    kill(pid)  # one that was just forked has no group of its own yet
    for descendant in descendants:  # those with their own session are not in the group
        kill(descendant)
