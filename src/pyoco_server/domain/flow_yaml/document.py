"""A flow.yaml, checked from top to bottom: size, YAML, keys, graph. A file that passes can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pyoco_server.domain.flow_yaml.graph import FlowGraph, read_graph
from pyoco_server.domain.flow_yaml.graph_tokens import GraphFault
from pyoco_server.domain.strict_yaml import Document, YamlFault, read_yaml, shown
from pyoco_server.errors import InvalidRequest, WorkflowTooLarge


def refusal(what: str, line: int | None = None) -> InvalidRequest:
    """The error for a flow.yaml: what is wrong, and on which line."""
    place = "flow.yaml" if line is None else f"flow.yaml, line {line}"
    return InvalidRequest(f"{place}: {what}", line=line)


FORMS = "$node.<node>.output, $ctx.params.<key> and $env.<NAME>; no other text may begin with $"


def is_selector(value: object) -> bool:
    """Whether pyoco treats the value as a reference; it does not look inside lists and mappings."""
    return isinstance(value, str) and value.startswith("$")


def is_well_formed(selector: str) -> bool:
    """Whether pyoco can resolve the reference; its target is known only at run time."""
    if selector.startswith("$node."):
        parts = selector.split(".")
        return len(parts) >= 3 and bool(parts[1]) and parts[2] == "output"
    prefixes = ("$ctx.params.", "$env.")
    return any(selector.startswith(prefix) and len(selector) > len(prefix) for prefix in prefixes)


MAX_CALLABLE_CHARS = 256


def is_callable_name(text: str) -> bool:
    """Whether the text has the form package.module:function. Imports nothing."""
    module, colon, name = text.partition(":")
    parts = module.split(".")
    return len(text) <= MAX_CALLABLE_CHARS and bool(colon) and all(part.isidentifier() for part in [*parts, name])


def patterns_of(setting: str) -> tuple[str, ...]:
    """The patterns in a comma-separated setting; none allows every callable."""
    return tuple(pattern.strip() for pattern in setting.split(",") if pattern.strip())


def is_allowed(callable_name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern (`tasks:*`, `team.*:*`) matches; without patterns everything is allowed."""
    patterns = tuple(patterns)
    return not patterns or any(fnmatchcase(callable_name, pattern) for pattern in patterns)


VERSION = 1
MAX_TASK_NAME_CHARS = 256

_TOP_KEYS = ("version", "tasks", "pipes", "flow", "runtime")
_TASK_KEYS = ("callable", "use", "inputs", "outputs")
_FLOW_KEYS = ("graph", "defaults")
_FORBIDDEN = {
    "flows": "'flows' is not accepted: one file is one flow; write 'flow:' with 'graph:' below it",
    "discovery": "'discovery' is not accepted: a file may not choose what a worker imports by itself; "
    "name each task's 'callable' or 'use'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTask:
    """One task: a function of a module, or another task under a new name."""

    callable: str | None
    use: str | None
    inputs: Mapping[str, Any]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFile:
    """A valid flow.yaml. pyoco builds the flow from `graph_text` and `pipes`."""

    graph_text: str
    graph: FlowGraph
    defaults: Mapping[str, Any]
    tasks: Mapping[str, FlowTask]
    pipes: Mapping[str, str]
    expose_env: tuple[str, ...]


def read_flow_file(data: bytes, *, max_bytes: int | None = None, allowed: Iterable[str] = ()) -> FlowFile:
    """The flow in `data`; `InvalidRequest` or `WorkflowTooLarge` if it is invalid or calls what it may not.

    The size is checked before parsing. `allowed` are patterns of callables; none allows all.
    """
    if max_bytes is not None and len(data) > max_bytes:
        raise WorkflowTooLarge(f"flow.yaml has {len(data)} bytes; at most {max_bytes} are accepted")
    document = _document(data)
    top = _mapping(document, (), document.value, _TOP_KEYS)
    _check_version(document, top)
    tasks = _tasks(document, top.get("tasks", {}), tuple(allowed))
    pipes = _pipes(document, top.get("pipes"))
    flow = _mapping(document, ("flow",), top["flow"], _FLOW_KEYS) if "flow" in top else None
    if flow is None or not isinstance(flow.get("graph"), str):
        raise refusal("'flow:' with the text 'graph:' below it is missing", document.line_of("flow", "graph"))
    return FlowFile(
        graph_text=flow["graph"],
        graph=_graph(document, flow["graph"], pipes, tasks),
        defaults=_optional_mapping(document, ("flow", "defaults"), flow.get("defaults")),
        tasks=tasks,
        pipes=pipes,
        expose_env=_expose_env(document, top),
    )


def _document(data: bytes) -> Document:
    try:
        return read_yaml(data)
    except YamlFault as fault:
        raise refusal(fault.what, fault.line) from fault


def _mapping(document: Document, path: tuple[str, ...], value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """The mapping at `path`, all of whose keys are known."""
    where = ".".join(path) or "the file"
    if not isinstance(value, dict):
        raise refusal(f"{where} must be a mapping (key: value)", document.line_of(*path))
    for key in value:
        if key in known:
            continue
        line = document.line_of(*path, key)
        if not path and key in _FORBIDDEN:
            raise refusal(_FORBIDDEN[key], line)
        raise refusal(f"unknown key {shown(key)} in {where[:100]}; known are {', '.join(known)}", line)
    return value


def _optional_mapping(document: Document, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise refusal(f"{'.'.join(path)[:100]} must be a mapping (key: value)", document.line_of(*path))
    return value or {}


def _texts(document: Document, path: tuple[str, ...], value: Any) -> tuple[str, ...]:
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise refusal(f"{'.'.join(path)[:100]} must be a list of texts", document.line_of(*path))
    return tuple(value or ())


def _check_version(document: Document, top: Mapping[str, Any]) -> None:
    version = top.get("version", VERSION)
    if isinstance(version, bool) or version != VERSION:
        raise refusal(f"version {shown(version)} is not known; known is {VERSION}", document.line_of("version"))


def _tasks(document: Document, value: Any, allowed: tuple[str, ...]) -> dict[str, FlowTask]:
    if not isinstance(value, dict) or not value:
        raise refusal("tasks must be a mapping with at least one task", document.line_of("tasks"))
    return {name: _task(document, name, conf, allowed) for name, conf in value.items()}


def _task(document: Document, name: str, value: Any, allowed: tuple[str, ...]) -> FlowTask:
    path = ("tasks", name)
    if not 1 <= len(name) <= MAX_TASK_NAME_CHARS:
        raise refusal(f"the name of a task has 1 to {MAX_TASK_NAME_CHARS} characters", document.line_of(*path))
    conf = _mapping(document, path, value, _TASK_KEYS)
    calls, uses = (_reference(document, (*path, key), conf.get(key)) for key in ("callable", "use"))
    if (calls is None) == (uses is None):
        # pyoco would look up a task of the worker and change it for all later runs.
        raise refusal(f"task {shown(name)} needs either 'callable' or 'use'", document.line_of(*path))
    if calls is not None:
        _check_callable(document, path, calls, allowed)
    return FlowTask(
        callable=calls,
        use=uses,
        inputs=_inputs(document, (*path, "inputs"), conf.get("inputs")),
        outputs=_texts(document, (*path, "outputs"), conf.get("outputs")),
    )


def _inputs(document: Document, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    inputs = _optional_mapping(document, path, value)
    for name, content in inputs.items():
        if is_selector(content) and not is_well_formed(content):
            what = f"input {shown(name)} of task {shown(path[1])} is {shown(content)}, which refers to nothing"
            raise refusal(f"{what}; the forms are {FORMS}", document.line_of(*path))
    return inputs


def _reference(document: Document, path: tuple[str, ...], value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise refusal(f"{path[-1]} of task {shown(path[1])} must be a text", document.line_of(*path))
    return value


def _check_callable(document: Document, path: tuple[str, ...], name: str, allowed: tuple[str, ...]) -> None:
    line = document.line_of(*path, "callable")
    if not is_callable_name(name):
        raise refusal(
            f"task {shown(path[-1])}: the callable {shown(name)} is not of the form package.module:function "
            f"(at most {MAX_CALLABLE_CHARS} characters)",
            line,
        )
    if not is_allowed(name, allowed):
        raise refusal(
            f"task {shown(path[-1])}: the callable {shown(name)} is not among those that may be called here "
            f"(PYOCO_CALLABLE_ALLOW)",
            line,
        )


def _pipes(document: Document, value: Any) -> dict[str, str]:
    pipes = _optional_mapping(document, ("pipes",), value)
    for name, text in pipes.items():
        if not isinstance(text, str):
            raise refusal(f"pipe {shown(name)} must be a text", document.line_of("pipes", name))
    return pipes


def _graph(document: Document, text: str, pipes: Mapping[str, str], tasks: Mapping[str, FlowTask]) -> FlowGraph:
    try:
        return read_graph(text, pipes, tasks)
    except GraphFault as fault:
        line = document.line_of("flow", "graph")
        raise refusal(f"flow.graph, line {fault.line} of it: {fault.what}", line) from fault


def _expose_env(document: Document, top: Mapping[str, Any]) -> tuple[str, ...]:
    if "runtime" not in top:
        return ()
    runtime = _mapping(document, ("runtime",), top["runtime"], ("expose_env",))
    return _texts(document, ("runtime", "expose_env"), runtime.get("expose_env"))
