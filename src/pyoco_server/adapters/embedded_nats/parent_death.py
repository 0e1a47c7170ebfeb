"""Ties a child process to its parent: the child is killed when the parent dies, however it dies (Linux only).

The module is also a program: `python parent_death.py <parent pid> <executable> [arguments]` ties itself, then becomes
the executable. It imports nothing of the package, and knows nothing about what it runs.
"""

# Why a program and not preexec_fn: preexec_fn runs Python between fork and exec, where a lock held by another thread of
# the parent is held for ever. The trampoline has one thread, costs about 15 ms, and what it asks of the kernel survives
# the exec of any binary that is not setuid.

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGKILL) -> None:
    """Sends this process the signal when the *thread* of the parent that started it ends (Linux only).

    SIGKILL by default, because a hung program must die too, and JetStream's store survives it.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # A parent that died before prctl causes no signal.
    if os.getppid() != parent_pid:
        os._exit(1)


def tied_command(executable: str, *arguments: str) -> list[str]:
    """The command line that runs `executable` tied to this process; spawn it from the main thread."""
    if sys.platform != "linux":
        return [executable, *arguments]
    # -I -S: neither the environment nor site-packages can change what the trampoline does, and it starts sooner.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), executable, *arguments]


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming the given program is what this one is for
