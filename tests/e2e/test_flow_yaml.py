"""Flow files run by real processes: without a resolver, without code on the gateway, without loss of their text."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.test_first_run import begun, wait_for_status
from support.processes import descendants, wait_for_exit
from support.programs import ROOT, Program, connected, up, worker

TASKS = """\
import time
from pathlib import Path

def load(day):
    print("loading", day)
    return [day, 1, 2]

def save(load):
    return len(load)

def wait_for_file(path):
    while not Path(path).exists():
        time.sleep(0.01)
    return "found"
"""
TWO_TASKS = """\
tasks:
  load: {callable: tasks_of_ours:load}
  save: {callable: tasks_of_ours:save}
flow:
  graph: load >> save
  defaults: {day: monday}
"""
ONE_TASK = "tasks: {only: {callable: 'tasks_of_ours:%s'}}\nflow: {graph: only, defaults: {path: '%s'}}\n"
QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "1.5",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.4",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "tasks_of_ours.py").write_text(TASKS)
    return folder


@pytest.fixture(scope="module")
def system(folder: Path) -> Iterator[Program]:
    """Started with a worker and without a resolver."""
    with up(folder, "--with-worker", "--worker-concurrency", "1", env=QUICK) as program:
        yield program


@pytest.fixture
def client(system: Program) -> Iterator[httpx.Client]:
    with connected(system) as opened:
        yield opened


def submit_file(client: httpx.Client, text: str, flow_name: str = "from a file") -> str:
    response = client.post("/runs/yaml", files={"workflow": ("flow.yaml", text)}, data={"flow_name": flow_name})
    assert response.status_code == 200, response.text
    run_id: str = response.json()["run_id"]
    return run_id


def test_a_flow_file_runs_on_a_worker_without_announced_flows(client: httpx.Client) -> None:
    run = wait_for_status(client, submit_file(client, TWO_TASKS), "COMPLETED", "FAILED")

    assert (run["status"], run["error"]) == ("COMPLETED", None)
    assert (run["flow_name"], run["params"]) == ("from a file", {"day": "monday"})
    assert run["tasks"] == {"load": "SUCCEEDED", "save": "SUCCEEDED"}
    assert run["task_records"]["save"]["output"] == 3
    log = client.get(f"/runs/{run['run_id']}/logs").json()["items"]
    assert ("loading monday", "load") in [(item["message"], item["task"]) for item in log]


def test_the_example_runs(client: httpx.Client) -> None:
    run = wait_for_status(
        client, submit_file(client, (ROOT / "examples" / "flow.yaml").read_text()), "COMPLETED", "FAILED"
    )

    assert (run["status"], run["error"]) == ("COMPLETED", None)
    assert run["task_records"]["report"]["output"] == "Kyoto: 21.3 °C"


def test_a_flow_file_run_of_a_killed_worker_continues_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "tasks_of_ours.py").write_text(TASKS)
    signpost = tmp_path / "go-on"
    arguments = ("--data-dir", "data", "--concurrency", "1")
    with up(tmp_path, env=QUICK) as gateway, connected(gateway) as client:
        with worker(*arguments, "--worker-id", "first", cwd=tmp_path, env=QUICK) as first:
            run_id = submit_file(client, ONE_TASK % ("wait_for_file", signpost))
            begun(client, run_id)
            runners = descendants(first.pid)
            first.signal(signal.SIGKILL)
            assert all(wait_for_exit(pid) for pid in runners)
        with worker(*arguments, "--worker-id", "second", cwd=tmp_path, env=QUICK):
            signpost.touch()
            run = wait_for_status(client, run_id, "COMPLETED", "FAILED")

    assert (run["status"], run["worker_id"], run["attempt"]) == ("COMPLETED", "second", 2)
    assert run["task_records"]["only"]["output"] == "found"
