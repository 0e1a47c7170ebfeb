"""The text of a flow.yaml → a pyoco flow; it imports user code, so only what runs flows may call it.

The text is read by the same strict reader as at the gateway, because a job may come from anybody, and pyoco gets what
was read, not the text: what was checked is what runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from pyoco.core.models import Flow
from pyoco.discovery.loader import TaskLoader
from pyoco.dsl.graph import build_flow_from_graph
from pyoco.schemas.config import FlowConfig, PyocoConfig, RuntimeConfig, TaskConfig

from pyoco_server.domain.flow_yaml.document import FlowFile, FlowTask, read_flow_file
from pyoco_server.worker.steps import RunJob


class TaskNotLoadable(RuntimeError):
    """what a task of a flow.yaml names cannot be imported on this worker"""


class _OwnTasks(TaskLoader):  # type: ignore[misc]  # pyoco is not typed
    """Loads what the file itself names. To look for plug-ins takes longer than most runs, so that is done on demand."""

    def _load_env_modules(self) -> None:
        """None of them could be referred to."""

    def _load_entry_point_plugins(self) -> None:
        """None of them could be referred to."""


def flow_from_file(job: RunJob) -> Flow:
    """The flow that the job's flow.yaml describes; `TaskNotLoadable` names the task and the callable in its way."""
    text = job.workflow_yaml or ""
    described = read_flow_file(text.encode(), allowed=job.callable_allow)
    for name, task in _needed(described):
        if task.callable is not None:
            _import(name, task.callable)
    uses_others = any(task.use is not None and task.use not in described.tasks for task in described.tasks.values())
    loader = (TaskLoader if uses_others else _OwnTasks)(config_of(described), strict=True)
    loader.load()
    return build_flow_from_graph(
        graph=described.graph_text, tasks=loader.tasks, pipes=dict(described.pipes), flow_name=job.flow_name
    )


def config_of(described: FlowFile) -> PyocoConfig:
    """The file in pyoco's own words: what its reader makes of the same text."""
    return PyocoConfig(
        version=1,
        flow=FlowConfig(graph=described.graph_text, defaults=dict(described.defaults)),
        tasks={name: _task_config(task) for name, task in described.tasks.items()},
        pipes=dict(described.pipes),
        runtime=RuntimeConfig(expose_env=list(described.expose_env)),
    )


def _task_config(task: FlowTask) -> TaskConfig:
    return TaskConfig(callable=task.callable, use=task.use, inputs=dict(task.inputs), outputs=list(task.outputs))


def _needed(described: FlowFile) -> Iterator[tuple[str, FlowTask]]:
    """The tasks of the graph, and those that they use."""
    waiting, seen = sorted(described.graph.tasks), set(described.graph.tasks)
    while waiting:
        name = waiting.pop(0)
        if task := described.tasks.get(name):
            yield name, task
            if task.use is not None and task.use not in seen:
                seen.add(task.use)
                waiting.append(task.use)


def _import(task: str, callable_name: str) -> None:
    """Import it before pyoco does, whose loader prints the reason and goes on without the task."""
    module_name, _, name = callable_name.partition(":")
    what = f"task {task!r}: its callable {callable_name!r}"
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = f"{type(error).__name__}: {error}"
        raise TaskNotLoadable(f"{what} cannot be imported on this worker: {told}") from error
    if not hasattr(module, name):
        # The file too: a worker may find another module of that name first.
        where = getattr(module, "__file__", None) or "built in"
        raise TaskNotLoadable(f"{what} does not exist: module {module_name!r} ({where}) has no {name!r}")
    found = getattr(module, name)
    if not callable(found):
        raise TaskNotLoadable(f"{what} is a {type(found).__name__}, which cannot be called")
