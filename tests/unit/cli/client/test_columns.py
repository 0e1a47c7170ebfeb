"""Columns by the width that cells have on a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from pyoco_server.cli.client.columns import GAP, Row, aligned
from pyoco_server.cli.client.render import LETTER_HEAD, RUN_HEAD, WHEEL_EVENT_HEAD

HEAD = ("RUN_ID", "FLOW", "ERROR")


def test_wide_characters_take_two_places() -> None:
    rows = aligned(HEAD, [("r-1", "日本語", "x"), ("r-2", "abc", "y")])

    assert {cell_len(row[1]) for row in rows} == {6}


def test_nothing_is_cut_where_there_is_no_end_of_the_line() -> None:
    rows = aligned(HEAD, [("r-1", "flow", "e" * 5_000)])

    assert rows[1][2] == "e" * 5_000


def test_a_narrow_terminal_cuts_errors_and_names_but_never_an_id() -> None:
    run_id = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"

    rows = aligned(HEAD, [(run_id, "フロー" * 20, "e" * 500)], room=70)

    assert rows[1][0] == run_id
    assert rows[1][2].endswith("…")
    assert all(cell_len(GAP.join(row)) <= 70 for row in rows)


def test_a_terminal_that_is_too_narrow_for_anything_still_shows_ids() -> None:
    rows = aligned(HEAD, [("r" * 36, "flow-of-a-long-name", "error of some length")], room=10)

    assert rows[1] == ["r" * 36, "flow-of…", "error o…"]


@pytest.mark.parametrize(
    ("head", "room", "stays"),
    [
        (RUN_HEAD, 120, ["RUN_ID", "STATUS", "FLOW", "TAG", "UPDATED", "WORKER", "ERROR"]),
        (RUN_HEAD, 80, ["RUN_ID", "STATUS", "FLOW", "ERROR"]),
        (LETTER_HEAD, 80, ["SEQ", "REASON", "RUN_ID", "FLOW", "ERROR"]),
        (WHEEL_EVENT_HEAD, 80, ["WHEN", "ACTION", "WHEEL", "TAGS", "ACTOR"]),
    ],
)
def test_a_table_leaves_columns_out_before_a_line_goes_on_below(head: Row, room: int, stays: list[str]) -> None:
    long = {"SEQ": "42", "RUN_ID": "r" * 36, "STATUS": "COMPLETED", "REASON": "execution_error", "ERROR": "e" * 300}
    when = dict.fromkeys(("WHEN", "TIME", "UPDATED"), "2026-01-05 09:30:00")
    cells = {"WHEEL": "demo-1.0-py3-none-any.whl", "FLOW": "pipeline", "TAG": "default", "WORKER": "vm-8638"}

    rows = aligned(head, [[(long | when | cells).get(name, "something") for name in head]], room)

    assert [name.strip() for name in rows[0]] == stays
    assert all(cell_len(GAP.join(row)) <= room for row in rows)


def test_a_list_of_nothing_is_its_head() -> None:
    assert aligned(HEAD, []) == [["RUN_ID", "FLOW", "ERROR"]]
