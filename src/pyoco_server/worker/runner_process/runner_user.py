"""The user that runners run as (PYOCO_RUNNER_USER), so that tasks cannot read what only the worker may read.

A runner of the worker's own user can read the worker's files; of another user it cannot, and neither its memory nor
its environment.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.errors import RunnerUserUnusable
from pyoco_server.worker.runner_process import switch_user

CHECK_LIMIT_SEC = 60.0
FORK_SERVER = "pyoco_server.worker.runner_process.fork_server"
# Run as that user with the worker's search path; prints what it cannot use.
_CHECK = f"""
import importlib, os, sys
try:
    importlib.import_module({FORK_SERVER!r})
except (ImportError, OSError) as error:
    sys.exit(f"that user cannot read the program ({{error}})")
if not os.access(".", os.R_OK | os.W_OK | os.X_OK):
    sys.exit(f"the working folder {{sys.argv[1]}} is not writable for that user")
for path in sys.argv[2:]:
    if not os.access(path, os.R_OK):
        sys.exit(f"that user cannot read {{path}}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUser:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def command(self, *command: str) -> list[str]:
        """The command line that runs `command`, whose first word is a path, as this user and without privileges."""
        groups = ",".join(str(one) for one in self.groups)
        # -I -S: neither the environment nor site-packages can change what the trampoline does, and it starts sooner.
        return [
            *(sys.executable, "-I", "-S", switch_user.__file__),
            *(str(self.uid), str(self.gid), groups, *command),
        ]

    def variables(self, variables: dict[str, str]) -> dict[str, str]:
        return variables | {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def parse_runner_user(text: str) -> RunnerUser | None:
    """The user of that name or number, None for an empty text; `RunnerUserUnusable` says what is wrong."""
    if not text:
        return None
    try:
        entry = pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
    except (KeyError, OverflowError):
        raise RunnerUserUnusable(
            f"there is no user {text[:80]!r} on this machine; create one, for example: "
            "useradd --system --no-create-home --shell /usr/sbin/nologin pyoco-runner"
        ) from None
    if entry.pw_uid == 0:
        raise RunnerUserUnusable("tasks may not run as root; name an ordinary user, for example pyoco-runner")
    if entry.pw_uid == os.geteuid():
        raise RunnerUserUnusable(f"{entry.pw_name} is the user of the worker itself; name another one")
    groups = tuple(one.gr_gid for one in grp.getgrall() if entry.pw_name in one.gr_mem and one.gr_gid != 0)
    return RunnerUser(
        name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, groups=(entry.pw_gid, *groups), home=entry.pw_dir
    )


async def check_runner_user(user: RunnerUser, readable: Sequence[Path]) -> None:
    """`RunnerUserUnusable` unless runners can start as this user, write to the working folder and read these paths."""
    process = await asyncio.create_subprocess_exec(
        *user.command(sys.executable, "-P", "-c", _CHECK, os.getcwd(), *map(str, readable)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        async with asyncio.timeout(CHECK_LIMIT_SEC):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise RunnerUserUnusable(f"no process of {user.name} has started within {CHECK_LIMIT_SEC:g} s") from None
    if process.returncode != 0:
        reason = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise RunnerUserUnusable(f"runners cannot run as {user.name}: {reason}")
