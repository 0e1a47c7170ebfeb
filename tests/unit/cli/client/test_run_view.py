"""Runs and tasks as text, for complete and incomplete data."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyoco_server.cli.client.run_view import (
    RUN_FACTS,
    changes,
    explanation,
    fit_rows,
    last_lines,
    progress_bar,
    run_status,
    summary,
    task_rows,
)

RUN: dict[str, Any] = {
    "run_id": "r-1",
    "flow_name": "etl",
    "status": "RUNNING",
    "worker_id": "w-1",
    "updated_at": 1_800_000_000.25,
    "start_time": 100.0,
    "tasks": {"load": "SUCCEEDED", "clean": "RUNNING", "save": "PENDING"},
    "task_records": {
        "load": {"duration_ms": 250.0},
        "clean": {"started_at": 101.0, "progress": 40.0, "message": "row 4", "attempt": 2},
    },
}


def test_tasks_show_time_progress_message_and_attempt() -> None:
    rows = task_rows(RUN, now=103.5)

    assert rows[0] == ("✓", "load", "SUCCEEDED", "250ms", "")
    assert rows[1][1:] == ("clean", "RUNNING", "2.5s", "████████░░░░░░░░░░░░  40% row 4 (attempt 2)")
    assert rows[2] == ("·", "save", "PENDING", "-", "")


@pytest.mark.parametrize(("percent", "full"), [(0, 0), (50, 10), (100, 20), (250, 20), (-5, 0), (math.nan, 0)])
def test_a_bar_keeps_its_width(percent: float, full: int) -> None:
    assert progress_bar(percent).count("█") == full
    assert len(progress_bar(percent)) == len(progress_bar(0))


def test_changes_show_only_new_facts() -> None:
    before = {"status": "PENDING"}

    first = changes(before, RUN)
    again = changes(RUN, RUN)

    assert first[0] == "2027-01-15T08:00:00.250Z run RUNNING on w-1"
    assert [line.split()[1:4] for line in first[1:]] == [
        ["task", "load", "SUCCEEDED"],
        ["task", "clean", "RUNNING"],
        ["task", "save", "PENDING"],
    ]
    assert again == []


def test_the_end_of_a_run_follows_the_ends_of_its_tasks() -> None:
    after = RUN | {"status": "FAILED", "tasks": RUN["tasks"] | {"clean": "FAILED"}}
    after["task_records"] = {"clean": {"error": "boom\nbang"}}

    lines = changes(RUN, after)

    assert [line.split()[1:] for line in lines] == [
        ["task", "clean", "FAILED", "boom", "bang"],
        ["run", "FAILED", "on", "w-1"],
    ]


def test_a_failed_run_shows_its_limit_receipt_and_last_lines() -> None:
    failed = RUN | {"timeout_sec": 90, "timeout": {"how": "killed"}, "last_lines": ["loading", "bad\x1b[2J"]}

    facts = dict(RUN_FACTS.facts(failed))

    assert (facts["limit"], facts["stopped"]) == ("1m30s", "killed")
    assert last_lines(failed) == ["last lines:", "  loading", "  bad\ufffd[2J"]
    assert last_lines(RUN) == []


def test_progress_is_printed_in_steps_of_ten() -> None:
    def at(percent: float) -> dict[str, Any]:
        return RUN | {"task_records": {"clean": {"progress": percent}}}

    assert changes(at(40), at(49.9)) == []
    assert len(changes(at(49.9), at(50))) == 1


def test_rows_that_need_attention_are_kept_if_not_all_fit() -> None:
    rows = [
        ("", f"t{n}", status, "", "")
        for n, status in enumerate(["SUCCEEDED"] * 5 + ["FAILED", "RUNNING"] + ["PENDING"] * 5)
    ]

    shown, left_out = fit_rows(rows, room=4)

    assert [row[1] for row in shown] == ["t5", "t6", "t7"]
    assert left_out == {"SUCCEEDED": 5, "PENDING": 4}
    assert fit_rows(rows, room=12) == (rows, {})


def test_the_last_line_shows_outcome_duration_and_reason() -> None:
    run = RUN | {"status": "FAILED", "end_time": 104.0, "error": "ValueError: \x1b[2J"}

    assert (
        summary("run", "r-1", run)
        == "run r-1 FAILED in 4.0s (1 SUCCEEDED, 1 RUNNING, 1 PENDING): ValueError: \ufffd[2J"
    )
    assert summary("run", "r", {"status": "CANCELLED"}) == "run r CANCELLED"


def test_an_explanation_has_a_summary_reasons_and_advice() -> None:
    response = {
        "run_id": "r-1",
        "status": "PENDING",
        "summary": "no worker serves gpu",
        "reasons": [{"code": "no_worker", "message": "no live worker serves gpu", "hint": "start one"}, {"code": "x"}],
    }

    assert explanation(response) == [
        "r-1 PENDING",
        "no worker serves gpu",
        "- no live worker serves gpu",
        "  → start one",
        "- x",
    ]


def test_a_reason_equal_to_the_summary_is_printed_once() -> None:
    response = {
        "run_id": "r",
        "status": "PENDING",
        "summary": "all busy",
        "reasons": [{"message": "all busy", "hint": "wait"}],
    }

    assert explanation(response) == ["r PENDING", "all busy", "  → wait"]


def test_a_run_names_the_wheels_it_ran_with() -> None:
    wheels = [{"name": "demo-1.0-py3-none-any.whl", "sha256": "9f2c"}, "of a newer server"]

    assert dict(RUN_FACTS.facts({"wheels": wheels})) == {"wheels": "demo-1.0-py3-none-any.whl"}


def test_facts_omit_missing_fields() -> None:
    facts = dict(RUN_FACTS.facts({"run_id": "r", "status": "CANCELLED", "cancel": {"how": "killed", "reason": "why"}}))

    assert facts == {"run": "r", "status": "CANCELLED", "cancel": "killed why"}


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"status": "CANCELLING", "cancel": {"how": None}}, "CANCELLING"),
        ({"status": "pending", "cancelRequestedAt": None}, "PENDING"),
        ({"status": "running", "cancelRequestedAt": "2026-01-01T00:00:00Z"}, "CANCELLING"),
        ({"status": "canceled", "cancelRequestedAt": "2026-01-01T00:00:00Z"}, "CANCELLED"),
        ({"status": "ACTIVE", "startedAt": None}, "PENDING"),
        ({"status": "ACTIVE", "startedAt": "2026-01-01T00:00:00Z"}, "RUNNING"),
        ({"status": "ACTIVE", "cancel": {"requestedAt": "2026-01-01T00:00:00Z"}}, "CANCELLING"),
        ({"status": "CANCELED", "cancel": {}}, "CANCELLED"),
        ({"status": "\x1b[2Jnew"}, "\ufffd[2JNEW"),
        ({}, "-"),
    ],
)
def test_runs_jobs_and_executions_have_one_set_of_statuses(item: dict[str, Any], shown: str) -> None:
    assert run_status(item) == shown
