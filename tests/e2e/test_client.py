"""Every command of `pyoco-client` once, against one real `pyoco-server up --with-worker`."""

from __future__ import annotations

import json
import os
import re
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
    """The working directory of the worker, which contains the tasks of a flow.yaml."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with client("init", ".", cwd=folder) as first:
        assert first.exit_code() == 0
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "local", env=QUICK) as system:
        system.out.wait_for('"message":"worker ready"')
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


def test_short_forms_name_a_run_a_time_and_all_runs_of_a_flow(shell: Shell, tmp_path: Path) -> None:
    shell.env["XDG_STATE_HOME"] = str(tmp_path)
    submitted = re.search(r"submitted: (\S+)", shell("submit", "deaf", "--logs", "--timeout-sec", "0.2").err)
    assert submitted is not None
    run_id = submitted[1]
    other = shell("submit", "listens", "--queue", "default", "--template", "{id}").out

    assert shell("get", "@last", run_id[:20], "--json", "id").json() == [{"id": other}, {"id": run_id}]
    waited = shell("cancel", "@last", run_id, "--wait", "--timeout-sec", "30", "--json", "id,status").json()
    assert waited == [{"id": other, "status": "CANCELLED"}, {"id": run_id, "status": "CANCELLED"}]
    assert "no run matches" in shell("cancel", "--flow", "listens", "--since", "1h", "--yes").err
    version = shell("get", run_id, "--json", "version").json()["version"]
    assert shell("get", run_id, "--at", str(version - 1), "--json", "status").json() != {"status": "CANCELLED"}


def test_what_a_flow_returned_is_printed_and_run_again_with_another_param(shell: Shell) -> None:
    run = shell("submit", "--flow-name", "sum", "--param", "count=4", "--wait").json()
    again = shell("rerun", run["run_id"], "--param", "count=5", "--wait").json()
    watched = shell("rerun", run["run_id"], "--watch")

    assert run["result"] == 10
    assert shell("result", again["run_id"]).out == "15"
    assert (again["rerun_of"], again["params"]) == (run["run_id"], {"count": 5})
    assert "result: 10" in watched.out.splitlines()
    failed = shell("submit", "--flow-name", "fails", "--output", "status").out.split()[0]
    without = shell("result", failed, "--wait")
    assert (without.code, without.out) == (1, "")
    assert "it is FAILED: ZeroDivisionError" in without.err


def test_a_misspelled_flow_param_or_tag_is_refused_and_queued_with_no_strict(shell: Shell) -> None:
    flow = shell("submit", "--flow-name", "summ")
    param = shell("submit", "--flow-name", "sum", "--param", "cuont=4")
    tag = shell("submit", "--flow-name", "sum", "--tag", "defualt")
    queued = shell("submit", "--flow-name", "sum", "--tag", "defualt", "--no-strict")

    assert (flow.code, param.code, tag.code, queued.code) == (1, 1, 1, 0)
    assert "announces the flow 'summ', did you mean 'sum'? [ERR-PYOCO-0083]" in flow.err
    assert "has no parameter 'cuont', did you mean 'count'?" in param.err
    assert "serves the tag 'defualt', did you mean 'default'?" in tag.err
    assert "warning: no running worker serves the tag 'defualt'" in queued.err
    shell("cancel", queued.json()["run_id"])


def test_flows_are_listed_and_drawn(shell: Shell) -> None:
    assert re.search(r"sum +default +1 +count", shell("flows").out)
    assert shell("graph", "sum").out.splitlines()[-2:] == ["  numbers", "  total  <- numbers"]
    assert "n0 --> n1" in shell("graph", "sum", "--mermaid").out


def test_a_wait_that_times_out_fails_and_the_run_continues(shell: Shell, tmp_path: Path) -> None:
    waited = shell("submit", "--flow-name", "listens", "--wait", "--timeout-sec", "0.2")

    assert (waited.code, waited.out) == (1, "")
    run_id = re.search(r"pyoco-client explain (\S+)", waited.err)
    assert run_id is not None
    cancelled = shell("cancel", "--run-id", run_id[1], "--wait", "--timeout-sec", "30", "--reason", "enough").json()
    assert (cancelled["status"], cancelled["cancel"]["reason"]) == ("CANCELLED", "enough")


def test_a_log_is_read_and_followed_with_colours_only_on_a_terminal(shell: Shell, tmp_path: Path) -> None:
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


def test_progress_of_a_task_is_in_the_bar_the_tables_and_the_snapshot(shell: Shell, tmp_path: Path) -> None:
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


def test_the_flow_written_by_init_runs_unchanged(shell: Shell) -> None:
    submitted = shell("submit-yaml", "--workflow-file", "flow.yaml", "--flow-name", "hello", "--wait", "-o", "table")

    assert submitted.code == 0, submitted.out + submitted.err
    assert re.search(r"✓ +report +SUCCEEDED", submitted.out)


def test_a_job_is_followed_downloaded_labelled_found_and_removed(shell: Shell) -> None:
    followed = shell("job", "submit", "--flow", "hello", "--param", "name=Ann", "--label", "nightly", "--follow")
    first, last = followed.out.splitlines()
    job_id = followed.err.removeprefix("submitted: ")

    assert re.fullmatch(r"\S+Z greet saying hello to Ann", first)
    assert re.fullmatch(rf"job {job_id} COMPLETED in \S+", last)
    assert shell("job", "logs", job_id, "--text", "job.log").json()["complete"] is True
    assert (shell.folder / "job.log").read_text() == "saying hello to Ann\n"
    assert shell("job", "tag", job_id, "add", "seen").out.splitlines() == ["nightly", "seen"]
    listed = shell("job", "ls", "--label", "nightly", "--label", "seen", "--status", "completed", "-o", "json").json()
    assert [job["id"] for job in listed["jobs"]] == [job_id]
    assert shell("job", "rm", job_id).code == 0
    assert shell("job", "ls", "--label", "seen", "-o", "json").json() == {"jobs": []}
    assert shell("get", job_id).json()["status"] == "COMPLETED"  # a job is a run


def test_a_failed_run_fails_waiting_commands_and_its_dead_letter_is_replayed(shell: Shell) -> None:
    failed = shell("submit", "--flow-name", "fails", "--wait")
    run = json.loads(failed.out)
    (letter,) = shell("dlq", "--flow", "fails", "--limit", "1").json()["items"]
    watched = shell("dlq-replay", "--seq", str(letter["seq"]), "--watch", "--timeout-sec", "30")

    assert (failed.code, run["error"]) == (1, "ZeroDivisionError: division by zero")
    assert letter["run_id"] == run["run_id"]
    assert watched.code == 1
    assert "FAILED" in watched.out
    assert "ERR-PYOCO-0040" in shell("dlq-replay", "--seq", "999999").err


def test_doctor_reports_no_problem_of_a_healthy_system_and_a_tag_without_workers(shell: Shell) -> None:
    checks = {check["check"]: check["verdict"] for check in shell("doctor", "--output", "json").json()["checks"]}
    as_root = checks.pop("runner user", None)
    without = shell("doctor", "--tag", "gpu")

    assert checks == dict.fromkeys(
        ["server", "version", "clock", "nats", "writes", "events", "access", "workers", "tag"], "ok"
    )
    assert as_root == ("warning" if os.geteuid() == 0 else None)
    assert without.code == 1
    assert "pyoco-worker --tags gpu" in without.out


@pytest.mark.parametrize(
    ("arguments", "err_id"),
    [
        (["get", MISSING_ID], "ERR-PYOCO-0005"),
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


def test_output_to_a_pipe_is_json(shell: Shell) -> None:
    shell.submit("hello", "--params-file", _written(shell.folder / "params.yaml", "name: 花子\n"))

    assert shell("list", "--limit", "1", "--include", "full").json()[0]["params"] == {"name": "花子"}


def _written(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return os.fspath(path)
