"""Runs venv and pip as processes of their own, bounded in time and tied to the worker; it decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os
import re
import signal
import site
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.domain.wheels.sync_state import shortened
from pyoco_server.worker.fork_link import environment_of_flows

# What a fork server has loaded before the first wheel is in sight: a wheel that brings another version of it would be
# installed and never seen, or, worse, half seen.
RUNNERS_STAND_ON = ("pyoco-server", "pyoco", "orjson", "pyyaml")
BENEATH = "pyoco-worker.pth"
PINS = "constraints.txt"
# Somebody's settings may send pip elsewhere; installing anywhere but in the environment is what must never happen.
NOT_FOR_PIP = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_EDITABLE")
# Wheels come from files; an index is asked only for what they require beyond what is there. One that does not answer
# costs two tries of ten seconds per package, not two minutes.
PIP_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off"),
    *(
        "--no-user",
        "--no-warn-script-location",
        "--no-warn-conflicts",
        "--root-user-action",
        "ignore",
        "--retries",
        "1",
        "--timeout",
        "10",
    ),
)
CONFLICT, END_OF_CONFLICT = "The conflict is caused by:", "\n\n"
# Everybody who sees the workers reads pip's words. It hides passwords where it means to tell an address, but not those
# of a proxy, of git, or in a traceback.
USERINFO = re.compile(r"(\w://)[^\s'\"<>]*@")
NO_PIP = "this worker's Python has no pip; install it (python -m ensurepip) and start the worker again"


class InstallFailed(Exception):
    """The tool said no, or took too long; the text is its own words."""


def own_packages() -> dict[str, str]:
    """The packages that runners stand on, with their versions, as far as they are installed as packages."""
    found = {}
    for name in RUNNERS_STAND_ON:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def own_site_folders() -> tuple[str, ...]:
    """The folders of the worker's installed packages."""
    known = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return tuple(folder for folder in known if folder in sys.path)


class Installer:
    """Makes one virtual environment and fills it, within `timeout_sec` in all."""

    def __init__(self, folder: Path, beneath: Sequence[str], own: Mapping[str, str], timeout_sec: float) -> None:
        self.python = folder / "bin" / "python"
        self._folder = folder
        self._beneath = beneath
        self._own = own
        self._timeout_sec = timeout_sec

    async def install(self, wheels: Sequence[Path]) -> tuple[str, ...]:
        """Install exactly these files and what they require; returns the search path of the new interpreter."""
        if importlib.util.find_spec("pip") is None:
            raise InstallFailed(NO_PIP)
        try:
            async with asyncio.timeout(self._timeout_sec):
                await asyncio.to_thread(self.prepare)
                pins = self._folder / PINS
                pip = ("-I", "-m", "pip", "install", *PIP_OPTIONS, "--constraint", str(pins))
                await _run(str(self.python), *pip, *map(str, wheels))
                said = await _run(str(self.python), "-I", "-c", "import json, sys; print(json.dumps(sys.path))")
        except TimeoutError:
            raise InstallFailed(
                f"not installed within {self._timeout_sec:g} s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)"
            ) from None
        return tuple(orjson.loads(said))

    def missing(self, packages: Mapping[NormalizedName, Version]) -> list[str]:
        """Which of these packages are not in the environment itself, whatever pip said."""
        found = {
            canonicalize_name(distribution.name): distribution.version
            for distribution in importlib.metadata.distributions(path=[str(self._packages())])
            if distribution.metadata["Name"]
        }
        return [name for name, version in packages.items() if not _is_version(found.get(name), version)]

    def _packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self._folder)}))

    def prepare(self) -> None:
        """An empty environment over the worker's own: what the worker has counts as installed, and is found last."""
        venv.EnvBuilder(symlinks=True).create(self._folder)
        lines = (f"import site; site.addsitedir({folder!r})\n" for folder in self._beneath)
        (self._packages() / BENEATH).write_text("".join(lines))
        (self._folder / PINS).write_text("".join(f"{name}=={version}\n" for name, version in self._own.items()))


def _is_version(said: str | None, expected: Version) -> bool:
    try:
        return said is not None and Version(said) == expected
    except InvalidVersion:
        return False


async def _run(program: str, *arguments: str) -> bytes:
    """What the program wrote, when it ended well; it never outlives the wait for it, nor the worker."""
    variables = {name: value for name, value in environment_of_flows().items() if name not in NOT_FOR_PIP}
    process = await asyncio.create_subprocess_exec(
        *tied_command(program, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        start_new_session=True,
    )
    try:
        said, complained = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode != 0:
        words = _reason(said.decode(errors="replace"), complained.decode(errors="replace"))
        raise InstallFailed(words or f"{Path(program).name} ended with exit code {process.returncode}")
    return said


def _reason(said: str, complained: str) -> str:
    """What pip has to say about a failure: what it complains of, and what it tells elsewhere about a conflict."""
    _, found, conflict = said.partition(CONFLICT)
    words = "\n".join([complained.strip(), f"{CONFLICT}{conflict.partition(END_OF_CONFLICT)[0]}" if found else ""])
    # Before it is cut: half a password would not be found any more.
    return shortened(USERINFO.sub(r"\1***@", words))
