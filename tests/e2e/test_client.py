"""`pyoco-client` as people use it: every command once, against one real `pyoco-server up --with-worker`."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import address_of, client, up_with_worker
from support.shells import Shell
from support.terminal import Terminal

QUICK = {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5", "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2"}
MISSING_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the worker was started; a flow.yaml finds its tasks there."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with client("init", ".", cwd=folder) as first:
        assert first.exit_code() == 0
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "beside", env=QUICK) as system:
        yield address_of(system)


@pytest.fixture
def shell(address: str, folder: Path) -> Shell:
    return Shell(address, folder)


def test_a_run_is_submitted_waited_for_and_read(shell: Shell) -> None:
    run = shell("submit", "--flow-name", "sum", "--param", "count=4", "--tags", "nightly,ml", "--wait").json()

    assert (run["status"], run["params"], run["tags"]) == ("COMPLETED", {"count": 4}, ["nightly", "ml"])
    assert shell("get", run["run_id"]).json()["status"] == "COMPLETED"
    assert shell("get", "--run-id", run["run_id"], "-o", "status").out == f"{run['run_id']} COMPLETED"
    tasks = shell("tasks", run["run_id"]).json()
    assert tasks["task_records"]["total"]["output"] == 10
    assert re.search(r"✓ +total +SUCCEEDED", shell("tasks", run["run_id"], "--output", "table").out)
    assert shell("list", "--tags", "nightly").json()[0]["run_id"] == run["run_id"]
    assert run["run_id"] in shell("list", "--status", "completed", "--output", "table").out


def test_a_run_that_fails_fails_the_command_that_waited_for_it(shell: Shell) -> None:
    waited = shell("submit", "--flow-name", "fails", "--wait")

    assert waited.code == 1
    assert json.loads(waited.out)["error"] == "ZeroDivisionError: division by zero"


def test_a_wait_that_times_out_fails_and_the_run_continues(shell: Shell, tmp_path: Path) -> None:
    waited = shell("submit", "--flow-name", "listens", "--wait", "--timeout-sec", "0.2")

    assert (waited.code, waited.out) == (1, "")
    run_id = re.search(r"pyoco-client explain (\S+)", waited.err)
    assert run_id is not None
    cancelled = shell("cancel", "--run-id", run_id[1], "--wait", "--timeout-sec", "30", "--reason", "enough").json()
    assert (cancelled["status"], cancelled["cancel"]["reason"]) == ("CANCELLED", "enough")


def test_what_a_run_prints_is_read_followed_and_coloured_on_a_terminal_only(shell: Shell, tmp_path: Path) -> None:
    failed = shell("submit", "--flow-name", "fails", "--output", "status").out.split()[0]
    with Terminal("-m", "pyoco_server.cli.client", "logs", failed, "--follow", cwd=tmp_path, env=shell.env) as terminal:
        code, drawn = terminal.end()
    hello = shell("submit", "--flow-name", "hello", "--param", "name=Ann", "--wait").json()["run_id"]

    assert code == 0
    assert "ZeroDivisionError: division by zero" in drawn
    assert "\x1b[31m" in drawn  # an error is red
    assert re.fullmatch(r"\S+Z greet saying hello to Ann", shell("logs", hello, "--tail", "5").out)
    assert json.loads(shell("logs", hello, "-o", "json").out)["message"] == "saying hello to Ann"


def test_a_run_is_watched_on_a_terminal(shell: Shell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = ["submit", "--flow-name", "waits", "--param", f"path={go}", "--watch"]

    with Terminal("-m", "pyoco_server.cli.client", *command, cwd=tmp_path, env=shell.env) as terminal:
        terminal.wait_for("wait_for_file")
        go.touch()
        code, drawn = terminal.end()

    assert code == 0
    assert re.search(r"run \S+ COMPLETED in", drawn.splitlines()[-1])


def test_how_far_a_task_is_is_seen_as_a_bar_in_tables_and_in_the_snapshot(shell: Shell, tmp_path: Path) -> None:
    go = tmp_path / "go"
    run_id = shell.submit("counts", "--param", f"path={go}")
    watch = ["-m", "pyoco_server.cli.client", "watch", run_id]

    with Terminal(*watch, cwd=tmp_path, env=shell.env) as terminal:
        terminal.wait_for("42% halfway")
        table = shell("get", run_id, "-o", "table").out
        run = shell("get", run_id).json()
        go.touch()
        code, drawn = terminal.end()

    assert code == 0
    assert "████████░░░░░░░░░░░░  42% halfway" in drawn
    assert re.search(r"count +RUNNING .*████████░░░░░░░░░░░░  42% halfway", table)
    assert run["progress"] == {"count": 42.0}


def test_a_run_that_outlasts_its_limit_is_stopped_and_the_command_that_waited_fails(shell: Shell) -> None:
    waited = shell("submit", "--flow-name", "listens", "--run-timeout-sec", "0.2", "--wait")

    run = json.loads(waited.out)
    assert waited.code == 1
    assert (run["status"], run["error_code"], run["timeout"]["how"]) == ("FAILED", "ERR-PYOCO-0042", "cooperative")
    assert run["last_lines"] == ["waiting"]
    explained = shell("explain", run["run_id"]).out
    assert "longer timeout_sec" in explained


def test_a_run_is_watched_line_by_line_and_as_json(shell: Shell) -> None:
    run_id = shell.submit("sum")

    lines = shell("watch", run_id, "--until-terminal")
    events = [json.loads(line) for line in shell("watch", run_id, "--output", "json").out.splitlines()]

    assert lines.code == 0
    assert "run COMPLETED" in lines.out
    assert events[-1]["snapshot"]["status"] == "COMPLETED"


def test_ctrl_c_leaves_the_run_alone(shell: Shell) -> None:
    run_id = shell.submit("listens")
    with client("watch", run_id, cwd=shell.folder, env=shell.env) as program:
        program.out.wait_for("RUNNING")
        program.signal(signal.SIGINT)
        assert program.exit_code() == 130

    assert shell("get", run_id).json()["status"] in ("PENDING", "RUNNING")
    assert shell("cancel", run_id, "--wait").json()["status"] == "CANCELLED"


def test_the_first_flow_runs_as_it_was_written(shell: Shell) -> None:
    submitted = shell("submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "hello", "--wait", "-o", "table")

    assert submitted.code == 0, submitted.out + submitted.err
    assert re.search(r"✓ +report +SUCCEEDED", submitted.out)


def test_pages_follow_each_other(shell: Shell) -> None:
    for _ in range(3):
        shell.submit("hello")

    first = shell("list-vnext", "--flow", "hello", "--limit", "2").json()
    second = shell("list-vnext", "--flow", "hello", "--limit", "2", "--cursor", first["next_cursor"]).json()

    seen = [run["run_id"] for run in first["items"] + second["items"]]
    assert len(first["items"]) == 2
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("arguments", "err_id"),
    [
        (["get", MISSING_ID], "ERR-PYOCO-0005"),
        (["cancel", MISSING_ID], "ERR-PYOCO-0005"),
        (["watch", MISSING_ID], "ERR-PYOCO-0005"),
        (["submit", "--flow-name", "hello", "--tag", "a.b"], "ERR-PYOCO-0002"),
        (["list-vnext", "--cursor", "made-up"], "ERR-PYOCO-0017"),
        (["submit"], "ERR-PYOCO-0018"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_of_the_server_is_printed_on_stderr_with_its_id(
    shell: Shell, arguments: list[str], err_id: str
) -> None:
    refused = shell(*arguments)

    assert (refused.code, refused.out) == (1, "")
    assert f"[{err_id}]" in refused.err
    assert "hint: " in refused.err


def test_a_program_that_reads_a_pipe_gets_json(shell: Shell) -> None:
    shell.submit("hello", "--params-file", _written(shell.folder / "params.yaml", "name: 花子\n"))

    assert shell("list", "--limit", "1", "--include", "full").json()[0]["params"] == {"name": "花子"}


def _written(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return os.fspath(path)
