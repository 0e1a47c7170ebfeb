"""The commands of `/executions` as a table: path, body, scope and the command of the core."""

from __future__ import annotations

from dataclasses import dataclass

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
from pyoco_server.domain.execution.state import Failure
from pyoco_server.domain.ids import NodeId, is_path_name
from pyoco_server.errors import InvalidRequest
from pyoco_server.http_api.api.executions import schemas
from pyoco_server.http_api.protocol.request_parsing import bounded_json

# Values of the caller that are stored with the execution.
_LIMITS = {"prompt": 16 * 1024, "answer": 64 * 1024, "output": 64 * 1024}
# Durations in a body become times of the command.
_TIMES = {"lease_sec": "lease_until", "timeout_sec": "deadline_at"}
_NODE = "/{executionId}/nodes/{nodeId}"


@dataclass(frozen=True, slots=True)
class Spec:
    """One command; the fields of `body` are those of the command but for `_TIMES`."""

    path: str
    command: type[Command]
    body: type[schemas.CommandBody]
    about: str
    scope: Scope = Scope.NODES_WORK

    @property
    def name(self) -> str:
        return self.command.__name__

    def build(self, body: schemas.CommandBody, node_id: str | None, at: float) -> Command:
        fields = {name: getattr(body, name) for name in self.body.model_fields}
        for name, max_bytes in _LIMITS.items():
            bounded_json(fields.get(name), max_bytes, name)
        for name, time in _TIMES.items():
            if name in fields:
                duration_sec = fields.pop(name)
                fields[time] = None if duration_sec is None else at + duration_sec
        if "error" in fields:
            fields["error"] = Failure(code=fields["error"].code, message=fields["error"].message)
        if node_id is not None:
            if not is_path_name(node_id):
                raise InvalidRequest("nodeId must be 1 to 128 printable characters without a slash")
            fields["node_id"] = NodeId(node_id)
        return self.command(at=at, from_outside=True, **fields)


SPECS = (
    Spec(
        "/{executionId}/archive",
        ArchiveExecution,
        schemas.EmptyBody,
        "Take a finished execution out of the default lists; it can still be read by its id.",
        Scope.RUNS_WRITE,
    ),
    Spec(
        "/{executionId}/complete",
        CompleteExecution,
        schemas.EmptyBody,
        "End an open graph with success. A known graph completes by itself.",
    ),
    Spec(
        "/{executionId}/fail", FailExecution, schemas.FailBody, "Fail an execution whose nodes are claimed one by one."
    ),
    Spec(
        f"{_NODE}/start", StartNode, schemas.StartNodeBody, "Start a node. In an open graph it need not exist before."
    ),
    Spec(
        f"{_NODE}/progress",
        ReportNodeProgress,
        schemas.ProgressBody,
        "Report the progress of a node. Renews its lease.",
    ),
    Spec(
        f"{_NODE}/wait",
        PutNodeWaiting,
        schemas.WaitBody,
        "Let the node wait for a decision: it is then listed by `GET /waits`.",
    ),
    Spec(
        f"{_NODE}/resume",
        ResumeNode,
        schemas.ResumeBody,
        "Resume a waiting node by its key. A wait node succeeds with it.",
    ),
    Spec(
        f"{_NODE}/success",
        SucceedNode,
        schemas.SucceedBody,
        "Complete a node. In a known graph the following nodes become ready with the same event.",
    ),
    Spec(
        f"{_NODE}/fail", FailNode, schemas.FailNodeBody, "Fail a node, also a waiting one. A known graph fails with it."
    ),
)
