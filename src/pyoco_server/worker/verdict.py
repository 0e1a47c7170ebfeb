"""What a runner reported → commands to the core: pure translation, with the words a person reads when it went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from pyoco_server.errors import ExecutionFailedError, FlowNotFound
from pyoco_server.execution.commands import AttemptStep, DeclareNodes, FailNode, StartNode, SucceedNode
from pyoco_server.execution.ids import NodeId, WorkerId
from pyoco_server.execution.state import Failure
from pyoco_server.worker.steps import Died, Ended, NodeBegan, NodeFailed, NodesDeclared, NodeSucceeded, Step


def commands_of(steps: Iterable[Step], base: Mapping[NodeId, int], worker_id: WorkerId) -> tuple[AttemptStep, ...]:
    """Steps as node commands. `base` has the attempts each node had before this worker began: ours count on from it."""
    return tuple(_command(step, base, worker_id) for step in steps)


def _command(step: Step, base: Mapping[NodeId, int], worker_id: WorkerId) -> AttemptStep:
    match step:
        case NodesDeclared():
            return DeclareNodes(at=step.at, node_ids=tuple(NodeId(name) for name in step.nodes))
        case NodeBegan():
            node_id = NodeId(step.node)
            return StartNode(at=step.at, node_id=node_id, attempt=base.get(node_id, 0) + step.nth, worker_id=worker_id)
        case NodeSucceeded():
            node_id = NodeId(step.node)
            attempt = base.get(node_id, 0) + step.nth
            return SucceedNode(at=step.at, node_id=node_id, attempt=attempt, output=step.output)
        case NodeFailed():
            node_id = NodeId(step.node)
            failure = Failure(code=step.error_type, message=step.message, traceback=step.traceback)
            return FailNode(at=step.at, node_id=node_id, attempt=base.get(node_id, 0) + step.nth, error=failure)
        case _:
            assert_never(step)


def failure_of(end: Ended | Died, flow_name: str) -> Failure:
    """Why the run failed, for its snapshot and its event."""
    if isinstance(end, Died):
        return Failure(
            code=ExecutionFailedError.err_id, message=_death(end), traceback="\n".join(end.last_lines) or None
        )
    if end.how == "flow_not_found":
        message = f"no flow named {flow_name!r} on this worker"
        return Failure(code=FlowNotFound.err_id, message=f"{FlowNotFound.message()}: {message}")
    kind, message = end.error_type or "Error", end.message or ""
    return Failure(
        code=ExecutionFailedError.err_id, message=f"{kind}: {message}" if message else kind, traceback=end.traceback
    )


def _death(end: Died) -> str:
    if end.signal_name is not None:
        why = f"the runner process was ended by {end.signal_name}"
    elif end.exit_code is not None:
        why = f"the runner process exited with code {end.exit_code} in the middle of the run"
    else:
        why = "the runner process was lost"
    return f"{why}; its last line was: {end.last_lines[-1]}" if end.last_lines else why
