"""What there is to be judged when everything has settled: logs, snapshots, queue, answers, witness. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos import side_effects
from pyoco_server.domain.execution.events import StoredCommit

LIST_LIMIT = 200

Plain = Mapping[str, Any]
# Of what, and what is wrong with it.
Finding = tuple[str, str]


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
class ToldExecution:
    """An execution and all its events as a gateway told them."""

    gateway: str
    body: Plain
    events: Sequence[Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A line of a run's log, as a gateway showed it."""

    attempt: int
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a worker that syncs wheels says of itself at the end, and what the manifest of its folder says of its tags.

    Wheels are pairs of a name and a sum; what a worker says has no sums.
    """

    worker: str
    tags: tuple[str, ...]
    says: Plain
    environment: str | None
    wheels: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFolder:
    """What lies on the disk at the end: environments and whether each is complete, sums of wheels, unfinished files."""

    name: str
    environments: Mapping[str, bool]
    files: Sequence[str]
    unfinished: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything there is to be judged."""

    logs: Mapping[str, Sequence[StoredCommit]] = field(default_factory=dict)
    stored_at: Mapping[int, float] = field(default_factory=dict)
    """When the broker stored a commit, by its sequence: the event itself may have waited for the broker."""
    snapshots: Mapping[str, Plain] = field(default_factory=dict)
    shown: Mapping[str, Sequence[Shown]] = field(default_factory=dict)
    executions: Mapping[str, Sequence[ToldExecution]] = field(default_factory=dict)
    lists: Sequence[Listed] = ()
    jobs: Sequence[Plain] = ()
    witness: Mapping[str, Sequence[side_effects.Line]] = field(default_factory=dict)
    printed: Mapping[str, Sequence[Printed]] = field(default_factory=dict)
    registry: Mapping[str, Sequence[Plain]] = field(default_factory=dict)
    """The registered wheels, by the gateway that said so."""
    synced: Sequence[Synced] = ()
    folders: Sequence[SyncFolder] = ()
