"""What there is to be judged when everything has settled: logs, snapshots, queue, answers, witness. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos import witness
from pyoco_server.execution.events import StoredCommit

LIST_LIMIT = 200

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One list as a gateway answered it."""

    gateway: str
    flow: str | None
    tag: str | None
    status: str | None
    items: Sequence[Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One run as a gateway answered it: None for a 404."""

    gateway: str
    body: Plain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything there is to be judged."""

    logs: Mapping[str, Sequence[StoredCommit]] = field(default_factory=dict)
    stored_at: Mapping[int, float] = field(default_factory=dict)
    """When the broker stored a commit, by its sequence: the event itself may have waited for the broker."""
    snapshots: Mapping[str, Plain] = field(default_factory=dict)
    shown: Mapping[str, Sequence[Shown]] = field(default_factory=dict)
    lists: Sequence[Listed] = ()
    jobs: Sequence[Plain] = ()
    witness: Mapping[str, Sequence[witness.Line]] = field(default_factory=dict)
