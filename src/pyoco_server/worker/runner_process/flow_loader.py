"""Loads flows: the user's resolver from the command line, and pyoco flows from a flow.yaml. Imports user code.

Only processes that run flows may call it. A resolver that cannot be loaded raises an `InvalidUsage` with the reason.
A flow.yaml is read by the same strict reader as at the gateway, because a job may come from anywhere, and pyoco gets
what was read, not the text: what was checked is what runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pyoco.core.models import Flow
from pyoco.discovery.loader import TaskLoader
from pyoco.dsl.graph import build_flow_from_graph

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.domain.flow_yaml import FlowFile, FlowTask, is_standard
from pyoco_server.errors import InvalidUsage
from pyoco_server.trace import describe_error
from pyoco_server.worker.runner_process import pinned_imports
from pyoco_server.worker.runner_process.callables import is_in_standard_library, standard_code_of
from pyoco_server.worker.runner_process.pinned_imports import PinnedLoader
from pyoco_server.worker.runner_process.protocol import RunJob

Resolver = Callable[[str], Flow]

FORM = "module:function or path/to/file.py:function"
SETTING = "PYOCO_CALLABLE_ALLOW"


def no_flows(flow_name: str) -> Flow:
    """The resolver of a worker without one: it only runs flows that come as a flow.yaml."""
    raise KeyError(flow_name)


def load_resolver(spec: str) -> Resolver:
    """The function that `spec` names; `no_flows` without a spec.

    Modules in the worker's working directory can be imported in any case: the tasks of a flow.yaml may be there.
    """
    here = Path.cwd()
    if not spec:
        _put_first_on_path(here)
        return no_flows
    resolver = _load_resolver(spec)
    if str(here) not in sys.path:
        sys.path.append(str(here))  # last: modules beside the resolver take precedence
    return resolver


def _load_resolver(spec: str) -> Resolver:
    location, colon, name = spec.rpartition(":")
    if not colon or not location or not name:
        raise _invalid(spec, f"is not of the form {FORM}")
    module = _load_file(spec, Path(location)) if location.endswith(".py") else _load_module(spec, location)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise _invalid(spec, f"names {name!r}, but {location} has no such name")
        found = getattr(found, part)
    if not callable(found):
        raise _invalid(spec, f"is a {type(found).__name__}; it must be a function of the flow's name")
    return found  # type: ignore[no-any-return]  # what it returns is checked at each call


def _load_module(spec: str, name: str) -> ModuleType:
    _put_first_on_path(Path.cwd())
    if _is_absent(name):
        raise _invalid(spec, f"names module {name!r}, which is not installed and not below {Path.cwd()}")
    return _import_resolver(spec, lambda: importlib.import_module(name))


def _is_absent(name: str) -> bool:
    parent = name.partition(".")[0]
    try:
        return importlib.util.find_spec(parent) is None
    except ValueError:
        return True


def _load_file(spec: str, path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file() and not pinned_imports.has(str(path)):
        raise _invalid(spec, f"names {path}, and there is no such file")
    _put_first_on_path(path.parent)
    # The file must not replace a loaded module of the same name.
    name = path.stem if path.stem not in sys.modules else f"pyoco_flows_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path, loader=PinnedLoader(name, str(path)))
    if found is None or found.loader is None:
        raise _invalid(spec, f"names {path}, which Python cannot load")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    loader = found.loader

    def load() -> ModuleType:
        loader.exec_module(module)
        return module

    return _import_resolver(spec, load)


def _import_resolver(spec: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        return load()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        described = describe_error(error, hide_frames_of=__file__)
        reason = f"{described.error_type}: {described.message}\n{described.traceback}"
        raise _invalid(spec, f"cannot be imported: {reason}") from error


def _invalid(spec: str, why: str) -> InvalidUsage:
    return InvalidUsage(f"the flow resolver {spec!r} {why}", resolver=spec)


def _put_first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


# --- flow.yaml --------------------------------------------------------------------------------------------------------


class TaskNotLoadable(RuntimeError):
    """the callable of a task of a flow.yaml cannot be imported on this worker"""


class _OwnTasks(TaskLoader):  # type: ignore[misc]  # pyoco is not typed
    """Loads only what the file names. The search for plug-ins takes longer than most runs, so it is done on demand."""

    def _load_env_modules(self) -> None:
        """The file refers to none."""

    def _load_entry_point_plugins(self) -> None:
        """The file refers to none."""


def load_flow_yaml(job: RunJob) -> Flow:
    """The flow of the job's flow.yaml; `TaskNotLoadable` names the task and its callable."""
    text = job.workflow_yaml or ""
    described = read_flow_file(text.encode(), allowed=job.callable_allow)
    tasks = dict(_needed(described))
    for name, task in tasks.items():
        if task.callable is not None:
            _import_callable(name, task.callable, job.callable_allow)
    uses_others = any(task.use is not None and task.use not in tasks for task in tasks.values())
    # It reads the tasks only, and would import those that are not needed, too.
    loader = (TaskLoader if uses_others else _OwnTasks)(replace(described, tasks=tasks), strict=True)
    loader.load()
    return build_flow_from_graph(
        graph=described.graph_text, tasks=loader.tasks, pipes=dict(described.pipes), flow_name=job.flow_name
    )


def _needed(described: FlowFile) -> Iterator[tuple[str, FlowTask]]:
    waiting, seen = sorted(described.graph.tasks), set(described.graph.tasks)
    while waiting:
        name = waiting.pop(0)
        if task := described.tasks.get(name):
            yield name, task
            if task.use is not None and task.use not in seen:
                seen.add(task.use)
                waiting.append(task.use)


def _import_callable(task: str, callable_name: str, allowed: Collection[str]) -> None:
    """Imports it before pyoco does, whose loader prints the error and continues without the task.

    Refuses code of Python itself, in whatever module it is found, unless `allowed` names it.
    """
    module_name, _, name = callable_name.partition(":")
    what = f"task {task!r}: its callable {callable_name!r}"
    is_allowed = callable_name in allowed or is_standard(callable_name)  # the reader has checked those
    if not is_allowed and is_in_standard_library(module_name):
        raise TaskNotLoadable(f"{what} is of Python itself, which a file may call only if {SETTING} names it")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        reason = f"{type(error).__name__}: {error}"
        raise TaskNotLoadable(f"{what} cannot be imported on this worker: {reason}") from error
    if not hasattr(module, name):
        # With the file: the worker may find another module of that name first.
        where = getattr(module, "__file__", None) or "built in"
        raise TaskNotLoadable(f"{what} does not exist: module {module_name!r} ({where}) has no {name!r}")
    found = getattr(module, name)
    if not callable(found):
        raise TaskNotLoadable(f"{what} is a {type(found).__name__}, which cannot be called")
    if not is_allowed and (code := standard_code_of(found, allowed)):
        raise TaskNotLoadable(
            f"{what} runs {code} of Python itself or of this server, which a file may call only if {SETTING} names one "
            "of both in full"
        )
