"""The user that runners run as (PYOCO_RUNNER_USER), so that tasks cannot read what only the worker may read.

A runner of the worker's own user can read the worker's files; of another user it cannot, and neither its memory nor
its environment.
"""

from __future__ import annotations

import asyncio
import grp
import json
import os
import pwd
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.errors import RunnerUserUnusable
from pyoco_server.worker.runner_process import switch_user

CHECK_LIMIT_SEC = 60.0
FORK_SERVER = "pyoco_server.worker.runner_process.fork_server"
# Run as that user with the worker's search path; prints what it cannot use.
_CHECK = f"""
import importlib, json, os, sys
try:
    importlib.import_module({FORK_SERVER!r})
    from {__name__} import replaceable_at
except (ImportError, OSError) as error:
    sys.exit(f"that user cannot read the program ({{error}})")
if not os.access(".", os.R_OK | os.W_OK | os.X_OK):
    sys.exit(f"the working folder {{sys.argv[1]}} is not writable for that user")
for path in json.loads(sys.argv[2]):
    if not os.access(path, os.R_OK):
        sys.exit(f"that user cannot read {{path}}")
for path, remedy in json.loads(sys.argv[3]).items():
    if (part := replaceable_at(path)) is not None:
        sys.exit(f"tasks could replace {{path}}, because that user may write to {{part}}; {{remedy}}")
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


async def check_runner_user(
    user: RunnerUser, readable: Sequence[Path], trusted: Mapping[Path, str] | None = None
) -> None:
    """`RunnerUserUnusable` unless runners can start as this user, write to the working folder and read these paths.

    Those that the worker trusts, each with what to do about it, must be out of the user's reach: the worker runs
    programs of an environment of wheels, and may be root.
    """
    paths = json.dumps([str(path) for path in readable])
    others = json.dumps({str(path): remedy for path, remedy in (trusted or {}).items()})
    process = await asyncio.create_subprocess_exec(
        *user.command(sys.executable, "-P", "-c", _CHECK, os.getcwd(), paths, others),
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


def replaceable_at(path: str) -> str | None:
    """The file or folder by which the user of this process could change what is at the path; None if it could not."""
    for form in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        if os.path.lexists(form) and _is_writable(form):
            return form
        while (folder := os.path.dirname(form)) != form:
            if os.path.lexists(folder) and _is_writable(folder) and not _keeps(folder, form):
                return folder
            form = folder
    return None


def _is_writable(path: str) -> bool:
    return os.access(path, os.W_OK) or os.lstat(path).st_uid == os.getuid()


def _keeps(folder: str, path: str) -> bool:
    """Whether what is in the folder stays its owner's, as in /tmp."""
    status = os.stat(folder)
    is_sticky = bool(status.st_mode & stat.S_ISVTX) and status.st_uid != os.getuid()
    return is_sticky and os.path.lexists(path) and os.lstat(path).st_uid != os.getuid()
