"""`pyoco-client job …` as people use it, against one real `pyoco-server up --with-worker`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import Program, address_of, client, up_with_worker
from support.shells import Shell
from support.terminal import Terminal

QUICK = {
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_JOBS_DEFAULT_FLOW": "hello",
}
LINE = r"\S+Z greet saying hello to Ann"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("jobs")
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "beside", env=QUICK) as program:
        yield program


@pytest.fixture
def shell(system: Program, tmp_path: Path) -> Shell:
    return Shell(address_of(system), tmp_path)


def submitted(shell: Shell, *words: str) -> str:
    job_id: str = shell("job", "submit", *words).json()["id"]
    return job_id


def test_a_job_is_followed_read_downloaded_labelled_found_and_removed(shell: Shell, tmp_path: Path) -> None:
    followed = shell("job", "submit", "--param", "name=Ann", "--label", "nightly", "--follow")
    first, last = followed.out.splitlines()
    job_id = followed.err.removeprefix("submitted: ")

    assert followed.code == 0
    assert re.fullmatch(LINE, first)
    assert re.fullmatch(rf"job {job_id} completed in \S+", last)
    assert re.fullmatch(LINE, shell("job", "logs", job_id, "--tail", "5").out)
    assert shell("job", "logs", job_id, "--text", "job.log").json()["complete"] is True
    assert (tmp_path / "job.log").read_text() == "saying hello to Ann\n"
    assert shell("job", "tag", job_id, "add", "seen").out.splitlines() == ["nightly", "seen"]
    listed = shell("job", "ls", "--label", "nightly", "--label", "seen", "--status", "completed", "-o", "json").json()
    assert [job["id"] for job in listed["jobs"]] == [job_id]
    assert shell("job", "rm", job_id).code == 0
    assert shell("job", "ls", "--label", "seen", "-o", "json").json() == {"jobs": []}
    assert shell("get", job_id).json()["status"] == "COMPLETED"  # a job is a run


def test_a_job_that_fails_fails_the_command_that_followed_it(shell: Shell) -> None:
    followed = shell("job", "submit", "--flow", "fails", "--follow", "--output", "json")

    assert followed.code == 1
    assert all(json.loads(line)["message"] for line in followed.out.splitlines())
    assert re.search(r"job \S+ failed in \S+: ZeroDivisionError: division by zero", followed.err)


def test_after_ctrl_c_a_job_continues_and_can_be_followed_and_removed(shell: Shell, tmp_path: Path) -> None:
    job_id = submitted(shell, "--flow", "listens")
    command = ["-m", "pyoco_server.cli.client", "job", "follow", job_id]
    with Terminal(*command, cwd=tmp_path, env=shell.env) as terminal:
        terminal.wait_for("waiting")
        terminal.interrupt()
        code, drawn = terminal.end()
    again = re.search(r"pyoco-client (job follow \S+ --after \S+)", drawn)

    assert code == 130
    assert again is not None
    assert shell("job", "get", job_id, "-o", "json").json()["status"] == "running"
    with client(*again[1].split(), cwd=tmp_path, env=shell.env) as going_on:
        assert shell("job", "rm", job_id).code == 0
        assert going_on.exit_code() == 1
    assert not any("waiting" in line for line in going_on.out.all())
    assert going_on.out.all()[-1].startswith(f"job {job_id} canceled in ")
