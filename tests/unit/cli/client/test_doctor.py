"""The findings of `doctor` for each response."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyoco_server import __version__
from pyoco_server.cli.client.commands.doctor import airflow, broker, clock, fleet, refused, version_of
from pyoco_server.http_client import PyocoClientError

AT = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"


def refusal(detail: str, err_id: str | None, hint: str | None, status_code: int) -> PyocoClientError:
    error = PyocoClientError(detail)
    error.detail, error.err_id, error.hint = detail, err_id, hint
    vars(error)["status_code"] = status_code
    return error


@pytest.mark.parametrize(
    ("now", "verdict", "detail"),
    [(AT, "ok", "agree"), (AT + 60, "warning", "60 s behind"), (AT - 60, "warning", "60 s ahead")],
)
def test_clocks_may_differ_by_seconds_only(now: float, verdict: str, detail: str) -> None:
    finding = clock(DATE, now)

    assert finding.verdict == verdict
    assert detail in finding.detail


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_missing_date_header_skips_the_check(date: str | None) -> None:
    assert clock(date, AT).verdict == "skipped"


def test_another_server_version_is_a_warning() -> None:
    assert version_of({"version": __version__}).verdict == "ok"
    assert version_of({"version": "0.1"}).verdict == "warning"
    assert version_of({}).verdict == "warning"


def test_an_unreachable_broker_is_wrong_and_has_advice() -> None:
    assert broker({"nats": "connected"}).verdict == "ok"

    offline = broker({"nats": "offline"})

    assert (offline.verdict, "NATS" in (offline.todo or "")) == ("wrong", True)


def test_code_that_is_not_served_is_a_warning_with_the_worker_and_advice() -> None:
    served: dict[str, Any] = {"version": "3f2a91c07d4e", "reload": False, "changed": False, "error": None}
    workers: list[dict[str, Any]] = [
        {"worker_id": "fine", "tags": ["default"], "code": served},
        {"worker_id": "pinned", "tags": ["default"], "code": served | {"changed": True}},
        {"worker_id": "broken", "tags": ["default"], "code": served | {"reload": True, "error": "SyntaxError: line 3"}},
        {"worker_id": "loading", "tags": ["default"], "code": served | {"reload": True, "changed": True}},
        {"worker_id": "library", "tags": ["default"], "code": None},
    ]

    findings = [finding for finding in fleet(workers, tag=None) if finding.check == "code"]

    assert [finding.verdict for finding in findings] == ["warning", "warning"]
    assert findings[0].detail.startswith("pinned serves the code of its start (3f2a91c07d4e)")
    assert findings[1].detail == "broken could not load the saved files: SyntaxError: line 3"
    assert all(finding.todo for finding in findings)


def test_a_fleet_without_workers_is_wrong_and_has_advice() -> None:
    (finding,) = fleet([], tag="gpu")

    assert finding.verdict == "wrong"
    assert finding.todo == "Start one: pyoco-worker --tags gpu"


@pytest.mark.parametrize(
    ("tag", "verdicts"),
    [(None, ["ok", "warning"]), ("gpu", ["ok", "ok"]), ("tpu", ["ok", "wrong"])],
)
def test_a_requested_tag_must_be_served(tag: str | None, verdicts: list[str]) -> None:
    workers = [{"tags": ["gpu", "\x1b[2J"], "state": "RUNNING"}]

    findings = list(fleet(workers, tag))

    assert [finding.verdict for finding in findings] == verdicts
    assert "1 running, 1 busy" in findings[0].detail
    assert not any("\x1b" in finding.detail for finding in findings)


@pytest.mark.parametrize(("user", "verdicts"), [("root", ["ok", "warning", "ok"]), ("pyoco", ["ok", "ok"])])
def test_tasks_that_run_as_root_are_a_warning(user: str, verdicts: list[str]) -> None:
    findings = list(fleet([{"tags": ["gpu"], "state": "IDLE", "runner_user": user}], "gpu"))

    assert [finding.verdict for finding in findings] == verdicts


@pytest.mark.parametrize(
    ("question", "status", "check", "verdict"),
    [
        ("runs", 401, "access", "wrong"),
        ("runs", 403, "access", "wrong"),
        ("runs", 503, "runs", "wrong"),
        ("workers", 403, "workers", "skipped"),
        ("workers", 503, "workers", "wrong"),
    ],
)
def test_a_failed_request_is_reported_with_its_hint(question: str, status: int, check: str, verdict: str) -> None:
    finding = refused(question, refusal("no", "ERR-PYOCO-0036", "ask for it", status))

    assert (finding.check, finding.verdict, finding.todo) == (check, verdict, "ask for it")
    assert finding.detail == ("runs: " if check != question else "") + "no [ERR-PYOCO-0036]"


def test_findings_and_advice_are_in_the_language_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")

    findings = [
        version_of({"version": "0"}),
        clock(None, 0.0),
        broker({"nats": "connected"}),
        broker({}),
        *fleet([], "gpu"),
        *fleet([{"tags": ["cpu"]}], "gpu"),
    ]

    for finding in findings:
        assert re.search("[ぁ-ん]", finding.detail), finding
        assert finding.todo is None or re.search("[ぁ-ん]", finding.todo), finding


def test_a_gateway_without_airflow_has_no_line_about_it() -> None:
    assert list(airflow({"status": "ready"})) == []


@pytest.mark.parametrize(
    ("found", "verdict", "shown"),
    [
        ({"status": "up"}, "ok", "ready"),
        ({"status": "unchecked"}, "skipped", "not looked"),
        ({"status": "down", "detail": "Airflow did not answer in time"}, "wrong", "in time [ERR-PYOCO-0093]"),
        ({"status": "misconfigured", "detail": "the DAG x is paused"}, "wrong", "x is paused [ERR-PYOCO-0093]"),
        ({"status": "down"}, "wrong", "does not answer [ERR-PYOCO-0093]"),
    ],
)
def test_airflow_is_as_the_gateway_found_it(found: dict[str, str], verdict: str, shown: str) -> None:
    (finding,) = airflow({"status": "ready", "airflow": found})

    assert (finding.check, finding.verdict) == ("airflow", verdict)
    assert shown in finding.detail


def test_the_remedy_for_a_wrong_set_up_is_that_of_an_operator() -> None:
    (down,) = airflow({"airflow": {"status": "down"}})
    (misconfigured,) = airflow({"airflow": {"status": "misconfigured"}})

    assert down.todo != misconfigured.todo
    assert "operator corrects" in str(misconfigured.todo)
