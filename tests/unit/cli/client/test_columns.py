"""Columns by the width that cells have on a terminal."""

from __future__ import annotations

from rich.cells import cell_len

from pyoco_server.cli.client.columns import GAP, aligned

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


def test_a_list_of_nothing_is_its_head() -> None:
    assert aligned(HEAD, []) == [["RUN_ID", "FLOW", "ERROR"]]
