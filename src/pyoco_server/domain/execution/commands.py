"""The commands to an execution: imperative. `at` is when the command was given (unix seconds).

A holder's command carries the attempt of its start; `None` means the current one, as people send it. `from_outside` is
set on commands from the API: they may not report on behalf of a worker.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.domain.execution.graph import Edge, Graph
from pyoco_server.domain.execution.state import Failure, Request, StopHow, TimeoutReceipt, WheelUsed
from pyoco_server.domain.ids import InstanceId, NodeId, WorkerId


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    from_outside: bool = False


class CreateExecution(_Command, frozen=True, kw_only=True):
    """Request an execution; with a graph, its nodes are known from the start.

    `node_ids` are the nodes of a flow that an engine will run, and `edges` those between them. They are only shown
    before they start. `node_inputs` is what each of them gets, in a form of its owner.
    """

    request: Request
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    node_ids: tuple[NodeId, ...] = ()
    edges: tuple[Edge, ...] = ()
    workflow_yaml: str | None = None
    node_inputs: bytes | None = None


class StartExecution(_Command, frozen=True, kw_only=True):
    """Take the execution: first (attempt 1), or over from a lost holder (attempt + 1).

    `return_to` is the subject on which the job is returned to the queue when the holder is found dead.
    `wheels` are the registry's wheels that the holder runs it with, `code_version` names the sources of its flows.
    """

    attempt: int | None = None
    worker_id: WorkerId | None = None
    instance_id: InstanceId | None = None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()
    code_version: str | None = None


class CancelExecution(_Command, frozen=True, kw_only=True):
    """Request a cancel. Accepted at any time before the end."""

    reason: str | None = None
    requested_by: str | None = None


class ConfirmCanceled(_Command, frozen=True, kw_only=True):
    """Confirm that all work on the execution has stopped, and how."""

    how: StopHow
    attempt: int | None = None
    delivered_at: float | None = None
    stopped_at: float | None = None


class CompleteExecution(_Command, frozen=True, kw_only=True):
    """End the execution with success. With `instance_id` it is the verdict of the worker that holds it.

    `result_nodes`: whose outputs are the result, as far as the worker knows.
    """

    attempt: int | None = None
    instance_id: InstanceId | None = None
    result_nodes: tuple[NodeId, ...] = ()


class FailExecution(_Command, frozen=True, kw_only=True):
    """End the execution without success. With `instance_id` it is the verdict of the worker that holds it.

    `timeout` is the receipt of a run that reached its time limit; `last_lines` is the end of its output.
    """

    error: Failure
    attempt: int | None = None
    instance_id: InstanceId | None = None
    timeout: TimeoutReceipt | None = None
    last_lines: tuple[str, ...] = ()


class ArchiveExecution(_Command, frozen=True, kw_only=True):
    """Remove a finished execution from the default lists."""


class AddTag(_Command, frozen=True, kw_only=True):
    tag: str


class RemoveTag(_Command, frozen=True, kw_only=True):
    tag: str


class DeclareNodes(_Command, frozen=True, kw_only=True):
    """Name the nodes that will run and the edges between them, so that they can be shown before they start."""

    node_ids: tuple[NodeId, ...]
    edges: tuple[Edge, ...] = ()


class _NodeCommand(_Command, frozen=True, kw_only=True):
    node_id: NodeId


class StartNode(_NodeCommand, frozen=True, kw_only=True):
    """Take the node; a higher attempt restarts it."""

    attempt: int | None = None
    worker_id: WorkerId | None = None
    lease_until: float | None = None


class ReportNodeProgress(_NodeCommand, frozen=True, kw_only=True):
    """Report progress (0 to 100) and renew the lease, by default for its original duration."""

    attempt: int | None = None
    progress: float | None = None
    message: str | None = None
    lease_until: float | None = None


class PutNodeWaiting(_NodeCommand, frozen=True, kw_only=True):
    """Let the node wait until it is resumed with the key."""

    wait_key: str
    attempt: int | None = None
    prompt: Any = None
    deadline_at: float | None = None


class ResumeNode(_NodeCommand, frozen=True, kw_only=True):
    """Resume a waiting node with its key; `answer` is the reply to the prompt."""

    resume_key: str
    attempt: int | None = None
    answer: Any = None


class SucceedNode(_NodeCommand, frozen=True, kw_only=True):
    attempt: int | None = None
    output: Any = None


class FailNode(_NodeCommand, frozen=True, kw_only=True):
    error: Failure
    attempt: int | None = None


class StopNode(_NodeCommand, frozen=True, kw_only=True):
    """Report that the holder has stopped working on the node because of the cancel."""

    attempt: int | None = None


class ExpireNode(_NodeCommand, frozen=True, kw_only=True):
    """Fail a node whose wait has timed out, or whose last permitted lease has expired."""

    attempt: int


AttemptStep = DeclareNodes | StartNode | ReportNodeProgress | SucceedNode | FailNode | CompleteExecution | FailExecution


class RecordAttempt(_Command, frozen=True, kw_only=True):
    """A worker's report since its last one, in order, as one decision: a short run costs one commit, not ten.

    Steps that arrive too late (a stronger event ended the node) change nothing. A worker that no longer holds the
    execution is rejected as a whole.
    """

    attempt: int
    instance_id: InstanceId
    steps: tuple[AttemptStep, ...]


Command = (
    CreateExecution
    | StartExecution
    | CancelExecution
    | ConfirmCanceled
    | CompleteExecution
    | FailExecution
    | ArchiveExecution
    | AddTag
    | RemoveTag
    | DeclareNodes
    | StartNode
    | ReportNodeProgress
    | PutNodeWaiting
    | ResumeNode
    | SucceedNode
    | FailNode
    | StopNode
    | ExpireNode
    | RecordAttempt
)
