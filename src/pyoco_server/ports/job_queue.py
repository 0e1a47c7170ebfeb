"""The work queue: jobs by tag, pulled by workers, delivered at least once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.domain.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is put into the queue for a worker (contract, appendix E)."""

    run_id: RunId
    flow_name: str
    tag: str
    submitted_at: float
    tags: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    workflow_yaml: str | None = None
    timeout_sec: float | None = None
    correlation_id: str | None = None  # what the asking is recognised by, in the worker's events and log lines too


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as it lies in the queue, seen by somebody who does not take it; `sequence` is its place there."""

    sequence: int
    tag: str
    subject: str
    payload: bytes
    created_sequence: int | None


class Delivery(Protocol):
    """One job in a worker's hands. Exactly one of ack, nak, term — or nothing, when it is somebody else's now."""

    @property
    def payload(self) -> bytes: ...
    @property
    def tag(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def num_delivered(self) -> int: ...
    @property
    def created_sequence(self) -> int | None:
        """The sequence of EXECUTION_CREATED as the submitter saw it; None for a foreign producer's job."""

    @property
    def return_to(self) -> str:
        """Where anybody can give this job back, should the worker be lost that has it."""

    async def ack(self) -> None: ...
    async def nak(self, delay_sec: float) -> None: ...
    async def term(self) -> None: ...
    async def in_progress(self) -> None: ...


class TagQueue(Protocol):
    """One tag's jobs, as one worker pulls them."""

    @property
    def ack_wait_sec(self) -> float:
        """What the real consumer has, which may be older than our settings."""

    async def receive(self, credit: int) -> Sequence[Delivery]:
        """Ask for up to `credit` jobs in all that were not handed out yet, wait for at least one, return those here.

        Safe to cancel: a job that arrives meanwhile waits for the next call.
        """

    async def close(self) -> None:
        """Ask for no more, and give back what arrived and was not handed out."""


class JobQueue(Protocol):
    """Work waiting for workers, by tag."""

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        """Put the job in; `nth` rises with each deliberate re-publish of a run, the repeat of one is swallowed."""

    async def open(self, tag: str) -> TagQueue:
        """Start to pull a tag (makes its durable consumer where there is none, respects one that is there)."""

    async def depth(self, tag: str) -> int:
        """How many jobs of the tag are stored: waiting or in work."""

    async def state(self, tag: str) -> QueueState:
        """How the jobs of the tag stand, also of one that nobody has pulled yet."""

    async def give_back(self, return_to: str) -> None:
        """Have a job delivered again at once that somebody has in hand; one that is gone stays gone."""

    async def take_back(self, jobs: Sequence[StoredJob], *, like: str) -> None:
        """Have those of these jobs delivered again at once that somebody has in hand, whoever that is.

        `like` is the `return_to` of another job of their tag. Those that wait or are gone are left alone.
        """

    async def tags(self) -> Sequence[str]:
        """The tags that have jobs stored, waiting or in work; what is no tag is left out, whoever put it there."""

    async def stored(
        self, tag: str, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> Sequence[StoredJob]:
        """The jobs of the tag behind a place (and up to another), in order, taking none of them."""

    async def discard(self, job: StoredJob) -> None:
        """Take the job out of the queue, whoever has it; one that is gone already is no error."""

    async def on_given_up(self, heard: Callable[[], None]) -> None:
        """Call `heard` when the queue gives a job up, from now on and across reconnects: a hint, never the truth."""
