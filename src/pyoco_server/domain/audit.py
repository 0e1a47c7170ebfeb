"""The audit trail: who did what. One record per request that changes something; never params, results or secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from pyoco_server.domain.execution.events import Actor, Commit, ExecutionCreated, NodeEvent
from pyoco_server.domain.ids import RunId

USER = "user"
ANONYMOUS = "anonymous"
RUN = "run"
# Stored names: they outlive the classes of commands.
ACTIONS: Mapping[str, str] = {
    "CreateExecution": "run.create",
    "StartExecution": "run.start",
    "CancelExecution": "run.cancel",
    "ConfirmCanceled": "run.confirm_cancel",
    "CompleteExecution": "run.complete",
    "FailExecution": "run.fail",
    "ArchiveExecution": "run.archive",
    "AddTag": "run.tag_add",
    "RemoveTag": "run.tag_remove",
    "MarkNodeReady": "node.ready",
    "StartNode": "node.start",
    "PutNodeWaiting": "node.wait",
    "ResumeNode": "node.resume",
    "SucceedNode": "node.succeed",
    "FailNode": "node.fail",
    "StopNode": "node.stop",
}
# Renewals of a lease, many per node: they change nothing that anybody asks about later.
LEFT_OUT = frozenset({"ReportNodeProgress"})

Outcome = Literal["made", "attempted", "void"]


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who did what, when, from where and by which request.

    `key` is the same for every record of one request and resource, of which the trail shows the first. `attempted`: the
    process that made the change did not live to say whether it was made. `void` was not made, and is not shown.
    """

    key: str
    at: float
    action: str
    actor: Actor
    resource_kind: str
    resource_id: str
    tenant_id: str | None = None
    address: str | None = None
    request_id: str | None = None
    correlation_id: str | None = None
    outcome: Outcome = "made"
    detail: Mapping[str, Any] = {}

    @property
    def actor_id(self) -> str:
        return self.actor.id or ANONYMOUS


class AuditPlace(NamedTuple):
    """The place of a record in the trail."""

    at: float
    key: str


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records to show; None means any. `until` is exclusive."""

    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    request_id: str | None = None
    since: float | None = None
    until: float | None = None

    def fits(self, record: AuditRecord) -> bool:
        return (
            self.actor in (None, record.actor_id)
            and self.action in (None, record.action)
            and self.resource in (None, record.resource_id)
            and self.request_id in (None, record.request_id)
            and (self.since is None or record.at >= self.since)
            and (self.until is None or record.at < self.until)
        )


def record_of(run_id: RunId, commit: Commit) -> AuditRecord | None:
    """The record of a commit; None for what workers and gateways do by themselves."""
    if commit.actor.kind != USER or commit.command in LEFT_OUT:
        return None
    created = next((event for event in commit.events if isinstance(event, ExecutionCreated)), None)
    return AuditRecord(
        key=_key(run_id, commit),
        at=commit.occurred_at,
        action=ACTIONS.get(commit.command, f"run.{commit.command}"),
        actor=commit.actor,
        resource_kind=RUN,
        resource_id=run_id,
        tenant_id=None if created is None else created.request.tenant_id,
        address=commit.address,
        request_id=commit.request_id,
        correlation_id=commit.correlation_id,
        detail=_detail(commit, created),
    )


def _key(run_id: RunId, commit: Commit) -> str:
    """The commit's own id, but for a request that creates and starts a run: it has one record.

    An id that a caller may choose is part of the key only there, so that a repeated id hides no change.
    """
    if commit.command in ("CreateExecution", "StartExecution") and commit.request_id is not None:
        return f"{run_id}.{commit.request_id}.{commit.actor.id or ANONYMOUS}"
    return commit.commit_id


def _detail(commit: Commit, created: ExecutionCreated | None) -> dict[str, Any]:
    if created is not None:
        request = created.request
        facts = {"flow": request.flow_name, "rerun_of": request.rerun_of, "replay_of": request.replay_of}
        return {name: value for name, value in facts.items() if value is not None}
    event = commit.events[0] if commit.events else None
    if isinstance(event, NodeEvent):
        return {"node": event.node_id}
    tag = getattr(event, "tag", None)
    return {} if tag is None else {"tag": tag}
