"""Record of the responses that clients received and of the faults that the killer injected.

Times are unix seconds of one clock, so they compare with those of events and side effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.plan import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A submit answered with 200: the run must not be lost."""

    run_id: str
    flow: str
    tag: str
    gateway: str
    asked_at: float
    answered_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run as a response showed it; `to_cancel`: the response to a cancel."""

    run_id: str
    asked_at: float
    answered_at: float
    status: str
    version: int
    to_cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResponse:
    """A response to a command with an idempotency key.

    `is_final`: done, or rejected by a guard. `replayed`: the gateway marked it as a replay.
    """

    key: str
    command: str
    execution_id: str
    status: int
    body: Mapping[str, Any]
    is_final: bool = True
    replayed: bool = False

    @property
    def is_done(self) -> bool:
        return self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A stream as its reader received it over all its connections; `how`: ended, gave up, hung."""

    run_id: str
    gateway: str
    versions: tuple[int, ...]
    status: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The log of a job as a follower received it; lines are number, attempt and text. `how`: ended, gave up, hung."""

    job_id: str
    by: str
    lines: tuple[tuple[int, int, str], ...]
    status: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """What a client keeps of a job's log: the token after some lines, and a range of bytes of the text."""

    job_id: str
    first_lines: int
    token: str
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A violation detected during the run; `broken` names the invariant."""

    broken: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A process that was killed, stopped or suspended, and when."""

    kind: Kind
    target: str
    pid: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRecheck:
    """A request for a recheck that was answered with 202; a client may have sent its key several times."""

    key: str
    request_id: str
    strategies: int
    batches: int
    dry_run: bool


# Unknown: no response arrived, so the change may have happened or may still happen.
Happened = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A wheel upload or deletion and its last response; `stamp` is in the wheel's modules."""

    what: Literal["upload", "delete"]
    name: str
    stamp: str
    sha256: str
    tags: tuple[str, ...]
    good: bool
    how: Happened


@dataclass(slots=True)
class Journal:
    """All observations from outside during one run."""

    accepted: dict[str, Accepted] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    responses: list[CommandResponse] = field(default_factory=list)
    empty_claims: list[tuple[str, float]] = field(default_factory=list)
    """Claims that were answered with 204: their key and the time of the request."""
    watched: list[Watched] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)
    """The labels that each job must have at the end."""
    deleted: set[str] = field(default_factory=set)
    followed: list[Followed] = field(default_factory=list)
    excerpts: list[Excerpt] = field(default_factory=list)
    rechecks: list[AskedRecheck] = field(default_factory=list)
    progress: list[Mapping[str, Any]] = field(default_factory=list)
    """Responses to reads of requests of the PDCA API."""
    puts: Counter[str] = field(default_factory=Counter)
    """The confirmed changes of each strategy."""
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    restarts: Counter[str] = field(default_factory=Counter)
    changes: list[Change] = field(default_factory=list)

    @property
    def executions(self) -> list[str]:
        """The accepted executions of `/executions`."""
        created = (one.execution_id for one in self.responses if one.command == "CreateExecution" and one.is_done)
        return list(dict.fromkeys(created))

    def note_accepted(self, accepted: Accepted) -> None:
        self.accepted[accepted.run_id] = accepted

    def note_seen(self, seen: Seen) -> None:
        self.seen.setdefault(seen.run_id, []).append(seen)

    def note_fault(self, broken: str, subject: str, detail: str) -> None:
        self.faults.append(Fault(broken=broken, subject=subject, detail=detail))
