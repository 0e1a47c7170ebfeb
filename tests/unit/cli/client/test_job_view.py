"""Jobs as words: what is said, what is left out, and what nobody's text can do to it."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.cli.client import job_view as view

ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
ENDED: dict[str, Any] = {
    "id": ID,
    "status": "failed",
    "flow": "main",
    "tag": "default",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "startedAt": "2026-01-01T00:00:01.000Z",
    "completedAt": "2026-01-01T00:01:05.500Z",
    "tags": ["urgent", "a,b"],
    "attempt": 2,
    "parameters": {"input": "data.csv"},
    "error": "load: no\x1b[2J file",
}


def test_a_row_has_a_cell_for_every_column() -> None:
    row = view.job_row(ENDED)

    assert len(row) == len(view.JOB_HEAD)
    assert dict(zip(view.JOB_HEAD, row, strict=True)) == {
        "JOB_ID": ID,
        "STATUS": "failed",
        "FLOW": "main",
        "TAG": "default",
        "CREATED": row[4],
        "TOOK": "1m04s",
        "LABELS": "urgent,a,b",
        "ERROR": "load: no\ufffd[2J file",
    }


@pytest.mark.parametrize("status", ["pending", "running", "completed", "failed", "canceled"])
def test_every_status_has_a_colour(status: str) -> None:
    assert view.JOB_STYLES[status]


@pytest.mark.parametrize("odd", [{}, {"startedAt": "soon", "tags": None}, {"completedAt": 5, "error": {"a": "\x07"}}])
def test_what_is_missing_or_odd_is_shown_as_nothing_and_no_accident(odd: dict[str, Any]) -> None:
    assert len(view.job_row(odd)) == len(view.JOB_HEAD)
    assert view.took(odd) == "-"
    assert all(value.isprintable() for _, value in view.job_facts(odd))
    assert len(view.label_row(odd)) == len(view.LABEL_HEAD)


def test_facts_leave_out_what_a_job_does_not_say() -> None:
    names = [name for name, _ in view.job_facts({"id": ID, "status": "pending", "attempt": 0})]

    assert names == ["job", "status"]


def test_the_last_line_says_how_it_ended_after_how_long_and_why() -> None:
    assert view.last_line(ID, "failed", ENDED) == f"job {ID} failed in 1m04s: load: no\ufffd[2J file"
    assert view.last_line(ID, "completed", {}) == f"job {ID} completed"
    assert view.last_line(ID, None, {}) == f"job {ID} -"
