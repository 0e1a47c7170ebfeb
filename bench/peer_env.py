"""The virtual environment of the peer, pyoco-server 0.5.1, outside of this tree; its code is never imported."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.connection import StepFailed

PEER_REQUIREMENT = "pyoco-server==0.5.1"
PEER_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyoco-server-bench" / "peer"
# Its worker hangs on Python 3.11.
WORKING_VERSIONS = ("3.12", "3.13")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEnv:
    """The peer's programs, and whether its worker can run on that interpreter."""

    bin: Path
    python_version: str
    worker_works: bool


def prepare_peer() -> PeerEnv:
    """Uses the environment of an earlier run, or makes one with the best interpreter at hand."""
    python = PEER_FOLDER / "bin" / "python"
    if not (PEER_FOLDER / "bin" / "pyoco-server").exists() or _named_another_interpreter(python):
        _install(_choose_interpreter())
    version = _version(python)
    # An explicitly named interpreter is used without a check.
    works = version.startswith(WORKING_VERSIONS) or "PEER_PYTHON" in os.environ
    return PeerEnv(bin=PEER_FOLDER / "bin", python_version=version, worker_works=works)


def _named_another_interpreter(python: Path) -> bool:
    named = os.environ.get("PEER_PYTHON")
    return named is not None and _version(Path(named)) != _version(python)


def _choose_interpreter() -> Path:
    if named := os.environ.get("PEER_PYTHON"):
        return Path(named)
    for candidate in _candidates():
        if _version(candidate).startswith(WORKING_VERSIONS):
            return candidate
    fallback = shutil.which("python3")
    if fallback is None:
        raise StepFailed("no Python interpreter for the peer; name one with PEER_PYTHON")
    return Path(fallback)


def _candidates() -> Iterator[Path]:
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, timeout=10, check=False).stdout.strip()
        for version in WORKING_VERSIONS:
            yield from sorted(Path(root).glob(f"versions/{version}.*/bin/python"))
    for version in WORKING_VERSIONS:
        if found := shutil.which(f"python{version}"):
            yield Path(found)


def _version(python: Path) -> str:
    """ "3.12.1", or "" for something that is not a working interpreter (a pyenv shim without its version, say)."""
    try:
        answer = subprocess.run([python, "-V"], capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return ""
    return answer.stdout.removeprefix("Python ").strip() if answer.returncode == 0 else ""


def _install(python: Path) -> None:
    shutil.rmtree(PEER_FOLDER, ignore_errors=True)
    PEER_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    pip = PEER_FOLDER / "bin" / "pip"
    for command in (
        [str(python), "-m", "venv", str(PEER_FOLDER)],
        [str(pip), "install", "--quiet", "--disable-pip-version-check", PEER_REQUIREMENT],
    ):
        made = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if made.returncode != 0:
            shutil.rmtree(PEER_FOLDER, ignore_errors=True)
            raise StepFailed(f"the peer cannot be installed: {made.stderr.strip()[-300:]}")
