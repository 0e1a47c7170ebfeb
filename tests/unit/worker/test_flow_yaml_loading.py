"""From a flow.yaml to a runnable flow: pyoco gets what its own reader would return."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyoco.schemas.config import PyocoConfig

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.trace import Step, TaskSucceeded
from pyoco_server.worker.runner_process.flow_loader import no_flows
from pyoco_server.worker.runner_process.flow_run import CancelSwitch, run_job
from pyoco_server.worker.runner_process.protocol import RunEnded, RunJob
from unit.adapters.test_flow_yaml import WHOLE

TASKS = """\
from pyoco import task

def load(day="sunday"):
    return [day, "data"]

@task
def save(load, mark="?"):
    return f"{load[0]}{mark}"

async def later(n=1):
    return n + 1

answer = 42
"""
MODULE = "tasks_of_a_file_flow"


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{MODULE}.py").write_text(TASKS)
    (tmp_path / f"{MODULE}_broken.py").write_text("import no_such_package_at_all")
    (tmp_path / f"{MODULE}_leaving.py").write_text("raise SystemExit(3)")
    (tmp_path / f"{MODULE}_keyless.py").write_text("{}['no such key']")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith(MODULE)]:
        del sys.modules[name]


def run(
    text: str, params: dict[str, Any] | None = None, allow: tuple[str, ...] = ()
) -> tuple[RunEnded, dict[str, Any]]:
    steps: list[Step] = []
    job = RunJob(
        run_id="run-1",
        flow_name="main",
        params=params or {},
        attempt=1,
        workflow_yaml=text.replace("M:", f"{MODULE}:").replace("M_", f"{MODULE}_"),
        callable_allow=allow,
    )
    ended = run_job(no_flows, job, steps.append, CancelSwitch())
    return ended, {step.node: step.output for step in steps if isinstance(step, TaskSucceeded)}


def test_a_flow_of_plain_functions_and_tasks_runs() -> None:
    ended, outputs = run(
        "tasks:\n  load: {callable: 'M:load'}\n  save: {callable: 'M:save', inputs: {mark: '!'}}\n"
        "  later: {callable: 'M:later'}\nflow: {graph: load >> save >> later}",
        {"day": "monday"},
    )

    assert ended.how == "completed", ended.message
    assert outputs == {"load": ["monday", "data"], "save": "monday!", "later": 2}


def test_loops_named_nodes_and_uses_run() -> None:
    ended, outputs = run(
        "tasks:\n  load: {callable: 'M:load'}\n  again: {use: load, inputs: {day: friday}}\n"
        "flow: {graph: 'repeat(count=times){ first: load } >> again'}",
        {"times": 2},
    )

    assert ended.how == "completed", ended.message
    assert outputs == {"first": ["sunday", "data"], "again": ["friday", "data"]}


def test_the_same_file_runs_many_times_in_one_process() -> None:
    one = "tasks: {a: {callable: 'M:load'}, b: {callable: 'M:load'}}\nflow: {graph: a >> b}"

    ends = [run(text)[0].how for text in (one, one.replace("a >> b", "b >> a"), one)]

    assert ends == ["completed"] * 3


@pytest.mark.parametrize(
    ("callable_name", "reason"),
    [
        ("no_such_module:load", "cannot be imported on this worker: ModuleNotFoundError: No module named"),
        ("M:no_such", f"{MODULE}.py) has no 'no_such'"),
        ("M:answer", "is a int, which cannot be called"),
        ("M_broken:load", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
        ("M_leaving:load", "SystemExit: 3"),
        ("M_keyless:load", "KeyError"),
    ],
)
def test_a_missing_callable_fails_the_run_with_its_name(callable_name: str, reason: str) -> None:
    ended, _ = run(f"tasks: {{first: {{callable: '{callable_name}'}}}}\nflow: {{graph: first}}")

    assert (ended.how, ended.error_type) == ("failed", "TaskNotLoadable")
    assert ended.message is not None
    full_name = callable_name.replace("M", MODULE)
    assert ended.message.startswith(f"task 'first': its callable '{full_name}'")
    assert reason in ended.message


def test_a_task_outside_the_graph_may_be_missing() -> None:
    ended, _ = run("tasks: {a: {callable: 'M:load'}, b: {callable: 'no_such_module:f'}}\nflow: {graph: a}")

    assert ended.how == "completed"


def test_a_missing_plug_in_fails_the_run_with_its_name() -> None:
    ended, _ = run("tasks: {a: {use: demo/double}}\nflow: {graph: a}")

    assert ended.how == "failed"
    assert ended.message is not None
    assert "'a' uses unknown task 'demo/double'" in ended.message


def test_a_file_from_a_foreign_producer_is_read_as_strictly() -> None:
    ended, _ = run("tasks: {a: {callable: 'M:load'}, a: {callable: 'M:load'}}\nflow: {graph: a}")

    assert ended.how == "failed"
    assert "stands twice" in (ended.message or "")


def test_a_forbidden_callable_is_not_imported() -> None:
    ended, _ = run("tasks: {a: {callable: 'M_leaving:load'}}\nflow: {graph: a}", allow=("other:*",))

    assert ended.how == "failed"
    assert "not among those that may be called here" in (ended.message or "")
    assert f"{MODULE}_leaving" not in sys.modules


def test_the_parsed_file_is_what_the_reader_of_pyoco_returns(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(WHOLE)

    ours, theirs = read_flow_file(WHOLE.encode()), PyocoConfig.from_yaml(str(path))

    theirs.tasks["save"].inputs = {}  # empty in the file: None for pyoco's reader, {} for its loader
    assert (ours.graph_text, ours.pipes) == (theirs.flow.graph, theirs.pipes)
    assert ours.defaults == theirs.flow.defaults
    tasks = {name: asdict(task) | {"outputs": list(task.outputs)} for name, task in ours.tasks.items()}
    assert tasks == {name: asdict(task) for name, task in theirs.tasks.items()}
