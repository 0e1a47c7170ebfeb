"""What the clients were told and what the killer did, written down as it happened; it judges nothing.

Times are unix seconds of this machine's one clock, so that they compare with those in events and in the witness file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.plan import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A submit that was answered with 200: from then on the run may not be lost."""

    run_id: str
    flow: str
    tag: str
    gateway: str
    asked_at: float
    answered_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run as an answer showed it; `to_cancel`: it was the answer to a cancel."""

    run_id: str
    asked_at: float
    answered_at: float
    status: str
    version: int
    to_cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A certain answer to a command that was sent with a key; `again`: the gateway says that it repeats itself."""

    key: str
    command: str
    execution_id: str
    status: int
    body: Mapping[str, Any]
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A stream as its reader heard it, over all its connections; `how`: ended, gave up, hung."""

    run_id: str
    gateway: str
    versions: tuple[int, ...]
    status: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An answer that should not have been given, or one that did not come; `broken` names the invariant."""

    broken: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A process that was killed (or stopped for a while), and when."""

    kind: Kind
    target: str
    pid: int
    at: float


# Unknown: nobody answered, so it may have happened, and may yet happen.
Happened = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A wheel that was to be registered or deleted, and what the last answer said; `stamp` is in its modules."""

    what: Literal["upload", "delete"]
    name: str
    stamp: str
    sha256: str
    tags: tuple[str, ...]
    good: bool
    how: Happened


@dataclass(slots=True)
class Journal:
    """Everything seen from outside in one run of the chaos."""

    accepted: dict[str, Accepted] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    empty: list[tuple[str, float]] = field(default_factory=list)
    """Claims that were told that there is nothing: their key, and when they were asked."""
    watched: list[Watched] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    restarts: Counter[str] = field(default_factory=Counter)
    changes: list[Change] = field(default_factory=list)

    @property
    def executions(self) -> list[str]:
        """The executions that were accepted, as `/executions` says it."""
        created = (told.execution_id for told in self.told if told.command == "CreateExecution" and told.status < 300)
        return list(dict.fromkeys(created))

    def note_accepted(self, accepted: Accepted) -> None:
        self.accepted[accepted.run_id] = accepted

    def note_seen(self, seen: Seen) -> None:
        self.seen.setdefault(seen.run_id, []).append(seen)

    def note_fault(self, broken: str, subject: str, detail: str) -> None:
        self.faults.append(Fault(broken=broken, subject=subject, detail=detail))
