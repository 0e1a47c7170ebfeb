"""The flows that a resolver declares (its `flows`, or `FLOWS` of its module), and the nodes and edges of a flow.

Runs user code, so only processes that run flows may call `announce_flows`. Errors of that code are returned as text.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from pyoco.core.models import Flow
from pyoco.dsl.nodes import SubFlowNode, SwitchNode, TaskNode

from pyoco_server.domain.fleet.flows import MAX_EDGES, MAX_FLOWS, AnnouncedFlow, FlowAnnouncement, bounded
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, MAX_NODES
from pyoco_server.trace import describe_error, encodable
from pyoco_server.worker.runner_process.flow_loader import Resolver

logger = logging.getLogger(__name__)

# Arguments that take what is left; the engine fills arguments by name only.
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

USER_CODE_RAISES = (Exception, SystemExit, KeyboardInterrupt)
# The limit for the whole announcement, once user code is loaded.
ANNOUNCE_LIMIT_SEC = 10.0
NAMES_CAP_BYTES = 1024 * 1024
RESULT_NAMES_CAP_BYTES = 128 * 1024
EDGES_CAP_BYTES = 128 * 1024


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def announce_flows(resolver: Resolver, names: Sequence[str] = (), *, build: bool = True) -> FlowAnnouncement:
    """The flows of these names, else those that the resolver declares; with `build` each of them is built.

    Without `build` only an already built flow has a graph: building one changes the tasks that it shares with others,
    which must not happen in a process that runs flows later.
    """
    known: Mapping[str, Any] = {}
    left_out: list[str] = []
    try:
        known = _declared(resolver)
    except USER_CODE_RAISES as error:
        left_out.append(_describe("the flows that the resolver declares", error))
    flows: list[AnnouncedFlow] = []
    for name in islice(names or known, MAX_FLOWS + 1):
        try:
            flow = _find(resolver if build else None, name, known.get(name))
        except USER_CODE_RAISES as error:
            left_out.append(_describe(f"flow {name!r}", error))
            continue
        try:
            flows.append(_announced(name, flow))
        except USER_CODE_RAISES as error:
            flows.append(AnnouncedFlow(name=name))
            left_out.append(_describe(f"graph of flow {name!r}", error))
    return bounded(flows, left_out, is_complete=len(flows) == len(names or known))


def log_left_out(announcement: FlowAnnouncement) -> None:
    if announcement.left_out:
        logger.warning("flows not announced, or not in full", extra={"reasons": list(announcement.left_out)})


def _declared(resolver: Resolver) -> Mapping[str, Any]:
    """The declared names, with the flows that are already built."""
    declared: Any = getattr(resolver, "flows", None)
    if callable(declared):
        declared = declared()
    if declared is None:
        declared = getattr(sys.modules.get(getattr(resolver, "__module__", "")), "FLOWS", None)
        if not isinstance(declared, Mapping | list | tuple | set | frozenset):
            return {}  # a common name, also used for other things
    if isinstance(declared, Mapping):
        return dict(islice(declared.items(), MAX_FLOWS + 1))
    if isinstance(declared, str | bytes) or not isinstance(declared, Iterable):
        raise TypeError(f"must be names of flows, or a mapping of them, not {type(declared).__name__}")
    return dict.fromkeys(islice(declared, MAX_FLOWS + 1))


def _find(resolver: Resolver | None, name: str, ready: object) -> Flow | None:
    """The flow of that name; None if it is not built and must not be built."""
    if isinstance(ready, Flow) or resolver is None:
        return ready if isinstance(ready, Flow) else None
    flow: object = resolver(name)
    if not isinstance(flow, Flow):
        raise TypeError(f"the resolver returned a {type(flow).__name__}, not a pyoco Flow")
    return flow


def _announced(name: str, flow: Flow | None) -> AnnouncedFlow:
    if flow is None:
        return AnnouncedFlow(name=name)
    nodes, edges, (params, takes_others) = names_in_order(flow), edges_of(flow, most=MAX_EDGES), params_of(flow)
    return AnnouncedFlow(name=name, nodes=nodes, edges=edges, params=params, takes_others=takes_others)


def _describe(what: str, error: BaseException) -> str:
    described = describe_error(error, hide_frames_of=__file__)
    return encodable(f"{what}: {described.error_type}: {described.message}")


def names_in_order(flow: Flow) -> tuple[str, ...]:
    """The nodes in topological order, otherwise by name: `flow.tasks` is a set."""
    waiting: dict[str, set[str]] = {t.name: {d.name for d in t.dependencies} for t in flow.tasks}
    if sum(len(name.encode()) for name in waiting) > NAMES_CAP_BYTES:
        raise ValueError(f"the names of the flow's tasks take more than {NAMES_CAP_BYTES} bytes")
    if len(waiting) > MAX_NODES:
        raise ValueError(f"the flow has {len(waiting)} tasks; at most {MAX_NODES} can be run")
    if misnamed := [name for name in waiting if not 1 <= len(name) <= MAX_NODE_ID_CHARS]:
        raise ValueError(f"the name of a task has 1 to {MAX_NODE_ID_CHARS} characters, not {len(misnamed[0])}")
    ordered: list[str] = []
    while waiting:
        free = sorted(name for name, before in waiting.items() if not before & waiting.keys())
        # The engine rejects cycles; here every name is listed all the same.
        for name in free or sorted(waiting):
            del waiting[name]
            ordered.append(name)
    return tuple(ordered)


def result_tasks(flow: Flow) -> tuple[str, ...]:
    """The tasks whose outputs are the result: those without successors; with loops or branches those of the last step.

    Names of tasks that did not run may be among them. None if the names are too large for the event that has them.
    """
    if flow.has_control_flow():
        found = _last_tasks(flow)
    else:
        sources = {before.name for task in flow.tasks for before in task.dependencies}
        found = tuple(name for name in names_in_order(flow) if name not in sources)
    return found if sum(len(name.encode()) for name in found) <= RESULT_NAMES_CAP_BYTES else ()


def _last_tasks(flow: Flow) -> tuple[str, ...]:
    found: dict[str, None] = {}
    pending: list[Any] = [flow.build_program()]
    while pending:
        node = pending.pop()
        if isinstance(node, TaskNode):
            found[node.task.name] = None
        elif isinstance(node, SwitchNode):
            pending += [case.target for case in reversed(node.cases)]
        elif isinstance(node, SubFlowNode):
            pending += node.steps[-1:]
        elif hasattr(node, "body"):
            pending.append(node.body)
    return tuple(found)


def params_of(flow: Flow) -> tuple[tuple[tuple[str, bool], ...], bool]:
    """The parameters that its tasks name, whether each is required, and whether others may be read.

    A task with `ctx` may read any, and so may the expressions of loops and branches. An argument with the name of a
    task is its result, and one with a configured input needs no parameter.
    """
    found: dict[str, bool] = {}
    takes_others = flow.has_control_flow()
    tasks = sorted(flow.tasks, key=lambda task: str(task.name))
    given = {task.name for task in tasks} | {
        path.split(".")[1] for task in tasks for path in task.outputs if "." in path
    }
    for task in tasks:
        try:
            arguments = inspect.signature(task.func).parameters
        except (TypeError, ValueError):
            takes_others = True
            continue
        takes_others = takes_others or "ctx" in arguments or bool(task.inputs)
        for name, argument in arguments.items():
            if name != "ctx" and name not in task.inputs and name not in given and argument.kind not in _COLLECTING:
                # In a flow with branches the task may not run.
                is_required = argument.default is argument.empty and not flow.has_control_flow()
                found[name] = found.get(name, False) or is_required
    return tuple(found.items()), takes_others


def edges_of(flow: Flow, *, most: int) -> tuple[tuple[str, str], ...]:
    """The edges in the order of the tasks; ValueError above `most`.

    A flow with loops or branches has none: its path is decided while it runs.
    """
    if flow.has_control_flow():
        return ()
    # A task may be in several flows and has its neighbours in all of them.
    named = {task.name for task in flow.tasks}
    before = {task.name: sorted({one.name for one in task.dependencies} & named) for task in flow.tasks}
    if (count := sum(map(len, before.values()))) > most:
        raise ValueError(f"{count} edges are more than the {most} that can be announced")
    return tuple((begin, end) for end in names_in_order(flow) for begin in before[end])


def storable_edges(flow: Flow) -> tuple[tuple[str, str], ...]:
    """The edges, to be stored with a run; none if they are too many or too large for the event that has them."""
    try:
        edges = edges_of(flow, most=MAX_EDGES)
    except ValueError:
        return ()
    return edges if sum(len(begin.encode()) for begin, _ in edges) <= EDGES_CAP_BYTES else ()
