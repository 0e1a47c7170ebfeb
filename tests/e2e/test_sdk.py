"""Every method of the blocking client against one real gateway, its broker and a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyoco_server import __version__
from pyoco_server.http_client import InvalidRequest, RunNotFound, WaitTimeout
from support.programs import Program, address_of, up_with_worker
from support.twins import Twin

PATIENCE_SEC = 30.0
QUICK = {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5", "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2"}
UNKNOWN = "0198c0de-0000-7000-8000-000000000000"
WORKFLOW = """\
version: 1
tasks:
  tidy:
    callable: textwrap:dedent
    inputs:
      text: $ctx.params.text
flow:
  graph: tidy
  defaults:
    text: "  some words"
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("sdk")
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "beside", env=QUICK) as program:
        yield program


@pytest.fixture
def twin(system: Program) -> Twin:
    return Twin(address_of(system), "sync")


def submitted(twin: Twin, flow_name: str, *arguments: Any, **named: Any) -> str:
    run_id: str = twin.ask("submit_run", flow_name, *arguments, **named)["run_id"]
    return run_id


def test_the_small_reads_and_changes_have_answers(twin: Twin) -> None:
    twin.ask("wait", submitted(twin, "hello"), timeout_sec=PATIENCE_SEC)  # the worker is registered now
    run_id = submitted(twin, "hello", tag="nobody-serves-this")
    hidden = twin.ask("patch_worker", "beside", hidden=True)
    shown = twin.ask("patch_worker", "beside", hidden=False)

    assert twin.ask("health") == {"status": "ok", "nats": "connected", "version": __version__}
    assert "pyoco" in twin.ask("get_metrics")
    assert (hidden["hidden"], shown["hidden"]) == (True, False)
    assert "beside" in [worker["worker_id"] for worker in twin.ask("list_workers", scope="all", limit=10)]
    assert twin.ask("explain_run", run_id)["reasons"][0]["hint"]
    assert twin.ask("list_dead_letters", flow="nobody's")["items"] == []


def test_a_missing_run_is_an_error_in_the_language_that_was_asked_for(system: Program) -> None:
    with pytest.raises(RunNotFound) as caught:
        Twin(address_of(system), "sync", language="ja").ask("get_run", UNKNOWN)

    assert (caught.value.err_id, caught.value.message) == ("ERR-PYOCO-0005", "runが見つかりません")
    assert caught.value.request_id


def test_a_run_is_submitted_waited_for_and_read(twin: Twin) -> None:
    accepted = twin.ask("submit_run", "sum", {"count": 4})
    run_id = accepted["run_id"]
    finished = twin.ask("wait", run_id, timeout_sec=PATIENCE_SEC)
    read = twin.ask("get_run", run_id, include="records")
    tasks = twin.ask("get_tasks", run_id)

    assert accepted["status"] == "PENDING"
    assert (finished["run_id"], finished["status"]) == (run_id, "COMPLETED")
    assert read["tasks"] == tasks["tasks"] == {"numbers": "SUCCEEDED", "total": "SUCCEEDED"}
    assert read["task_records"]["total"]["output"] == tasks["task_records"]["total"]["output"]


def test_waiting_may_end_before_the_run_does_and_a_cancel_waits_for_its_end(twin: Twin) -> None:
    run_id = submitted(twin, "listens")

    with pytest.raises(WaitTimeout) as caught:
        twin.ask("wait", run_id, timeout_sec=0.2)
    stopped = twin.ask("cancel_run", run_id, wait=True, timeout_sec=PATIENCE_SEC, reason="seen enough")
    again = twin.ask("cancel_run", run_id)

    assert caught.value.snapshot["run_id"] == run_id
    assert stopped["status"] == again["status"] == "CANCELLED"
    assert stopped["cancel"]["reason"] == "seen enough"


def test_a_watch_shows_a_run_from_its_start_to_its_end(twin: Twin, tmp_path: Path) -> None:
    signal = tmp_path / "go"
    run_id = submitted(twin, "waits", {"path": str(signal)})

    running = twin.take(
        "watch", run_id, until=lambda item: "RUNNING" in item["snapshot"]["tasks"].values(), timeout_sec=PATIENCE_SEC
    )
    signal.touch()
    rest = twin.take("watch", run_id, include="records", timeout_sec=PATIENCE_SEC)

    assert running[-1]["snapshot"]["status"] == "RUNNING"
    assert (rest[-1]["event"], rest[-1]["snapshot"]["status"]) == ("snapshot", "COMPLETED")
    assert rest[-1]["snapshot"]["task_records"]["wait_for_file"]["output"] == "found"
    assert int(rest[-1]["id"]) > int(running[-1]["id"])


def test_a_workflow_file_is_run(twin: Twin) -> None:
    run_id = twin.ask("submit_run_yaml", WORKFLOW)["run_id"]
    finished = twin.ask("wait", run_id, timeout_sec=PATIENCE_SEC)

    assert (finished["status"], finished["flow_name"]) == ("COMPLETED", "main"), finished["error"]
    assert twin.ask("get_tasks", run_id)["task_records"]["tidy"]["output"] == "some words"
    assert finished["workflow_yaml_bytes"] == len(WORKFLOW)
    with pytest.raises(InvalidRequest):
        twin.ask("submit_run_yaml", b"flows: {}", tag="default")


def test_pages_are_walked_to_their_end(twin: Twin) -> None:
    label = str(uuid4())
    run_ids = {submitted(twin, "hello", tags=[label, "paged"]) for _ in range(5)}

    page = twin.ask("list_runs_vnext", tags=[label, "paged"], limit=2)
    following = twin.ask("list_runs_vnext", tags=[label, "paged"], limit=2, cursor=page["next_cursor"])
    everything = twin.take("iter_runs", tags=label, limit=2)

    assert len(page["items"]) == len(following["items"]) == 2
    assert {run["run_id"] for run in everything} == run_ids
    assert twin.take("iter_runs", updated_after=9e9) == []
    assert twin.take("iter_runs", workflow_yaml_sha256="0" * 64) == []
    with pytest.raises(InvalidRequest) as caught:
        twin.ask("list_runs_vnext", cursor="not one")
    assert caught.value.err_id == "ERR-PYOCO-0017"
