"""`pyoco-client` as a process, against a stand-in server: terminals, pipes, signals, languages, errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.programs import clean_environment, client
from support.stand_in import Events, Refusal, StandIn, stand_in
from support.terminal import Terminal

RUN_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3\d")
HOSTILE = "\x1b]0;owned\x07[red]日本語[/red]"


def run(status: str, **more: Any) -> dict[str, Any]:
    tasks = {"load": "SUCCEEDED" if status == "COMPLETED" else "RUNNING", HOSTILE: "PENDING"}
    records = {"load": {"started_at": 100.0, "progress": 40.0, "message": "row 4"}}
    snapshot = {"run_id": RUN_ID, "flow_name": HOSTILE, "status": status, "updated_at": 100.0, "start_time": 100.0}
    return snapshot | {"tasks": tasks, "task_records": records, "error": None} | more


def list_pages(server: StandIn) -> None:
    """Answers `list` as a gateway does where pages are asked for."""
    server.responses["/runs"] = {"items": server.responses["/runs"], "next_cursor": None}


def event_stream(*runs: dict[str, Any], stays_open: bool = False) -> Events:
    return Events(
        tuple(("snapshot", {"run_id": RUN_ID, "snapshot": one, "ts": 101.0}) for one in runs), stays_open=stays_open
    )


@pytest.fixture
def server() -> Iterator[StandIn]:
    finished = run("COMPLETED", end_time=102.0)
    responses = {
        "/health": {"status": "ok", "nats": "connected"},
        "/ready": {"status": "ready", "nats": "connected"},
        "/runs": [finished | {"run_id": f"run-{number}"} for number in range(2000)],
        f"/runs/{RUN_ID}": finished,
        f"/runs/{RUN_ID}/watch": event_stream(run("PENDING"), run("RUNNING"), finished),
        "/workers": [{"worker_id": "w-1", "state": "IDLE", "tags": ["default"], "hidden": False}],
    }
    with stand_in(responses) as there:
        yield there


def on_terminal(server: StandIn, folder: Path, *arguments: str, **environment: str) -> Terminal:
    return Terminal("-m", "pyoco_server.cli.client", *arguments, cwd=folder, env=variables(server, **environment))


def variables(server: StandIn, **more: str) -> dict[str, str]:
    return {"PYOCO_SERVER": server.address} | more


def test_on_a_terminal_a_run_is_drawn_live_and_ends_with_one_line(server: StandIn, tmp_path: Path) -> None:
    with on_terminal(server, tmp_path, "watch", RUN_ID) as terminal:
        code, drawn = terminal.end()

    assert code == 0
    assert "\x1b[?25l" in drawn  # the cursor is hidden while it draws
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")
    assert "████████░░░░░░░░░░░░  40% row 4" in drawn
    assert COLOUR.search(drawn)
    assert f"run {RUN_ID} COMPLETED in 2.0s" in drawn.splitlines()[-1]


def test_foreign_names_do_not_control_the_terminal(server: StandIn, tmp_path: Path) -> None:
    list_pages(server)

    for command in (["watch", RUN_ID], ["get", RUN_ID], ["get", RUN_ID, "-o", "table"], ["list", "-o", "table"]):
        with on_terminal(server, tmp_path, *command) as terminal:
            _, drawn = terminal.end()

        assert "owned" in drawn
        assert "[red]日本語[/red]" in drawn
        assert "\x1b]0;" not in drawn
        assert "\x07" not in drawn


def test_no_color_disables_colours(server: StandIn, tmp_path: Path) -> None:
    with on_terminal(server, tmp_path, "watch", RUN_ID, NO_COLOR="1") as terminal:
        _, drawn = terminal.end()

    assert not COLOUR.search(drawn)
    assert "COMPLETED" in drawn


def test_a_dumb_terminal_gets_plain_lines(server: StandIn, tmp_path: Path) -> None:
    with on_terminal(server, tmp_path, "watch", RUN_ID, TERM="dumb") as terminal:
        _, drawn = terminal.end()

    assert "\x1b" not in drawn
    assert "run PENDING" in drawn


def test_ctrl_c_ends_watch_with_130_and_the_run_continues(server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/runs/{RUN_ID}/watch"] = event_stream(run("RUNNING"), stays_open=True)

    with on_terminal(server, tmp_path, "watch", RUN_ID) as terminal:
        terminal.wait_for("40% row 4")
        terminal.interrupt()
        code, drawn = terminal.end()

    assert code == 130
    assert f"pyoco-client cancel {RUN_ID}" in drawn
    assert "Traceback" not in drawn
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")


def test_a_closed_pipe_is_not_a_failure(server: StandIn, tmp_path: Path) -> None:
    list_pages(server)
    command = [sys.executable, "-m", "pyoco_server.cli.client", "list", "--output", "table"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=clean_environment() | variables(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("RUN_ID")
        process.stdout.close()
        printed = process.stderr.read()

    assert (process.returncode, printed) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
def test_a_failed_write_to_stdout_is_reported_in_one_line(server: StandIn, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "pyoco_server.cli.client", "list"],
            cwd=tmp_path,
            env=clean_environment() | variables(server),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.startswith("error: the output cannot be written: ")


def test_without_a_terminal_watch_prints_lines(server: StandIn, tmp_path: Path) -> None:
    with client("watch", RUN_ID, "--until-terminal", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 0
    assert [line.split()[1:4] for line in program.out.all()[:2]] == [["run", "PENDING"], ["task", "load", "RUNNING"]]
    assert program.out.all()[-1].startswith(f"run {RUN_ID} COMPLETED")
    assert not any("\x1b" in line for line in program.out.all())


def test_a_heartbeat_removes_no_fields(server: StandIn, tmp_path: Path) -> None:
    running = run("RUNNING")
    beat = {name: value for name, value in running.items() if name != "task_records"}
    data = [
        {"run_id": RUN_ID, "snapshot": seen, "ts": 101.0} for seen in (running, beat, None, running, run("COMPLETED"))
    ]
    names = ["snapshot", "heartbeat", "heartbeat", "snapshot", "snapshot"]
    server.responses[f"/runs/{RUN_ID}/watch"] = Events(tuple(zip(names, data, strict=True)))

    with client("watch", RUN_ID, cwd=tmp_path, env=variables(server)) as program:
        assert program.exit_code() == 0

    assert sum("task load RUNNING" in line for line in program.out.all()) == 1


def test_with_logs_output_goes_to_stdout_and_changes_of_status_to_stderr(server: StandIn, tmp_path: Path) -> None:
    line = {"n": 1, "ts": 1.0, "task": "load", "level": "INFO", "stream": "stdout", "message": HOSTILE, "attempt": 1}
    server.responses[f"/runs/{RUN_ID}/logs"] = {
        "run_id": RUN_ID,
        "items": [line],
        "next_token": "t",
        "complete": True,
    }

    with client("watch", RUN_ID, "--logs", "--until-terminal", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 0
    assert program.out.all() == ["1970-01-01T00:00:01.000Z load \ufffd]0;owned\ufffd[red]日本語[/red]"]
    assert [line.split()[1:3] for line in program.err.all()[:2]] == [["run", "PENDING"], ["task", "load"]]
    assert program.err.all()[-1].startswith(f"run {RUN_ID} COMPLETED")


def test_with_logs_an_error_of_one_stream_ends_both(server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/runs/{RUN_ID}/watch"] = event_stream(run("RUNNING"), stays_open=True)
    server.responses[f"/runs/{RUN_ID}/logs"] = Refusal(403, "ERR-PYOCO-0015", "no scope for logs")

    with client("watch", RUN_ID, "--logs", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 1
    assert "error: no scope for logs [ERR-PYOCO-0015]" in program.err.all()


def test_as_json_every_event_is_a_line(server: StandIn, tmp_path: Path) -> None:
    with client("watch", RUN_ID, "--output", "json", cwd=tmp_path, env=variables(server)) as program:
        program.exit_code()

    events = [json.loads(line) for line in program.out.all()]
    assert [event["snapshot"]["status"] for event in events] == ["PENDING", "RUNNING", "COMPLETED"]
    assert {event["event"] for event in events} == {"snapshot"}


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        (["--until-terminal"], "FAILED", 1),
        (["--until-terminal"], "CANCELLED", 1),
        (["--until-terminal"], "COMPLETED", 0),
        ([], "FAILED", 0),
    ],
)
def test_with_until_terminal_the_exit_code_is_that_of_the_run(
    server: StandIn, tmp_path: Path, options: list[str], status: str, code: int
) -> None:
    server.responses[f"/runs/{RUN_ID}/watch"] = event_stream(run(status))

    with client("watch", RUN_ID, *options, cwd=tmp_path, env=variables(server)) as program:
        assert program.exit_code() == code


def test_a_watch_that_times_out_reports_that_the_run_continues(server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/runs/{RUN_ID}/watch"] = event_stream(run("RUNNING"), stays_open=True)

    command = ["watch", RUN_ID, "--until-terminal", "--timeout-sec", "0.5"]
    with client(*command, cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 1
    program.err.wait_for(f"pyoco-client watch {RUN_ID}")


def test_json_is_valid_in_an_ascii_locale(server: StandIn, tmp_path: Path) -> None:
    with client("get", RUN_ID, cwd=tmp_path, env=variables(server, PYTHONIOENCODING="ascii")) as program:
        assert program.exit_code() == 0

    assert json.loads("\n".join(program.out.all())) == server.responses[f"/runs/{RUN_ID}"]


def test_a_japanese_terminal_asks_for_japanese_errors(server: StandIn, tmp_path: Path) -> None:
    server.responses[f"/runs/{RUN_ID}"] = Refusal(
        404, "ERR-PYOCO-0005", "run not found", "run_id を確認してください。", message="runが見つかりません"
    )

    with client("get", RUN_ID, cwd=tmp_path, env=variables(server, LANG="ja_JP.UTF-8")) as program:
        code = program.exit_code()

    assert code == 1
    assert server.headers[0]["Accept-Language"] == "ja"
    assert program.err.all() == [
        "エラー: runが見つかりません [ERR-PYOCO-0005]",
        "対処: run_id を確認してください。",
    ]
    assert program.out.all() == []


def test_a_key_is_sent_and_never_shown(server: StandIn, tmp_path: Path) -> None:
    with client("--api-key", "secret-7", "submit-yaml", cwd=tmp_path, env=variables(server)) as refused:
        assert refused.exit_code() == 1
    with client("get", RUN_ID, "--api-key", "secret-7", cwd=tmp_path, env=variables(server)) as program:
        assert program.exit_code() == 0

    assert server.headers[0]["X-API-Key"] == "secret-7"
    assert "secret-7" not in refused.output() + program.output()
    assert '--api-key "$PYOCO_API_KEY" submit-yaml --workflow-file flow.yaml' in refused.output()


def test_arguments_that_are_not_utf_8_are_rejected(server: StandIn, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable.encode(), b"-m", b"pyoco_server.cli.client", b"submit", b"--flow-name", b"\xff"],
        cwd=tmp_path,
        env=clean_environment() | variables(server),
        capture_output=True,
        check=False,
    )

    assert finished.returncode == 1
    assert b"[ERR-PYOCO-0018]" in finished.stderr
    assert server.requests == []


def test_doctor_reports_an_absent_server_and_how_to_start_one(tmp_path: Path) -> None:
    with stand_in({}) as gone:
        address = gone.address

    with client("doctor", "--server", address, cwd=tmp_path) as program:
        code = program.exit_code()

    assert code == 1
    assert "[ERR-PYOCO-0001]" in program.out.all()[0]
    assert "pyoco-server up" in program.out.all()[1]


def test_watch_ends_where_no_server_answers_at_all(tmp_path: Path) -> None:
    with stand_in({}) as gone:
        address = gone.address

    with client("watch", RUN_ID, "--server", address, cwd=tmp_path) as program:
        code = program.exit_code()

    assert code == 1
    assert "[ERR-PYOCO-0001]" in program.err.all()[0]


@pytest.mark.parametrize(
    ("key", "err_id"), [(None, "ERR-PYOCO-0014"), ("pyoco_wrong-key", "ERR-PYOCO-0015")], ids=["none", "wrong"]
)
def test_doctor_reports_a_credentials_error_once_without_the_key(
    server: StandIn, tmp_path: Path, key: str | None, err_id: str
) -> None:
    server.responses["/runs"] = Refusal(401, err_id, "refused")

    with client(
        "doctor", cwd=tmp_path, env=variables(server, **({} if key is None else {"PYOCO_API_KEY": key}))
    ) as program:
        assert program.exit_code() == 1

    assert program.output().count(err_id) == 1
    assert ("PYOCO_API_KEY" in program.output()) is (key is None)
    assert "wrong-key" not in program.output()


def test_doctor_stops_at_a_disconnected_broker(server: StandIn, tmp_path: Path) -> None:
    server.responses["/health"] = {"status": "ok", "nats": "away"}

    with client("doctor", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 1
    assert [line for line in program.out.all() if line.startswith("✗")] == [
        "✗ nats: the gateway is not connected to NATS [ERR-PYOCO-0003]"
    ]
    assert {path.partition("?")[0] for _, path in server.requests} == {"/health"}


def test_doctor_says_when_nothing_can_be_stored(server: StandIn, tmp_path: Path) -> None:
    server.responses["/ready"] = Refusal(503, "ERR-PYOCO-0075", "nats refused: insufficient storage")

    with client("doctor", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 1
    assert [line for line in program.out.all() if line.startswith("✗")] == [
        "✗ writes: nats refused: insufficient storage [ERR-PYOCO-0075]"
    ]


def test_doctor_accepts_a_gateway_without_a_check_of_its_writes(server: StandIn, tmp_path: Path) -> None:
    server.responses["/ready"] = Refusal(404, "ERR-PYOCO-0033", "there is nothing at /ready")

    with client("doctor", cwd=tmp_path, env=variables(server)) as program:
        code = program.exit_code()

    assert code == 0
    assert "- writes: there is nothing at /ready [ERR-PYOCO-0033]" in program.out.all()


def test_doctor_uses_no_proxy_for_a_local_server(server: StandIn, tmp_path: Path) -> None:
    with stand_in({}) as gone:
        proxy = gone.address

    with client("doctor", cwd=tmp_path, env=variables(server, HTTP_PROXY=proxy, http_proxy=proxy)) as program:
        program.exit_code()

    assert "✓ clock: the clocks agree" in program.out.all()
