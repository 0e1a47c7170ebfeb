"""A flow.yaml, checked from top to bottom: size, YAML, keys, graph. A file that passes can run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pyoco_server.domain.strict_yaml import Document, YamlFault, read_yaml, shown
from pyoco_server.errors import InvalidRequest, WorkflowTooLarge

VERSION = 1
MAX_TASK_NAME_CHARS = 256
MAX_CALLABLE_CHARS = 256
SELECTOR_FORMS = "$node.<node>.output, $ctx.params.<key> and $env.<NAME>; no other text may begin with $"

# Python's own modules start processes and evaluate texts. The list is Python's; these come with it, or with us, and do
# the same: yaml.unsafe_load, anyio.run_process, an editor of click.
_STANDARD_MODULES = sys.stdlib_module_names | {
    "__main__",
    "_distutils_hack",
    "anyio",
    "cffi",
    "click",
    "pip",
    "pkg_resources",
    "pygments",
    "pyoco_server",
    "setuptools",
    "starlette",
    "typer",
    "uvicorn",
    "yaml",
}
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
    """One task: a function of a module, or another task under a new name. pyoco's loader reads these attributes."""

    callable: str | None
    use: str | None
    inputs: Mapping[str, Any]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    """The nodes of a graph in order, the tasks that they run, and its edges: none with loops or branches."""

    nodes: tuple[str, ...]
    tasks: frozenset[str]
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFile:
    """A valid flow.yaml. pyoco builds the flow from `graph_text` and `pipes`."""

    graph_text: str
    graph: FlowGraph
    defaults: Mapping[str, Any]
    tasks: Mapping[str, FlowTask]
    pipes: Mapping[str, str]


class GraphFault(Exception):
    """What is wrong with a graph, in which pipe, and on which line of its text, if known."""

    def __init__(self, what: str, *, pipe: str | None = None, line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.pipe = pipe
        self.line = line


# The text of a graph, its pipes and the names of the tasks → the graph; raises GraphFault.
GraphReader = Callable[[str, Mapping[str, str], Collection[str]], FlowGraph]


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


def is_callable_name(text: str) -> bool:
    """Whether the text has the form package.module:function. Imports nothing."""
    module, colon, name = text.partition(":")
    parts = module.split(".")
    return len(text) <= MAX_CALLABLE_CHARS and bool(colon) and all(part.isidentifier() for part in [*parts, name])


def is_standard(path: str) -> bool:
    """Whether the path of a module, or of a callable, begins with a module of Python itself."""
    return path.partition(":")[0].partition(".")[0] in _STANDARD_MODULES


def is_named(name: str, patterns: Collection[str]) -> bool:
    """Whether a pattern that names a module of Python itself matches: `*` and `tasks:*` do not."""
    return any(is_standard(pattern) and fnmatchcase(name, pattern) for pattern in patterns)


def patterns_of(setting: str) -> tuple[str, ...]:
    """The patterns in a comma-separated setting; none allows every callable but those of Python itself."""
    return tuple(pattern.strip() for pattern in setting.split(",") if pattern.strip())


def parse_flow_file(
    data: bytes, read_graph: GraphReader, *, max_bytes: int | None = None, allowed: Collection[str] = ()
) -> FlowFile:
    """The flow in `data`; `InvalidRequest` or `WorkflowTooLarge` if it is invalid or calls what it may not.

    The size is checked before parsing. `allowed` are patterns of callables (`tasks:*`); none allows all but
    those of Python itself.
    """
    if max_bytes is not None and len(data) > max_bytes:
        raise WorkflowTooLarge(f"flow.yaml has {len(data)} bytes; at most {max_bytes} are accepted")
    try:
        document = read_yaml(data)
    except YamlFault as fault:
        raise _refusal(fault.what, fault.line) from fault
    return _Reader(document, allowed).flow_file(read_graph)


def _refusal(what: str, line: int | None) -> InvalidRequest:
    place = "flow.yaml" if line is None else f"flow.yaml, line {line}"
    return InvalidRequest(f"{place}: {what}", line=line)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the values of a document; a path is the keys that lead to a value."""

    document: Document
    allowed: Collection[str]

    def flow_file(self, read_graph: GraphReader) -> FlowFile:
        top = self._mapping((), self.document.value, _TOP_KEYS)
        version = top.get("version", VERSION)
        if isinstance(version, bool) or version != VERSION:
            raise self._refusal(f"version {shown(version)} is not known; known is {VERSION}", "version")
        tasks, pipes = self._tasks(top.get("tasks")), self._pipes(top.get("pipes"))
        flow = self._mapping(("flow",), top["flow"], _FLOW_KEYS) if "flow" in top else {}
        if not isinstance(flow.get("graph"), str):
            raise self._refusal("'flow:' with the text 'graph:' below it is missing", "flow", "graph")
        runtime = self._mapping(("runtime",), top["runtime"], ("expose_env",)) if "runtime" in top else {}
        self._texts(("runtime", "expose_env"), runtime.get("expose_env"))
        return FlowFile(
            graph_text=flow["graph"],
            graph=self._graph(read_graph, flow["graph"], pipes, tasks),
            defaults=self._mapping(("flow", "defaults"), {} if flow.get("defaults") is None else flow["defaults"]),
            tasks=tasks,
            pipes=pipes,
        )

    def _refusal(self, what: str, *path: str) -> InvalidRequest:
        return _refusal(what, self.document.line_of(*path))

    def _mapping(self, path: tuple[str, ...], value: Any, known: tuple[str, ...] | None = None) -> dict[str, Any]:
        """The mapping at `path`; with `known`, it may have no other keys."""
        where = ".".join(path)[:100] or "the file"
        if not isinstance(value, dict):
            raise self._refusal(f"{where} must be a mapping (key: value)", *path)
        unknown = [key for key in value if known is not None and key not in known]
        if unknown:
            what = f"unknown key {shown(unknown[0])} in {where}; known are {', '.join(known or ())}"
            raise self._refusal(what if path else _FORBIDDEN.get(unknown[0], what), *path, unknown[0])
        return value

    def _texts(self, path: tuple[str, ...], value: Any) -> tuple[str, ...]:
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise self._refusal(f"{'.'.join(path)[:100]} must be a list of texts", *path)
        return tuple(value or ())

    def _tasks(self, value: Any) -> dict[str, FlowTask]:
        if not isinstance(value, dict) or not value:
            raise self._refusal("tasks must be a mapping with at least one task", "tasks")
        return {name: self._task(name, conf) for name, conf in value.items()}

    def _task(self, name: str, value: Any) -> FlowTask:
        path = ("tasks", name)
        if not 1 <= len(name) <= MAX_TASK_NAME_CHARS:
            raise self._refusal(f"the name of a task has 1 to {MAX_TASK_NAME_CHARS} characters", *path)
        conf = self._mapping(path, value, _TASK_KEYS)
        for key in ("callable", "use"):
            if conf.get(key) is not None and (not isinstance(conf[key], str) or not conf[key]):
                raise self._refusal(f"{key} of task {shown(name)} must be a text", *path, key)
        if (conf.get("callable") is None) == (conf.get("use") is None):
            # pyoco would look up a task of the worker and change it for all later runs.
            raise self._refusal(f"task {shown(name)} needs either 'callable' or 'use'", *path)
        if conf.get("callable") is not None:
            self._check_callable(path, conf["callable"])
        return FlowTask(
            callable=conf.get("callable"),
            use=conf.get("use"),
            inputs=self._inputs((*path, "inputs"), conf.get("inputs")),
            outputs=self._texts((*path, "outputs"), conf.get("outputs")),
        )

    def _check_callable(self, path: tuple[str, ...], name: str) -> None:
        fault = None
        if not is_callable_name(name):
            fault = f"is not of the form package.module:function (at most {MAX_CALLABLE_CHARS} characters)"
        elif is_standard(name):
            if not is_named(name, self.allowed):
                fault = (
                    "is of Python itself or of this server; a file may call it only if PYOCO_CALLABLE_ALLOW names it"
                )
        elif self.allowed and not any(fnmatchcase(name, pattern) for pattern in self.allowed):
            fault = "is not among those that may be called here (PYOCO_CALLABLE_ALLOW)"
        if fault is not None:
            raise self._refusal(f"task {shown(path[-1])}: the callable {shown(name)} {fault}", *path, "callable")

    def _inputs(self, path: tuple[str, ...], value: Any) -> dict[str, Any]:
        inputs = self._mapping(path, {} if value is None else value)
        for name, content in inputs.items():
            if is_selector(content) and not is_well_formed(content):
                what = f"input {shown(name)} of task {shown(path[1])} is {shown(content)}, which refers to nothing"
                raise self._refusal(f"{what}; the forms are {SELECTOR_FORMS}", *path, name)
        return inputs

    def _pipes(self, value: Any) -> dict[str, str]:
        pipes = self._mapping(("pipes",), {} if value is None else value)
        for name, text in pipes.items():
            if not isinstance(text, str):
                raise self._refusal(f"pipe {shown(name)} must be a text", "pipes", name)
        return pipes

    def _graph(self, read_graph: GraphReader, text: str, pipes: Mapping[str, str], tasks: Collection[str]) -> FlowGraph:
        try:
            return read_graph(text, pipes, tasks)
        except GraphFault as fault:
            path = ("flow", "graph") if fault.pipe is None else ("pipes", fault.pipe)
            line = "" if fault.line is None else f", line {fault.line} of it"
            raise self._refusal(f"{'.'.join(path)[:100]}{line}: {fault.what}", *path) from fault
