"""Builds a virtual environment with venv and pip, as processes bounded in time and tied to the worker."""

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.config import SETTINGS
from pyoco_server.domain.wheels.sync_state import shortened
from pyoco_server.worker.runner_process.runner_user import RunnerUser

# What a fork server has loaded before any wheel: another version in a wheel would be installed and not be used, or only
# in part.
RUNNER_PACKAGES = ("pyoco-server", "pyoco", "orjson", "pyyaml")
BASE_FOLDERS_FILE = "pyoco-worker.pth"
CONSTRAINTS = "constraints.txt"
# Variables that make pip install elsewhere: it must never install outside of the environment.
HIDDEN_FROM_PIP = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_EDITABLE")
# Wheels come from files; an index is used only for missing requirements. One that does not answer costs two tries of
# ten seconds per package, not two minutes.
PIP_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar", "off"),
    *("--no-user", "--no-warn-script-location", "--no-warn-conflicts", "--root-user-action=ignore"),
    *("--retries=1", "--timeout=10"),
)
# Of pip, and of what wheels do when their Python starts. pip prints a few hundred bytes per package.
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
CONFLICT, END_OF_CONFLICT = "The conflict is caused by:", "\n\n"
# pip's output is shown to everyone who may list workers. pip hides passwords in index addresses, but not those of a
# proxy, of git, or in a traceback.
USERINFO = re.compile(r"(\w://)[^\s'\"<>]*@")
# Not marked as secrets, but an address may contain a password, and the file is one.
BROKER_ACCESS = ("nats_url", "nats_creds_file")
COLLECTOR_SECRETS = {"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}
NO_PIP = "this worker's Python has no pip; install it (python -m ensurepip) and start the worker again"


class InstallFailed(Exception):
    """venv or pip failed or timed out; the text is their own message."""


def user_code_variables() -> dict[str, str]:
    """The worker's environment variables without the broker's address and other secrets."""
    hidden = {setting.variable for setting in SETTINGS if setting.secret or setting.name in BROKER_ACCESS}
    hidden |= COLLECTOR_SECRETS
    return {name: value for name, value in os.environ.items() if name not in hidden}


def own_packages() -> dict[str, str]:
    """The versions of `RUNNER_PACKAGES`, as far as they are installed as packages."""
    found = {}
    for name in RUNNER_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def own_site_folders() -> tuple[str, ...]:
    known = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return tuple(folder for folder in known if folder in sys.path)


class VenvBuilder:
    """Builds one virtual environment; installing may take `timeout_sec` in all."""

    def __init__(
        self,
        folder: Path,
        base_folders: Sequence[str],
        own: Mapping[str, str],
        timeout_sec: float,
        user: RunnerUser | None = None,
    ) -> None:
        self.python = folder / "bin" / "python"
        self._folder = folder
        self._base_folders = base_folders
        self._own = own
        self._timeout_sec = timeout_sec
        self._user = user

    async def install(self, wheels: Sequence[Path]) -> tuple[str, ...]:
        """Installs these files and their requirements; returns the search path of the new interpreter."""
        if importlib.util.find_spec("pip") is None:
            raise InstallFailed(NO_PIP)
        # Outside of the limit, which cannot stop a thread: it would write into a folder that is being removed.
        await asyncio.to_thread(self.prepare)
        try:
            async with asyncio.timeout(self._timeout_sec):
                constraints = self._folder / CONSTRAINTS
                pip = ("-I", "-m", "pip", "install", *PIP_OPTIONS, "--constraint", str(constraints))
                # A source distribution runs code when it is installed, here as the user of the worker.
                only_wheels = () if self._user is None else ("--only-binary", ":all:")
                await _run(tied_command(str(self.python), *pip, *only_wheels, *map(str, wheels)))
                # Wheels may have code that runs when Python starts.
                show = tied_command(str(self.python), "-I", "-c", "import json, sys; print(json.dumps(sys.path))")
                path = await _run(show if self._user is None else self._user.command(*show))
        except TimeoutError:
            raise InstallFailed(
                f"not installed within {self._timeout_sec:g} s (PYOCO_WHEEL_INSTALL_TIMEOUT_SEC)"
            ) from None
        return _parsed_path(path)

    def missing(self, packages: Mapping[NormalizedName, Version]) -> list[str]:
        """The packages that are not in the environment itself, whatever pip reported."""
        # By the names of folders: what a wheel has put into other metadata may be of any size.
        found = {}
        for folder in self._packages().glob("*.dist-info"):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            found[canonicalize_name(name)] = version
        return [name for name, version in packages.items() if not _is_version(found.get(name), version)]

    def _packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self._folder)}))

    def prepare(self) -> None:
        """Creates an empty environment; the worker's packages count as installed and are found last."""
        venv.EnvBuilder(symlinks=True).create(self._folder)
        lines = (f"import site; site.addsitedir({folder!r})\n" for folder in self._base_folders)
        (self._packages() / BASE_FOLDERS_FILE).write_text("".join(lines))
        (self._folder / CONSTRAINTS).write_text("".join(f"{name}=={version}\n" for name, version in self._own.items()))


def _parsed_path(output: bytes) -> tuple[str, ...]:
    # Code of a wheel has run, and may have printed anything.
    try:
        return msgspec.json.decode(output, type=tuple[str, ...])
    except ValueError as error:
        shown = shortened(output.decode(errors="replace"))
        raise InstallFailed(f"the search path of its Python is not readable; a .pth file prints? {shown}") from error


def _is_version(found: str | None, expected: Version) -> bool:
    try:
        return found is not None and Version(found) == expected
    except InvalidVersion:
        return False


async def _run(command: Sequence[str]) -> bytes:
    """The output of a tied command; it outlives neither this call nor the worker."""
    variables = {name: value for name, value in user_code_variables().items() if name not in HIDDEN_FROM_PIP}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=variables,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    try:
        output, errors = await asyncio.gather(
            _read_bounded(process.stdout, on_limit=kill), _read_bounded(process.stderr, on_limit=kill)
        )
    finally:
        kill()
        await process.wait()
    if max(len(output), len(errors)) > MAX_OUTPUT_BYTES:
        raise InstallFailed(f"it prints more than {MAX_OUTPUT_BYTES} bytes")
    if process.returncode != 0:
        reason = _reason(output.decode(errors="replace"), errors.decode(errors="replace"))
        raise InstallFailed(reason or f"{Path(command[-1]).name} ended with exit code {process.returncode}")
    return output


async def _read_bounded(stream: asyncio.StreamReader, *, on_limit: Callable[[], None]) -> bytes:
    """Everything up to the end, or a little more than the limit."""
    found = bytearray()
    while piece := await stream.read(64 * 1024):
        if len(found) <= MAX_OUTPUT_BYTES:
            found += piece
        else:
            on_limit()
    return bytes(found)


def _reason(output: str, errors: str) -> str:
    """pip's error messages, and its explanation of a conflict, which it prints to stdout."""
    _, found, conflict = output.partition(CONFLICT)
    text = "\n".join([errors.strip(), f"{CONFLICT}{conflict.partition(END_OF_CONFLICT)[0]}" if found else ""])
    # Before it is shortened: half a password would not be found.
    return shortened(USERINFO.sub(r"\1***@", text))
