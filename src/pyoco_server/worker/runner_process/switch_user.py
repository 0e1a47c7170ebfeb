"""Becomes another user without any privilege, then a program: `python switch_user.py <uid> <gid> <groups> <program> …`.

It imports nothing of the package. A program and not an argument of `subprocess`: capabilities that a service manager
gives to the worker (AmbientCapabilities of systemd) would survive the change of the user and the start of the program.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h


def switch_user(uid: int, gid: int, groups: list[int]) -> None:
    """`OSError` if this process may not. Clears the signal at the parent's death: tie the process again."""
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        # No effective, permitted or inheritable ones; ambient ones go with them.
        if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0 or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "capset, prctl(PR_SET_NO_NEW_PRIVS)")


def main(uid: str, gid: str, groups: str, *command: str) -> None:
    try:
        switch_user(int(uid), int(gid), [int(one) for one in groups.split(",") if one])
    except OSError as error:
        sys.exit(f"this worker may not start processes of another user ({error.strerror})")
    try:
        os.execv(command[0], command)  # noqa: S606 - becoming the given program is what this one is for
    except OSError as error:
        sys.exit(f"that user cannot run {command[0]} ({error.strerror}): every folder of its path must be open to it")


if __name__ == "__main__":
    main(*sys.argv[1:])
