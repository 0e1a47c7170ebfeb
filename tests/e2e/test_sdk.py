"""The blocking client against one real gateway, its broker and a worker: one pass over its methods."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pyoco_server import __version__
from pyoco_server.http_client import InvalidRequest, RunNotFound, WaitTimeout
from support.programs import ROOT, Program, address_of, up_with_worker
from support.twins import Twin

PATIENCE_SEC = 30.0
QUICK = {
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_CALLABLE_ALLOW": "textwrap:dedent",
}
ODD_NAMES = ["100%", "a b", "lint?", "#1", "back\\slash", "%2F", "構築"]
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
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "local", env=QUICK) as program:
        yield program


@pytest.fixture
def twin(system: Program) -> Twin:
    return Twin(address_of(system), "sync")


def submitted(twin: Twin, flow_name: str, *arguments: Any, **named: Any) -> str:
    run_id: str = twin.ask("submit_run", flow_name, *arguments, **named)["run_id"]
    return run_id


def test_small_reads_and_changes_return_their_responses(twin: Twin) -> None:
    twin.ask("wait", submitted(twin, "hello"), timeout_sec=PATIENCE_SEC)  # the worker is registered now
    run_id = submitted(twin, "hello", tag="nobody-serves-this")
    hidden = twin.ask("patch_worker", "local", hidden=True)
    shown = twin.ask("patch_worker", "local", hidden=False)

    assert twin.ask("health") == {"status": "ok", "nats": "connected", "version": __version__}
    assert "pyoco" in twin.ask("get_metrics")
    assert twin.ask("get_overview")["runs"]["PENDING"] >= 1
    assert twin.ask("get_stats", flow="hello", points=10)["total"]["submitted"] >= 2
    assert (hidden["hidden"], shown["hidden"]) == (True, False)
    assert "local" in [worker["worker_id"] for worker in twin.ask("list_workers", scope="all", limit=10)]
    assert twin.ask("explain_run", run_id)["reasons"][0]["hint"]
    assert twin.ask("list_dead_letters", flow="nobody's")["items"] == []


def test_a_missing_run_is_an_error_in_the_requested_language(system: Program) -> None:
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


def test_a_wait_may_time_out_and_a_cancel_waits_for_the_end(twin: Twin) -> None:
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


def test_all_pages_are_iterated(twin: Twin) -> None:
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


# --- executions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph_id(twin: Twin) -> str:
    """A graph of the test's own, so that no other test claims its nodes."""
    name = f"release-{uuid4()}"
    twin.ask("put_graph", name, Path(ROOT / "examples" / "release.yaml").read_text("utf-8"))
    return name


def started(twin: Twin, graph_id: str, **named: Any) -> str:
    execution_id: str = twin.ask("execute", graph_id, **named)["executionId"]
    return execution_id


def statuses(execution: Any) -> dict[str, str]:
    return {node["nodeId"]: node["status"] for node in execution["nodes"]}


def take(twin: Twin, graph_id: str) -> Any:
    claim = twin.ask("claim_node", [graph_id], "w-1", wait_sec=20.0, lease_sec=30.0)
    assert claim is not None
    return claim


def first_wait(twin: Twin, graph_id: str) -> Any:
    """Polls, because lists follow the events with a delay."""
    give_up_at = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < give_up_at:
        for wait in twin.take("iter_waits", graph_id=graph_id):
            return wait
    raise AssertionError(f"nothing of {graph_id} waits")


def test_a_release_passes_claims_and_an_approval_to_its_end(twin: Twin, graph_id: str) -> None:
    execution_id = started(twin, graph_id, input={"version": "1.4.0"})

    build = take(twin, graph_id)
    twin.ask("report_progress", execution_id, "build", 42, "compiling", attempt=1, lease_sec=60.0)
    twin.ask("succeed_node", execution_id, "build", {"file": "app.tgz"}, attempt=1)
    for claim in (take(twin, graph_id), take(twin, graph_id)):
        assert claim["outputs"] == {"build": {"file": "app.tgz"}}
        twin.ask("succeed_node", execution_id, claim["nodeId"], attempt=claim["attempt"])
    wait = first_wait(twin, graph_id)
    twin.ask(
        "resume_node",
        execution_id,
        wait["nodeId"],
        wait["waitKey"],
        {"choice": "ship", "by": "ann"},
        attempt=wait["attempt"],
    )
    deploy = take(twin, graph_id)
    twin.ask("succeed_node", execution_id, "deploy", attempt=1)

    assert (build["nodeId"], build["input"], deploy["outputs"]) == (
        "build",
        {"version": "1.4.0"},
        {"approve": {"choice": "ship", "by": "ann"}},
    )
    assert wait["prompt"]["question"] == "Ship this build?"
    finished = twin.ask("get_execution", execution_id, include="graph")
    assert (finished["status"], set(statuses(finished).values())) == ("COMPLETED", {"SUCCEEDED"})
    assert len(finished["graph"]["nodes"]) == 5
    assert statuses(twin.ask("get_execution", execution_id, at=build["version"]))["build"] == "RUNNING"
    assert twin.ask("wait", execution_id, timeout_sec=PATIENCE_SEC)["status"] == "COMPLETED"


def test_paged_and_followed_events_are_equal(twin: Twin, graph_id: str) -> None:
    execution_id = started(twin, graph_id)
    first = twin.ask("list_events", execution_id, limit=1)
    twin.ask("cancel_execution", execution_id, "not today")

    read = twin.take("iter_events", execution_id, limit=2)
    followed = twin.take("follow_events", execution_id)
    rest = twin.take("follow_events", execution_id, after=followed[1]["id"])

    assert first["items"] == read[:1]
    assert [item["eventId"] for item in followed] == [item["eventId"] for item in read]
    assert rest == followed[2:]
    reasons = [item["payload"].get("reason") for item in read if item["type"] == "EXECUTION_CANCEL_REQUESTED"]
    assert reasons == ["not today"]
    assert twin.ask("get_execution", execution_id)["status"] == "CANCELED"


def test_an_open_graph_has_its_started_nodes_and_ends_on_request(twin: Twin) -> None:
    name = f"open-{uuid4()}"
    execution_id = started(twin, name)
    for node_id in ODD_NAMES:
        twin.ask("start_node", execution_id, node_id, worker_id="w-1", lease_sec=30.0)
    twin.ask("put_waiting", execution_id, "100%", "sign", {"text": "sure?"}, timeout_sec=60.0)
    twin.ask("resume_node", execution_id, "100%", "sign", "yes")
    for node_id in ODD_NAMES:
        twin.ask("succeed_node", execution_id, node_id)

    twin.ask("complete_execution", execution_id)
    twin.ask("archive_execution", execution_id)

    finished = twin.ask("get_execution", execution_id)
    assert statuses(finished) == dict.fromkeys(ODD_NAMES, "SUCCEEDED")
    assert finished["status"] == "COMPLETED"
    archived = twin.take("iter_executions", graph_id=name, archived=True)
    assert [item["executionId"] for item in archived] == [execution_id]
    assert twin.ask("list_executions", graph_id=name)["items"] == []
