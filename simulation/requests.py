"""Requests to a gateway, as the routes of `/executions` parse them, and their responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.ids import CommitId, NodeId, RunId
from pyoco_server.services.claims.claim_node import Claim
from pyoco_server.services.executions.service import NewExecution

ACCEPTED = (200, 202)
REFUSED = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request with its key; a repetition is the same object.

    `make` builds the command with the time at which a gateway receives the request. `attempt` is that of the holder.
    """

    key: str
    name: str
    run_id: RunId | None = None
    node_id: NodeId | None = None
    attempt: int | None = None
    worker_id: str | None = None
    make: Callable[[float], Command] | None = None
    new: NewExecution | None = None
    claim: Claim | None = None
    wait_sec: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that reached its client."""

    request: Request
    status: int
    body: bytes
    commit_ids: frozenset[CommitId]

    @property
    def accepted(self) -> bool:
        return self.status in ACCEPTED

    @property
    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = orjson.loads(self.body)
        return plain
