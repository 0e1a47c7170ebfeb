"""The live view of a run."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from pyoco_server.cli.client.execution_view import LIVE_HEAD
from pyoco_server.cli.client.live import LiveView

RUN: dict[str, Any] = {
    "flow_name": "etl[bold]\x1b[31m",
    "status": "RUNNING",
    "worker_id": "w-1",
    "start_time": 1000.0,
    "tasks": {"load": "SUCCEEDED", "[red]clean[/red]": "RUNNING"},
    "task_records": {"load": {"duration_ms": 12.0}, "[red]clean[/red]": {"started_at": 1001.0, "progress": 25.0}},
}


def rendered(board: LiveView, *, height: int = 20, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, no_color=True, markup=False)
    with console.capture() as captured:
        console.print(board, height=height)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_running_task_is_timed_by_the_clock_of_the_server() -> None:
    board = LiveView(clock=lambda: 50.0)
    board.show(RUN, ts=1004.0)

    text = "\n".join(rendered(board))

    assert "RUNNING" in text
    assert "4.0s" in text
    assert "3.0s" in text
    assert "█████░░░░░░░░░░░░░░░  25%" in text


def test_names_are_escaped_and_markup_has_no_effect() -> None:
    board = LiveView(clock=lambda: 0.0)
    board.show(RUN, ts=None)

    text = "\n".join(rendered(board))

    assert "etl[bold]\ufffd[31m" in text
    assert "[red]clean[/red]" in text
    assert "\x1b[31m" not in text


def test_more_tasks_than_lines_are_counted() -> None:
    board = LiveView(clock=lambda: 0.0)
    board.show({"status": "RUNNING", "tasks": {f"t{n}": "PENDING" for n in range(1000)}}, ts=None)

    lines = rendered(board, height=12)

    assert len(lines) <= 12
    assert "… and 993 PENDING" in lines[-1]


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_a_finished_run_has_no_running_timer(status: str) -> None:
    ticks = iter(range(100, 200))
    board = LiveView(clock=lambda: float(next(ticks)))
    board.show(RUN | {"status": status, "end_time": 1002.5}, ts=None)

    assert rendered(board) == rendered(board)
    assert "2.5s" in rendered(board)[0]


def test_the_steps_of_an_execution_are_called_nodes() -> None:
    board = LiveView(clock=lambda: 0.0, head=LIVE_HEAD)
    board.show({"status": "ACTIVE", "tasks": {"build": "READY"}}, ts=None)

    head = rendered(board)[1]
    assert "NODE" in head
    assert "TASK" not in head
