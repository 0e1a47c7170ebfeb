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


def test_figures_are_printed_as_prometheus_reads_them(shell: Shell) -> None:
    assert 'pyoco_runs_total{status="COMPLETED"}' in shell("metrics").out


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
    run_id = shell.submit("hello", "--tag", "nobody-serves-this")

    assert "nobody-serves-this" in shell("explain", run_id).out
    assert shell("explain", run_id, "--output", "json").json()["run_id"] == run_id
    shell("cancel", run_id)


def test_a_doctor_finds_nothing_wrong_with_the_healthy(shell: Shell) -> None:
    told = shell("doctor")

    assert told.code == 0, told.out
    assert "✗" not in told.out
    checks = {check["check"]: check["verdict"] for check in shell("doctor", "--output", "json").json()["checks"]}
    assert checks == dict.fromkeys(["server", "version", "clock", "nats", "access", "workers", "tag"], "ok")


def test_a_doctor_names_a_tag_that_nobody_serves(shell: Shell) -> None:
    told = shell("doctor", "--tag", "gpu")

    assert told.code == 1
    assert "pyoco-worker --tags gpu" in told.out


def test_a_worker_that_nobody_knows_cannot_be_hidden(shell: Shell) -> None:
    refused = shell("workers", "--hide", "nobody")

    assert (refused.code, refused.out) == (1, "")
    assert "[ERR-PYOCO-0020]" in refused.err
