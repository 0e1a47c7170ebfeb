"""The evidence that is checked once the system is idle: logs, snapshots, queue, responses, side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.journal import Excerpt, Journal
from chaos.side_effects import SideEffect
from pyoco_server.domain.execution.events import StoredCommit

LIST_LIMIT = 200

Plain = Mapping[str, Any]
# Subject and description of a violation.
Finding = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list response of a gateway."""

    gateway: str
    flow: str | None
    tag: str | None
    status: str | None
    items: Sequence[Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A run as a gateway returned it; None for a 404."""

    gateway: str
    body: Plain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResponse:
    """An execution and all its events as a gateway returned them."""

    gateway: str
    body: Plain
    events: Sequence[Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A log line of a run as a gateway returned it."""

    attempt: int
    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The jobs with a label as a gateway lists and counts them."""

    gateway: str
    label: str
    job_ids: Sequence[str]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptAgain:
    """What a gateway returns at the end for an excerpt: its bytes, and the number of the line after its token."""

    gateway: str
    excerpt: Excerpt
    part: str
    following: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStrategy:
    """A strategy as a gateway lists it, and its results there."""

    gateway: str
    strategy: str
    listed: Plain
    results: Sequence[Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The wheels that a worker reports at the end (`says`), and those that its folder's manifest lists for its tags.

    Wheels are pairs of name and checksum; a worker's report has no checksums.
    """

    worker: str
    tags: tuple[str, ...]
    says: Plain
    environment: str | None
    wheels: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFolder:
    """Content of a sync folder at the end: environments (complete or not), wheel checksums, unfinished files."""

    name: str
    environments: Mapping[str, bool]
    files: Sequence[str]
    unfinished: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the invariants check."""

    logs: Mapping[str, Sequence[StoredCommit]] = field(default_factory=dict)
    stored_at: Mapping[int, float] = field(default_factory=dict)
    """When the broker stored a commit, by sequence; the event itself may be older."""
    snapshots: Mapping[str, Plain] = field(default_factory=dict)
    shown: Mapping[str, Sequence[Shown]] = field(default_factory=dict)
    executions: Mapping[str, Sequence[ExecutionResponse]] = field(default_factory=dict)
    lists: Sequence[Listed] = ()
    jobs: Sequence[Plain] = ()
    side_effects: Mapping[str, Sequence[SideEffect]] = field(default_factory=dict)
    printed: Mapping[str, Sequence[Printed]] = field(default_factory=dict)
    labels: Sequence[Labelled] = ()
    excerpts: Sequence[ExcerptAgain] = ()
    rechecks: Mapping[str, Mapping[str, Plain]] = field(default_factory=dict)
    """The requests of the PDCA API, by run id and gateway."""
    strategies: Sequence[ShownStrategy] = ()
    audit: Mapping[str, Sequence[Plain]] = field(default_factory=dict)
    """The audit trail, by the gateway that showed it."""
    registry: Mapping[str, Sequence[Plain]] = field(default_factory=dict)
    """The registered wheels, by the gateway that listed them."""
    synced: Sequence[Synced] = ()
    folders: Sequence[SyncFolder] = ()


Check = Callable[[Evidence, Journal], Iterator[Finding]]
