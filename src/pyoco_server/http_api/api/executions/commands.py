"""The commands that `/executions` takes, as a table: path, body, scope, and what is asked of the core by it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.commands import (
    ArchiveExecution,
    Command,
    CompleteExecution,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.ids import NodeId, WorkerId, is_path_name
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas
from pyoco_server.http_api.api.executions.translate import MAX_PROMPT_BYTES, MAX_VALUE_BYTES, bounded, failure

Make = Callable[[Any, NodeId, float], Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One command: `make` gets the body in its shape, the node in the path, and the time."""

    path: str
    name: str
    body: type[schemas._Body]
    scope: Scope
    make: Make
    about: str
    body_required: bool = False

    @property
    def is_about_a_node(self) -> bool:
        return "{nodeId}" in self.path


def node_id_in(text: str) -> NodeId:
    """The id of a node as it stands in a path."""
    if not is_path_name(text):
        raise InvalidRequest("nodeId must be 1 to 128 printable characters without a slash")
    return NodeId(text)


def _archive(body: schemas.EmptyBody, _: NodeId, at: float) -> Command:
    return ArchiveExecution(at=at, from_outside=True)


def _complete(body: schemas.EmptyBody, _: NodeId, at: float) -> Command:
    return CompleteExecution(at=at, from_outside=True)


def _fail(body: schemas.FailBody, _: NodeId, at: float) -> Command:
    return FailExecution(at=at, error=failure(body.error), from_outside=True)


def _start_node(body: schemas.StartNodeBody, node_id: NodeId, at: float) -> Command:
    return StartNode(
        at=at,
        node_id=node_id,
        attempt=body.attempt,
        worker_id=None if body.worker_id is None else WorkerId(body.worker_id),
        lease_until=None if body.lease_sec is None else at + body.lease_sec,
        from_outside=True,
    )


def _progress(body: schemas.ProgressBody, node_id: NodeId, at: float) -> Command:
    return ReportNodeProgress(
        at=at,
        node_id=node_id,
        attempt=body.attempt,
        progress=body.progress,
        message=body.message,
        lease_until=None if body.lease_sec is None else at + body.lease_sec,
        from_outside=True,
    )


def _wait(body: schemas.WaitBody, node_id: NodeId, at: float) -> Command:
    return PutNodeWaiting(
        at=at,
        node_id=node_id,
        attempt=body.attempt,
        wait_key=body.wait_key,
        prompt=bounded(body.prompt, MAX_PROMPT_BYTES, "prompt"),
        deadline_at=None if body.timeout_sec is None else at + body.timeout_sec,
        from_outside=True,
    )


def _resume(body: schemas.ResumeBody, node_id: NodeId, at: float) -> Command:
    return ResumeNode(
        at=at,
        node_id=node_id,
        attempt=body.attempt,
        resume_key=body.resume_key,
        answer=bounded(body.answer, MAX_VALUE_BYTES, "answer"),
        from_outside=True,
    )


def _succeed(body: schemas.SucceedBody, node_id: NodeId, at: float) -> Command:
    output = bounded(body.output, MAX_VALUE_BYTES, "output")
    return SucceedNode(at=at, node_id=node_id, attempt=body.attempt, output=output, from_outside=True)


def _fail_node(body: schemas.FailNodeBody, node_id: NodeId, at: float) -> Command:
    return FailNode(at=at, node_id=node_id, attempt=body.attempt, error=failure(body.error), from_outside=True)


_NODE = "/{executionId}/nodes/{nodeId}"

SPECS = (
    Spec(
        path="/{executionId}/archive",
        name="ArchiveExecution",
        body=schemas.EmptyBody,
        scope=Scope.RUNS_WRITE,
        make=_archive,
        about="Take a finished execution out of the default lists; it can still be read by its id.",
    ),
    Spec(
        path="/{executionId}/complete",
        name="CompleteExecution",
        body=schemas.EmptyBody,
        scope=Scope.NODES_WORK,
        make=_complete,
        about="End an open graph with success. A known graph is complete by itself.",
    ),
    Spec(
        path="/{executionId}/fail",
        name="FailExecution",
        body=schemas.FailBody,
        scope=Scope.NODES_WORK,
        make=_fail,
        about="End an execution, whose nodes are taken one by one, without success.",
        body_required=True,
    ),
    Spec(
        path=f"{_NODE}/start",
        name="StartNode",
        body=schemas.StartNodeBody,
        scope=Scope.NODES_WORK,
        make=_start_node,
        about="Take a node. In an open graph it need not have been heard of before.",
    ),
    Spec(
        path=f"{_NODE}/progress",
        name="ReportNodeProgress",
        body=schemas.ProgressBody,
        scope=Scope.NODES_WORK,
        make=_progress,
        about="Say how far the node is. Renews its lease.",
    ),
    Spec(
        path=f"{_NODE}/wait",
        name="PutNodeWaiting",
        body=schemas.WaitBody,
        scope=Scope.NODES_WORK,
        make=_wait,
        about="Let the node wait for somebody: it is then among `GET /waits`.",
        body_required=True,
    ),
    Spec(
        path=f"{_NODE}/resume",
        name="ResumeNode",
        body=schemas.ResumeBody,
        scope=Scope.NODES_WORK,
        make=_resume,
        about="Show the key of a waiting node and let it go on. With a wait node that is its success.",
        body_required=True,
    ),
    Spec(
        path=f"{_NODE}/success",
        name="SucceedNode",
        body=schemas.SucceedBody,
        scope=Scope.NODES_WORK,
        make=_succeed,
        about="End a node with success. In a known graph what follows is ready with the same event.",
    ),
    Spec(
        path=f"{_NODE}/fail",
        name="FailNode",
        body=schemas.FailNodeBody,
        scope=Scope.NODES_WORK,
        make=_fail_node,
        about="Give a node up; a waiting one too. A known graph fails with it.",
        body_required=True,
    ),
)
