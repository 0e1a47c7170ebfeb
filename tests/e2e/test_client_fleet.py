"""`pyoco-client` and the fleet: workers, figures, explanations and the doctor, against one real `pyoco-server up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import address_of, up_with_worker
from support.shells import Shell


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def shell(folder: Path) -> Iterator[Shell]:
    with up_with_worker(folder, "--worker-id", "beside") as system:
        opened = Shell(address_of(system), folder)
        wait_for_worker(opened)
        yield opened


def wait_for_worker(shell: Shell) -> None:
    """The server is up before its worker is: ask until it is there, as a person would."""
    for _ in range(50):
        if shell("workers").json():
            return
    raise AssertionError("no worker comes")


def test_workers_are_listed_hidden_and_shown_again(shell: Shell) -> None:
    assert [worker["worker_id"] for worker in shell("workers").json()] == ["beside"]

    assert shell("workers", "--hide", "beside").json()["hidden"] is True
    assert shell("workers").json() == []
    assert shell("workers", "--unhide", "beside").json()["hidden"] is False
    assert "beside" in shell("workers", "--output", "table").out


def test_dead_letters_are_listed_and_run_again(shell: Shell) -> None:
    failed = shell.submit("fails")
    assert shell("watch", failed, "--until-terminal").code == 1

    (letter,) = shell("dlq", "--flow", "fails", "--limit", "1").json()["items"]
    again = shell("dlq-replay", "--seq", str(letter["seq"]))
    watched = shell("dlq-replay", "--seq", str(letter["seq"]), "--watch", "--timeout-sec", "30")

    assert letter["run_id"] == failed
    assert again.json()["replay_of"] == {"seq": letter["seq"], "run_id": failed}
    assert shell("get", again.json()["run_id"]).json()["replay_of"] == failed
    assert watched.code == 1
    assert "FAILED" in watched.out
    assert "execution_error" in shell("dlq", "--output", "table").out
    refused = shell("dlq-replay", "--seq", "999999")
    assert refused.code == 1
    assert "ERR-PYOCO-0040" in refused.err


def test_an_explanation_says_why(shell: Shell) -> None:
    run_id = shell.submit("hello", "--tag", "without-workers")

    assert "without-workers" in shell("explain", run_id).out
    assert shell("explain", run_id, "--output", "json").json()["run_id"] == run_id
    shell("cancel", run_id)


def test_doctor_reports_no_problem_of_a_healthy_system(shell: Shell) -> None:
    printed = shell("doctor")

    assert printed.code == 0, printed.out
    assert "✗" not in printed.out
    checks = {check["check"]: check["verdict"] for check in shell("doctor", "--output", "json").json()["checks"]}
    assert checks == dict.fromkeys(["server", "version", "clock", "nats", "access", "workers", "tag"], "ok")


def test_doctor_reports_a_tag_without_workers(shell: Shell) -> None:
    printed = shell("doctor", "--tag", "gpu")

    assert printed.code == 1
    assert "pyoco-worker --tags gpu" in printed.out
