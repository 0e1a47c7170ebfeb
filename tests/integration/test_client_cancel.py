"""`cancel`: by filters, with its questions and summary; and what it shows while it waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.shells import RunClient
from support.stand_in import Events, Refusal, StandIn
from support.terminal import Terminal

A, B = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11", "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e22"
BY_FILTERS = ["cancel", "--flow", "hello", "--tag", "gpu"]


def run(run_id: str, status: str) -> dict[str, Any]:
    return {"run_id": run_id, "status": status, "flow_name": "hello\x1b[2J", "tasks": {}}


def explained(code: str, **facts: Any) -> dict[str, Any]:
    reason = {"code": code, "message": "", "hint": "", "facts": facts}
    return {"run_id": A, "status": "CANCELLING", "summary": "", "reasons": [reason]}


@pytest.fixture
def responses() -> dict[str, Any]:
    ended = {"run_id": A, "snapshot": run(A, "CANCELLED"), "ts": 1.0}
    return {
        "/runs": {"items": [run(A, "RUNNING"), run(B, "RUNNING")], "next_cursor": None},
        f"/runs/{A}/cancel": run(A, "CANCELLING"),
        f"/runs/{B}/cancel": run(B, "CANCELLED"),
        f"/runs/{A}/watch": Events((("snapshot", ended),)),
        f"/runs/{A}": run(A, "CANCELLED"),
        f"/runs/{A}/explain": explained("cancel_delivered", grace_left_sec=27.2),
    }


def cancelled(server: StandIn) -> list[str]:
    return [path.split("/")[2] for method, path in server.requests if method == "POST"]


def test_without_a_terminal_nothing_is_cancelled_by_filters_unless_yes_is_given(
    end: RunClient, server: StandIn
) -> None:
    assert end(*BY_FILTERS) == 1

    printed = end.printed().err
    assert "this would cancel 2 runs (2 hello\ufffd[2J); --yes cancels them" in printed
    assert "example: pyoco-client cancel --flow hello --tag gpu --yes" in printed
    assert cancelled(server) == []


def test_filters_select_everything_that_has_not_ended_first_what_waits(end: RunClient, server: StandIn) -> None:
    assert end(*BY_FILTERS, "--yes") == 0

    printed = end.printed()
    assert printed.out.splitlines() == [f"{A} CANCELLING", f"{B} CANCELLED"]
    assert printed.err == "cancelled: 1 have ended, 1 are stopping\n"
    assert [path for method, path in server.requests if method == "GET"] == [
        f"/runs?status={status}&flow=hello&tag=gpu&limit=200&cursor=" for status in ("PENDING", "RUNNING")
    ]
    assert cancelled(server) == [A, B]


def test_an_error_of_one_run_does_not_stop_the_rest(end: RunClient, server: StandIn) -> None:
    server.responses[f"/runs/{A}/cancel"] = Refusal(404, "ERR-PYOCO-0005", "run not found")

    assert end("cancel", "--status", "running", "--yes", "--json", "run_id") == 1

    printed = end.printed()
    assert [one["run_id"] for one in json.loads(printed.out)] == [B]
    assert f"error: {A}: run not found [ERR-PYOCO-0005]" in printed.err
    assert printed.err.endswith("cancelled: 1 have ended, 0 are stopping, errors: 1\n")


def test_a_run_that_does_not_end_in_time_does_not_stop_the_wait_for_the_rest(end: RunClient, server: StandIn) -> None:
    going = {"run_id": A, "snapshot": run(A, "CANCELLING"), "ts": 1.0}
    server.responses[f"/runs/{A}/watch"] = Events((("snapshot", going),), stays_open=True)
    server.responses[f"/runs/{A}"] = run(A, "CANCELLING")

    assert end("cancel", A, B, "--wait", "--timeout-sec", "0.3", "-o", "status") == 1

    printed = end.printed()
    assert printed.out.splitlines() == [f"{A} CANCELLING", f"{B} CANCELLED"]
    assert f"error: {A}: " in printed.err
    assert printed.err.endswith("cancelled: 1 have ended, 1 are stopping, errors: 1\n")


def test_no_match_is_no_error(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"items": [], "next_cursor": None}

    assert end(*BY_FILTERS) == 0
    assert end.printed().err == "no run matches\n"


@pytest.mark.parametrize(("answer", "code", "runs"), [("y", 0, [A, B]), ("", 130, []), ("no", 130, [])])
def test_a_terminal_asks_first(server: StandIn, tmp_path: Path, answer: str, code: int, runs: list[str]) -> None:
    command = ["-m", "pyoco_server.cli.client", *BY_FILTERS]
    with Terminal(*command, cwd=tmp_path, env={"PYOCO_SERVER": server.address}, has_keyboard=True) as terminal:
        terminal.wait_for("cancel 2 runs (2 hello\ufffd[2J)? [y/N] ")
        terminal.enter(answer)
        ended, drawn = terminal.end()

    assert (ended, cancelled(server)) == (code, runs)
    assert "\x1b[2J" not in drawn
    assert ("2/2" in drawn) is bool(runs)


@pytest.mark.parametrize(
    ("explanation", "line"),
    [
        (explained("cancel_delivered", grace_left_sec=27.2), "waiting for the task; it is killed in 27 s"),
        (explained("cancel_delivered", grace_left_sec=0.0), "the task did not stop; it is being killed"),
        (explained("cancel_without_worker", grace_left_sec=27.2), f"waiting for {A} to end"),
        (Refusal(503, "ERR-PYOCO-0003", "no broker"), f"waiting for {A} to end"),
    ],
    ids=["grace", "over", "no worker", "no answer"],
)
def test_waiting_shows_when_the_task_is_killed(
    end: RunClient, server: StandIn, explanation: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.cli.client.connection.RETRIES", 0)
    server.responses[f"/runs/{A}/explain"] = explanation

    assert end("cancel", A, "--wait", "-o", "status") == 0

    printed = end.printed()
    assert (printed.out, printed.err) == (f"{A} CANCELLED\n", f"{line}\n")


def test_a_terminal_counts_down_and_ctrl_c_says_that_the_cancel_goes_on(server: StandIn, tmp_path: Path) -> None:
    running = {"run_id": A, "snapshot": run(A, "CANCELLING"), "ts": 1.0}
    server.responses[f"/runs/{A}/watch"] = Events((("snapshot", running),), stays_open=True)
    server.responses[f"/runs/{A}"] = run(A, "CANCELLING")
    command = ["-m", "pyoco_server.cli.client", "cancel", A, "--wait"]

    with Terminal(*command, cwd=tmp_path, env={"PYOCO_SERVER": server.address}) as terminal:
        terminal.wait_for("killed in 27 s")
        terminal.wait_for("killed in 26 s")
        terminal.interrupt()
        code, drawn = terminal.end()

    assert code == 130
    assert f"no longer waiting; {A} is still being cancelled" in drawn
