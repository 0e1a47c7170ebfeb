"""Runners of another user: what tasks cannot read, and that they still end with their worker. Needs root."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.test_runner_pool import pids_in, wait_until_ended
from pyoco_server.errors import RunnerUserUnusable
from pyoco_server.worker.runner_process.runner_user import check_runner_user, parse_runner_user

USER = "nobody"
FLOWS = f"{Path(__file__).with_name('attack_flows.py')}:resolve"
# What is installed, without the interpreter's own folders: another Python of the same version reads it.
SEARCH_PATH = [entry for entry in sys.path if entry and not entry.startswith(sys.base_prefix)]

POOL = """
import asyncio, json, os, sys
from pathlib import Path
from pyoco_server.errors import PyocoError
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_process.runner_user import check_runner_user, parse_runner_user
from pyoco_server.worker.runner_process.process_tree import hide_memory
from pyoco_server.worker.runner_process.protocol import RunJob

async def main(resolver, user_name, flow, params):
    def say(run_id, lines):
        for line in lines:
            print(line.text, flush=True)

    hide_memory()
    user = parse_runner_user(user_name)
    if user is not None:
        await check_runner_user(user, [Path(resolver.partition(":")[0])])
    pool = RunnerPool(resolver, 1, say, user=user)
    await pool.start()
    print("runners", json.dumps([pool.fork_server_pid, *pool.pids()]), flush=True)
    async with pool.borrow() as runner:
        runner.begin(RunJob(run_id="run-1", flow_name=flow, params=params, attempt=1))
        async for update in runner.updates():
            for step in update.steps:
                if hasattr(step, "output"):
                    print("output", json.dumps(step.output), flush=True)
            if update.end is not None and getattr(update.end, "how", "") != "completed":
                print(update.end, flush=True)
    await pool.close()

try:
    asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4])))
except PyocoError as error:
    print("refused", error.err_id, error.detail)
"""

REPLACEABLE = """
import sys
from pyoco_server.worker.runner_process.runner_user import replaceable_at
print(replaceable_at(sys.argv[1]))
"""


def python_of_everybody() -> str | None:
    """A Python that any user can run with the installed packages."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    entry = pwd.getpwnam(USER)
    for candidate in (sys.executable, shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin")):
        command = [str(candidate), "-P", "-c", "import pyoco_server.worker.runner_process.fork_server, attack_flows"]
        search = os.pathsep.join([*SEARCH_PATH, str(Path(__file__).parent)])
        try:
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                env={"PYTHONPATH": search},
                cwd="/",
                user=entry.pw_uid,
                group=entry.pw_gid,
                extra_groups=[],
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return str(candidate)
    return None


@pytest.fixture(scope="module")
def python() -> str:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can switch to another user")
    found = python_of_everybody()
    if found is None:
        pytest.skip(f"no Python of this version and checkout can be read by {USER}")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user can write to; the one of pytest is closed to other users."""
    with tempfile.TemporaryDirectory(prefix="pyoco-test-") as name:
        os.chown(name, pwd.getpwnam(USER).pw_uid, -1)
        yield Path(name)


@contextmanager
def pool(
    python: str, folder: Path, flow: str, user: str = USER, *, through: tuple[str, ...] = (), **params: Any
) -> Iterator[subprocess.Popen[str]]:
    """A pool of one runner in a process of its own, which runs one flow and prints what it does."""
    command = [*through, python, "-P", "-c", POOL, FLOWS, user, flow, json.dumps(params)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(SEARCH_PATH), "PATH": os.environ["PATH"], "PYOCO_NATS_TOKEN": "secret"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def output_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate(timeout=60)
    outputs = [json.loads(line.removeprefix("output ")) for line in text.splitlines() if line.startswith("output ")]
    assert len(outputs) == 1, text
    found: dict[str, Any] = outputs[0]
    return found


def with_capabilities(uid: int, *names: str) -> tuple[str, ...]:
    """As systemd starts a unit with User= and AmbientCapabilities=."""
    wanted = ",".join(f"+{name}" for name in names)
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("setpriv (util-linux) is not installed")
    ids = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    return (program, *ids, *([f"--inh-caps={wanted}", f"--ambient-caps={wanted}"] if names else []))


@pytest.mark.parametrize("worker", ["root", "with capabilities"])
def test_a_task_runs_as_that_user_without_any_privilege(python: str, folder: Path, worker: str) -> None:
    through = () if worker == "root" else with_capabilities(4242, "setuid", "setgid", "kill")
    entry = pwd.getpwnam(USER)

    with pool(python, folder, "identity", through=through) as process:
        seen = output_of(process)

    assert seen == {
        "uids": [entry.pw_uid],
        "gids": [entry.pw_gid],
        "home": entry.pw_dir,
        "capabilities": [0],
        "no_new_privileges": "1",
    }


@pytest.mark.parametrize("worker", ["root", "with capabilities"])
def test_a_task_cannot_read_what_its_worker_reads(python: str, folder: Path, worker: str) -> None:
    through = () if worker == "root" else with_capabilities(4242, "setuid", "setgid", "kill")
    secret = folder / "nats.token"
    secret.write_text("secret")
    secret.chmod(0o600)

    with pool(python, folder, "attack", through=through, secret_file=str(secret)) as process:
        seen = output_of(process)

    assert seen.keys() == {"environ", "mem", "maps", "descriptors", "kill", "file", "setuid"}
    assert {outcome for outcomes in seen.values() for outcome in outcomes} == {"PermissionError"}


def test_without_another_user_the_memory_of_the_worker_is_hidden_from_tasks(python: str, folder: Path) -> None:
    entry = pwd.getpwnam(USER)

    with pool(python, folder, "attack", "", through=with_capabilities(entry.pw_uid), secret_file="/") as process:
        seen = output_of(process)

    read = [outcome for name in ("environ", "mem", "descriptors") for outcome in seen[name]]
    assert read == ["PermissionError"] * 6


@pytest.mark.parametrize("worker", ["root", "with capabilities"])
@pytest.mark.parametrize("how", ["the worker is killed", "the runner is killed"])
def test_runners_of_another_user_end_with_their_worker(python: str, folder: Path, how: str, worker: str) -> None:
    through = () if worker == "root" else with_capabilities(4242, "setuid", "setgid", "kill")
    with pool(python, folder, "linger", through=through) as process:
        assert process.stdout is not None
        _, runner = runners = json.loads(process.stdout.readline().removeprefix("runners "))
        programs = pids_in([process.stdout.readline().strip() for _ in range(2)])

        if how == "the worker is killed":
            process.kill()
            ended = [*runners, *programs]
        else:
            os.kill(runner, signal.SIGKILL)
            ended = [runner, *programs]

        for pid in ended:
            wait_until_ended(pid)


def test_a_working_folder_that_the_user_cannot_write_is_refused_at_the_start(python: str, folder: Path) -> None:
    os.chown(folder, 0, -1)
    folder.chmod(0o755)

    with pool(python, folder, "identity") as process:
        text, _ = process.communicate(timeout=60)

    assert text.startswith("refused ERR-PYOCO-0071")
    assert f"the working folder {folder} is not writable" in text


def test_flows_that_the_user_cannot_read_are_refused_at_the_start(python: str, folder: Path) -> None:
    closed = folder / "flows"
    closed.mkdir(mode=0o700)
    command = [python, "-P", "-c", POOL, f"{closed}/flows.py:resolve", USER, "identity", "{}"]

    text = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join(SEARCH_PATH)},
        check=True,
    ).stdout

    assert text.startswith("refused ERR-PYOCO-0071")
    assert f"cannot read {closed}/flows.py" in text


@pytest.mark.parametrize("place", ["", ".pyoco", ".pyoco/wheels"])
def test_what_the_worker_trusts_must_be_out_of_reach_of_tasks(python: str, folder: Path, place: str) -> None:
    os.chown(folder, 0, -1)
    folder.chmod(0o755)
    (folder / ".pyoco/wheels").mkdir(parents=True)
    (folder / place).chmod(0o777)

    found = subprocess.run(
        [python, "-P", "-c", REPLACEABLE, f"{folder}/.pyoco/wheels"],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(SEARCH_PATH)},
        user=USER,
        check=True,
    ).stdout

    assert found == f"{folder / place}\n"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_sticky_folder_keeps_what_another_user_has_put_there(python: str, folder: Path, is_there: bool) -> None:
    os.chown(folder, 0, -1)
    folder.chmod(0o1777)
    if is_there:
        (folder / "wheels").mkdir(mode=0o755)

    found = subprocess.run(
        [python, "-P", "-c", REPLACEABLE, f"{folder}/wheels"],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(SEARCH_PATH)},
        user=USER,
        check=True,
    ).stdout

    assert found == ("None\n" if is_there else f"{folder}\n")


async def test_a_worker_does_not_start_where_tasks_could_replace_its_wheels(
    folder: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    user = parse_runner_user(USER)
    assert user is not None
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(sys, "path", SEARCH_PATH)
    monkeypatch.chdir(folder)

    with pytest.raises(RunnerUserUnusable, match=r"tasks could replace .*wheels.*; move them"):
        await check_runner_user(user, [], {folder / ".pyoco/wheels": "move them"})


def test_a_worker_without_the_right_to_switch_is_refused_at_the_start(python: str, folder: Path) -> None:
    with pool(python, folder, "identity", through=with_capabilities(4242, "kill")) as process:
        text, _ = process.communicate(timeout=60)

    assert text.startswith("refused ERR-PYOCO-0071")
    assert "may not start processes of another user" in text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no-such-user", "there is no user 'no-such-user'"),
        ("99999999", "there is no user"),
        ("0", "may not run as root"),
    ],
)
def test_an_unusable_user_is_refused(name: str, why: str) -> None:
    with pytest.raises(RunnerUserUnusable, match=why):
        parse_runner_user(name)


async def test_a_python_that_the_user_cannot_run_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    user = parse_runner_user(USER)
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, 0, -1)
    (closed / "python").symlink_to(python)
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    monkeypatch.chdir(folder)
    assert user is not None

    with pytest.raises(RunnerUserUnusable, match=r"cannot run .* every folder of its path"):
        await check_runner_user(user, [])
