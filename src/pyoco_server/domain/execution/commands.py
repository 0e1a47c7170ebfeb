"""What somebody asks of an execution: imperative. `at` is when it was asked (unix seconds).

A holder's command carries the attempt it was given at its start; `None` means "the present one": what people send.
`from_outside` is set on what comes over the API: it may not do a worker's work for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.state import Failure, Request, StopHow, TimeoutReceipt, WheelUsed
from pyoco_server.domain.ids import InstanceId, NodeId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    at: float
    from_outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateExecution(_Command):
    """Ask for a piece of work; with a graph, its nodes are known from the start.

    `node_ids` are the nodes of a flow that an engine will run: they can be shown before their turn, and nothing else
    follows from them.
    """

    request: Request
    labels: tuple[str, ...] = ()
    graph: Graph | None = None
    node_ids: tuple[NodeId, ...] = ()
    workflow_yaml: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartExecution(_Command):
    """Take the execution: first (attempt 1) or over from a holder that was lost (attempt + 1).

    `return_to` is where its job can be given back by whoever finds the holder dead.
    `wheels` are those of the registry that the holder will run it with.
    """

    attempt: int | None = None
    worker_id: WorkerId | None = None
    instance_id: InstanceId | None = None
    return_to: str | None = None
    wheels: tuple[WheelUsed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelExecution(_Command):
    """Stop it. Accepted at any time before the end."""

    reason: str | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmCanceled(_Command):
    """Say that nobody works on it any more, and how that came about."""

    how: StopHow
    attempt: int | None = None
    delivered_at: float | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteExecution(_Command):
    """End it with success. With `instance_id` it is the verdict of the worker that holds it."""

    attempt: int | None = None
    instance_id: InstanceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailExecution(_Command):
    """End it without success. With `instance_id` it is the verdict of the worker that holds it.

    `timeout` is the receipt of a run that was stopped because its time was over; `last_lines` is what it wrote last.
    """

    error: Failure
    attempt: int | None = None
    instance_id: InstanceId | None = None
    timeout: TimeoutReceipt | None = None
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveExecution(_Command):
    """Take a finished execution out of the default lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTag(_Command):
    """Put a label on it."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTag(_Command):
    """Take a label off it."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareNodes(_Command):
    """Name the nodes that will be worked on, so that they can be shown before their turn."""

    node_ids: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeCommand(_Command):
    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode(_NodeCommand):
    """Take the node; a higher attempt begins it anew."""

    attempt: int | None = None
    worker_id: WorkerId | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNodeProgress(_NodeCommand):
    """Say how far the node is (0 to 100); renews the lease, for as long as at the start where nothing else is said."""

    attempt: int | None = None
    progress: float | None = None
    message: str | None = None
    lease_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutNodeWaiting(_NodeCommand):
    """Let the node wait for somebody who knows the key."""

    wait_key: str
    attempt: int | None = None
    prompt: Any = None
    deadline_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeNode(_NodeCommand):
    """Show the key and let the node go on; `answer` is what there was to say to the prompt."""

    resume_key: str
    attempt: int | None = None
    answer: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SucceedNode(_NodeCommand):
    """End the node with success."""

    attempt: int | None = None
    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailNode(_NodeCommand):
    """Give the node up."""

    error: Failure
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNode(_NodeCommand):
    """Say that the holder works on the node no more, because of the cancel."""

    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireNode(_NodeCommand):
    """Draw the consequence of a time that is over: of a wait, or of a lease that nobody may take any more."""

    attempt: int


AttemptStep = DeclareNodes | StartNode | ReportNodeProgress | SucceedNode | FailNode | CompleteExecution | FailExecution


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAttempt(_Command):
    """What a worker saw since its last report, in order, as one decision: a short run costs one commit, not ten.

    Steps that come too late (the node was ended by something stronger) change nothing; a worker that no longer holds
    the execution is refused as a whole.
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
