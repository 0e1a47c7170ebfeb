"""What a pyoco flow looks like: its tasks in order and what waits for what; it runs none of them."""

from __future__ import annotations

from pyoco.core.models import Flow

from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS

NAMES_CAP_BYTES = 1024 * 1024


def names_in_order(flow: Flow) -> tuple[str, ...]:
    """Each node after those it waits for, otherwise by name: `flow.tasks` is a set."""
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
        # A cycle is the engine's to refuse; here every name is told all the same.
        for name in free or sorted(waiting):
            del waiting[name]
            ordered.append(name)
    return tuple(ordered)


def edges_of(flow: Flow, *, most: int) -> tuple[tuple[str, str], ...]:
    """Which task comes after which, in the order of the tasks; ValueError when there are more than `most`.

    A flow with loops or branches has none: where it goes is decided while it runs.
    """
    if flow.has_control_flow():
        return ()
    # A task may be in several flows, and knows its neighbours in all of them.
    named = {task.name for task in flow.tasks}
    before = {task.name: sorted({one.name for one in task.dependencies} & named) for task in flow.tasks}
    if (count := sum(map(len, before.values()))) > most:
        raise ValueError(f"{count} edges are more than the {most} that can be told")
    return tuple((begin, end) for end in names_in_order(flow) for begin in before[end])
