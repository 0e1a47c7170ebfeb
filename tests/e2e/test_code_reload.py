"""Edits of a flow's code while the programs run: one version at a time, recorded with each run."""

from __future__ import annotations

import os
import signal
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.test_first_run import submit, wait_for_status
from support.processes import command_of, descendants
from support.programs import Program, connected, until, up, worker

FLOWS = """
from pyoco.core.models import Flow, Task
import tasks

def resolve(name):
    return Flow(name=name) >> Task(func=tasks.version, name="version")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    save(tmp_path, 1)
    return tmp_path


def save(project: Path, number: int) -> None:
    (project / "tasks.py").write_text(f"def version():\n    return {number}\n")


def finished(client: httpx.Client, run_id: str) -> dict[str, Any]:
    return wait_for_status(client, run_id, "COMPLETED", "FAILED")


def output_of(run: dict[str, Any]) -> object:
    return run["task_records"]["version"]["output"]


def code_of_worker(client: httpx.Client) -> dict[str, Any]:
    (record,) = until(lambda: client.get("/workers").json(), bool)
    code: dict[str, Any] = record["code"]
    return code


def runner_processes(program: Program) -> list[int]:
    """Fork servers and runners."""
    return [pid for pid in descendants(program.pid) if "fork_server" in command_of(pid)]


def test_outputs_of_up_switch_once_per_save_and_kills_in_between_lose_no_run(project: Path) -> None:
    with up(project, "--with-worker", "--flow-resolver", "flows.py:resolve") as program, connected(program) as client:
        runs = [finished(client, submit(client, "version"))]
        waiting: list[str] = []
        for number in (2, 3):
            save(project, number)
            for pid in runner_processes(program):
                os.kill(pid, signal.SIGKILL)
            while output_of(runs[-1]) != number:
                waiting += [submit(client, "version") for _ in range(3)]
                runs.append(finished(client, submit(client, "version")))
        ended = [finished(client, run_id) for run_id in waiting]
        events = client.get(f"/executions/{runs[-1]['run_id']}/events").text
        until(lambda: code_of_worker(client), lambda code: code["version"] == runs[-1]["code_version"])
        code = code_of_worker(client)

    assert [output for output, _ in groupby(map(output_of, runs))] == [1, 2, 3]
    # A run that a kill hit has failed with the reason; all others completed, each with what its version returns.
    outputs = {run["code_version"]: output_of(run) for run in runs}
    completed = [run for run in ended if run["status"] == "COMPLETED"]
    assert all("SIGKILL" in run["error"] or "was lost" in run["error"] for run in ended if run not in completed)
    assert all(output_of(run) == outputs[run["code_version"]] for run in completed)
    assert f'"codeVersion":"{runs[-1]["code_version"]}"' in events
    assert (code["reload"], code["changed"], code["error"]) == (True, False, None)


def test_a_worker_serves_the_version_of_its_start_and_reports_the_change(project: Path) -> None:
    with (
        up(project) as program,
        connected(program) as client,
        worker("--data-dir", "data", "--flow-resolver", "flows.py:resolve", cwd=project) as pinned,
    ):
        pinned.out.wait_for('"message":"worker ready"')
        first = finished(client, submit(client, "version"))

        save(project, 2)
        pinned.out.wait_for('"message":"files of the flows have changed')
        for pid in runner_processes(pinned):
            os.kill(pid, signal.SIGKILL)
        second = finished(client, submit(client, "version"))
        code = until(lambda: code_of_worker(client), lambda code: bool(code["changed"]))

    assert [output_of(run) for run in (first, second)] == [1, 1]
    assert code == {"version": first["code_version"], "reload": False, "changed": True, "error": None}
    assert second["code_version"] == first["code_version"]


@pytest.mark.parametrize(
    ("arguments", "env", "expected"),
    [((), {}, True), (("--no-code-reload",), {}, False), ((), {"PYOCO_CODE_RELOAD": "0"}, False)],
    ids=["default", "option", "variable"],
)
def test_up_reloads_unless_it_is_turned_off(
    project: Path, arguments: tuple[str, ...], env: dict[str, str], expected: bool
) -> None:
    with (
        up(project, "--with-worker", "--flow-resolver", "flows.py:resolve", *arguments, env=env) as program,
        connected(program) as client,
    ):
        assert code_of_worker(client)["reload"] is expected
