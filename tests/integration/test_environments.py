"""Environments with real pip and tiny wheels: builds, skipped wheels with reasons, and removal."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from pyoco_server.domain.wheels.requirements import Candidate, needed
from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.worker.wheels.environments import COMPLETE, Environment, Environments, WheelFile, acquire
from pyoco_server.worker.wheels.venv_builder import RUNNER_PACKAGES, own_packages
from support.wheels import installable

INSTALL_SEC = 60.0

Place = Callable[[tuple[str, bytes]], WheelFile]


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "envs", INSTALL_SEC)


@pytest.fixture
def fetched(tmp_path: Path) -> Place:
    def place(wheel: tuple[str, bytes]) -> WheelFile:
        name, content = wheel
        file = tmp_path / hashlib.sha256(content).hexdigest() / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        return WheelFile(candidate=candidate(name, content), file=file)

    return place


def candidate(name: str, content: bytes) -> Candidate:
    sha256 = hashlib.sha256(content).hexdigest()
    wheel = Wheel(name=name, size_bytes=len(content), bucket="b", nuid=name, modified=0.0, sha256_hex=sha256)
    ((only,),) = needed([wheel], tags=set(), supported=tuple(sys_tags()), own={}).packages.values()
    return only


def output_in(environment: Environment | None, program: str) -> str:
    assert environment is not None
    completed = subprocess.run([environment.python, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    return completed.stdout.strip()


async def test_dependent_wheels_are_installed_together_over_the_workers_packages(
    environments: Environments, fetched: Place
) -> None:
    lower, upper = (
        fetched(installable("lower")),
        fetched(installable("upper", requires=["lower>=1", "pyoco", "orjson"])),
    )

    built = await environments.build([upper, lower])

    assert built.failed == ()
    assert (
        output_in(built.lease.environment, "import upper, lower, pyoco, orjson; print(upper.VERSION, lower.VERSION)")
        == "1.0 1.0"
    )
    assert {wheel.name for wheel in built.lease.environment.wheels} == {upper.candidate.name, lower.candidate.name}


async def test_the_workers_own_packages_are_neither_replaced_nor_removed_by_a_wheel(
    environments: Environments, fetched: Place
) -> None:
    newer = fetched(installable("rich", "99.0"))
    before = installed_rich()

    built = await environments.build([newer])

    assert output_in(built.lease.environment, "import rich; print(rich.VERSION)") == "99.0"
    assert installed_rich() == before


def installed_rich() -> str:
    program = "import rich, importlib.metadata as m; print(rich.__file__, m.version('rich'))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


async def test_a_wheel_that_conflicts_with_a_runner_dependency_fails_with_pips_reason(
    environments: Environments, fetched: Place
) -> None:
    built = await environments.build([fetched(installable("greedy", requires=["orjson>=99"]))])

    assert built.lease.environment.folder is None
    ((name, reason),) = [(one.wheel_name, one.reason) for one in built.failed]
    assert name == "greedy-1.0-py3-none-any.whl"
    assert "orjson" in reason


async def test_a_wheel_that_cannot_be_installed_fails_alone_with_pips_reason(
    environments: Environments, fetched: Place
) -> None:
    wheels = [installable("a"), installable("needy", requires=["absent-9"]), installable("c")]

    built = await environments.build([fetched(wheel) for wheel in wheels])

    assert output_in(built.lease.environment, "import a, c; print('fine')") == "fine"
    ((name, reason),) = [(one.wheel_name, one.reason) for one in built.failed]
    assert name == "needy-1.0-py3-none-any.whl"
    assert "absent-9" in reason


async def test_an_installation_that_takes_too_long_fails_and_leaves_nothing(tmp_path: Path, fetched: Place) -> None:
    environments = Environments(tmp_path / "envs", 0.01)

    built = await environments.build([fetched(installable("good"))])

    assert "PYOCO_WHEEL_INSTALL_TIMEOUT_SEC" in built.failed[0].reason
    assert list((tmp_path / "envs").iterdir()) == []


async def test_pip_settings_of_the_environment_are_ignored(
    environments: Environments, fetched: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))

    built = await environments.build([fetched(installable("good"))])

    assert output_in(built.lease.environment, "import good; print('fine')") == "fine"
    assert not (tmp_path / "elsewhere").exists()


async def test_programs_of_a_wheel_run_in_its_environment(environments: Environments, fetched: Place) -> None:
    tool = installable("tool", files={"tool.py": "def main():\n    print('at work')\n"}, scripts={"tool": "tool:main"})

    built = await environments.build([fetched(tool)])

    assert output_of(built.lease.environment.python.parent / "tool") == "at work\n"


def output_of(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


async def test_equal_wheel_sets_share_one_environment(environments: Environments, fetched: Place) -> None:
    wheels = [fetched(installable("a")), fetched(installable("b"))]
    first = (await environments.build(wheels)).lease.environment
    assert first.folder is not None
    written = (first.folder / COMPLETE).stat().st_mtime_ns

    second = (await environments.build(wheels[::-1])).lease.environment

    assert second.folder == first.folder
    assert (second.key, (first.folder / COMPLETE).stat().st_mtime_ns) == (first.key, written)


async def test_only_unused_environments_are_removed(environments: Environments, fetched: Place, tmp_path: Path) -> None:
    built = [
        (await environments.build([fetched(installable(name))])).lease.environment for name in ("used", "kept", "old")
    ]
    used, kept, old = [environment for environment in built if environment is not None]
    (tmp_path / "envs" / "half-built").mkdir()
    acquired = acquire(used)

    gone = environments.collect(keep=[kept.key])

    assert sorted(gone) == sorted([old.key, "half-built"])
    acquired.release()
    assert environments.collect(keep=[]) != []
    assert list((tmp_path / "envs").iterdir()) == []


def test_runner_dependencies_are_the_modules_of_the_fork_server() -> None:
    module = "pyoco_server.worker.runner_process.fork_server"
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    modules = {
        name for name in loaded.stdout.split() if name not in sys.stdlib_module_names and not name.startswith("_")
    }

    packages = {"pyoco_server": "pyoco-server", "pyoco": "pyoco", "orjson": "orjson", "yaml": "pyyaml"}

    assert {packages[name] for name in modules - {"cython_runtime"}} == set(RUNNER_PACKAGES) == set(own_packages())
