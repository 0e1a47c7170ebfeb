"""Tables: columns by their width on a terminal, colours, and values of any shape."""

from __future__ import annotations

import math
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from pyoco_server.cli.client.commands import executions, fleet, graphs, jobs, listing, strategies, wheels
from pyoco_server.cli.client.execution_view import EVENTS
from pyoco_server.cli.client.run_view import run_status
from pyoco_server.cli.tables import GAP, STYLES, Row, duration, first_line, layout, moment, size, stamp, unix_sec

HEAD = ("RUN_ID", "FLOW", "ERROR")
ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
ALL_TABLES = {
    "runs": listing.RUNS,
    "workers": fleet.WORKERS,
    "dead letters": fleet.DEAD_LETTERS,
    "wheels": wheels.WHEELS,
    "wheel events": wheels.WHEEL_EVENTS,
    "waits": executions.WAITS,
    "graphs": graphs.GRAPHS,
    "events": EVENTS,
    "jobs": jobs.JOBS,
    "job": jobs.JOB_FACTS,
    "labels": jobs.LABELS,
    "strategies": strategies.STRATEGIES,
    "strategy": strategies.STRATEGY,
    "results": strategies.RESULTS,
    "recheck": strategies.RECHECK,
}


def rendered(head: Row, *rows: Row, room: int | None = None, colour: bool = False) -> list[str]:
    table, width = layout(head, rows, STYLES, room)
    console = Console(width=width, force_terminal=colour, color_system="standard" if colour else None)
    with console.capture() as captured:
        console.print(table, crop=False)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_wide_characters_take_two_columns() -> None:
    head, first, second = rendered(HEAD, ("r-1", "日本語", "x"), ("r-2", "abc", "y"))

    assert head.index("ERROR") == second.index("y") == cell_len(first[: first.index("x")])


def test_without_a_terminal_nothing_is_truncated() -> None:
    assert rendered(HEAD, ("r-1", "flow", "e" * 5_000))[1].endswith("e" * 5_000)


@pytest.mark.parametrize("room", [70, 10])
def test_a_narrow_terminal_truncates_errors_and_names_but_no_id(room: int) -> None:
    lines = rendered(HEAD, (ID, "フロー" * 20, "e" * 500), room=room)

    assert lines[1].startswith(ID)
    assert lines[1].endswith("…")
    assert all(cell_len(line) <= max(room, 36 + 2 * 8 + 3 * GAP) for line in lines)


@pytest.mark.parametrize(
    ("head", "room", "kept"),
    [
        (listing.RUNS.head, 120, ["RUN_ID", "STATUS", "FLOW", "TAG", "UPDATED", "WORKER", "ERROR"]),
        (listing.RUNS.head, 80, ["RUN_ID", "STATUS", "FLOW", "ERROR"]),
        (fleet.DEAD_LETTERS.head, 80, ["SEQ", "REASON", "RUN_ID", "FLOW", "ERROR"]),
        (wheels.WHEEL_EVENTS.head, 80, ["WHEN", "ACTION", "WHEEL", "TAGS", "ACTOR"]),
    ],
)
def test_a_table_drops_columns_before_a_line_wraps(head: Row, room: int, kept: list[str]) -> None:
    long = {"SEQ": "42", "RUN_ID": "r" * 36, "STATUS": "COMPLETED", "REASON": "execution_error", "ERROR": "e" * 300}
    when = dict.fromkeys(("WHEN", "TIME", "UPDATED"), "2026-01-05 09:30:00")
    cells = {"WHEEL": "demo-1.0-py3-none-any.whl", "FLOW": "pipeline", "TAG": "default", "WORKER": "vm-8638"}

    lines = rendered(head, [(long | when | cells).get(name, "something") for name in head], room=room)

    assert lines[0].split() == kept
    assert all(cell_len(line) <= room for line in lines)


def test_a_list_shows_the_first_line_of_an_error() -> None:
    row = listing.RUNS.row({"run_id": ID, "error": "SyntaxError: line 3\nTraceback (most recent call last):\n  …"})

    assert row[-1] == "SyntaxError: line 3"
    assert [first_line(value) for value in (None, "", "\n", 5)] == ["-", "-", "-", "5"]


def test_an_empty_list_has_only_its_header() -> None:
    assert rendered(HEAD) == ["RUN_ID  FLOW  ERROR"]


def test_only_status_and_mark_have_the_colour_of_the_status() -> None:
    head = ("", "TASK", "STATUS", "ERROR")

    line = rendered(head, ("✓", "t", "SUCCEEDED", "-"), colour=True)[1]

    assert "\x1b[32m✓" in line
    assert "\x1b[32mSUCCEEDED" in line
    assert "\x1b[32m-" not in line
    assert "\x1b[32mt" not in line


@pytest.mark.parametrize("name", ALL_TABLES)
@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"actor": "me", "source": None, "startedAt": "soon", "tags": None, "flows": "x", "wheel_sync": 3},
        {"actor": {}, "source": {"client": 7}, "completedAt": 5, "error": {"a": "\x07"}, "payload": [1]},
    ],
    ids=["nothing", "wrong types", "other types"],
)
def test_an_item_of_any_shape_has_a_printable_cell_in_every_column(name: str, odd: dict[str, Any]) -> None:
    row = ALL_TABLES[name].row(odd)

    assert len(row) == len(ALL_TABLES[name].head)
    assert all(cell.isprintable() for cell in row)


def test_facts_omit_missing_values() -> None:
    assert jobs.JOB_FACTS.facts({"id": ID, "status": "pending", "attempt": 0}) == [("job", ID), ("status", "PENDING")]


@pytest.mark.parametrize("status", ["pending", "running", "completed", "failed", "canceled"])
def test_every_status_of_a_job_has_a_colour(status: str) -> None:
    assert jobs.JOBS.styles[run_status({"status": status})]


@pytest.mark.parametrize(
    ("sync", "expected"),
    [
        (None, "-"),
        ({"last_result": "ok", "installed_count": 12, "failed_count": 0}, "12"),
        ({"last_result": "partial", "installed_count": 11, "failed_count": 1}, "11 (1 failed)"),
        ({"last_result": "failed", "installed_count": 0, "failed_count": 0}, "0 (failed)"),
        ({"from": "another program"}, "-"),
    ],
)
def test_a_worker_shows_its_wheels(sync: dict[str, Any] | None, expected: str) -> None:
    assert fleet.WORKERS.row({"wheel_sync": sync})[-1] == expected


@pytest.mark.parametrize(("flows", "expected"), [(["hello", "main"], "2"), ([], "-"), (None, "-"), ("text", "-")])
def test_a_worker_shows_how_many_flows_it_announces(flows: object, expected: str) -> None:
    assert fleet.WORKERS.row({"flows": flows})[fleet.WORKERS.head.index("FLOWS")] == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0123, "12ms"),
        (1.26, "1.3s"),
        (59.9, "59.9s"),
        (65, "1m05s"),
        (3_725, "1h02m"),
        (-1, "0ms"),
        (None, "-"),
        (math.inf, "-"),
    ],
)
def test_a_duration_has_two_units(seconds: object, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize("value", [None, "soon", True, 1e300, math.nan, {}, "9999-99-99"])
def test_an_invalid_time_is_a_dash(value: object) -> None:
    assert (moment(value), stamp(value), unix_sec(value)) == ("-", "-", None)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        *[(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (20_054_016, "20.1 MB"), (5e9, "5.0 GB")],
        *[(None, "-"), (True, "-"), (math.inf, "-")],
    ],
)
def test_a_size_has_the_unit_that_fits(count: object, expected: str) -> None:
    assert size(count) == expected
