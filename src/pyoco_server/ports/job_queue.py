"""The work queue: jobs by tag, pulled by workers, delivered at least once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pyoco_server.domain.fleet.worker_status import QueueState
from pyoco_server.domain.ids import RunId


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The message of a job, in the shape that the contract fixes (appendix E), for workers of any version."""

    run_id: RunId
    flow_name: str
    tag: str
    tags: tuple[str, ...]
    params: Mapping[str, Any]
    submitted_at: float
    workflow_yaml: str | None = None
    timeout_sec: float | None = None
    correlation_id: str | None = None  # appears in the worker's events and log lines too
    request_id: str | None = None  # of the HTTP request that submitted the run; appears in the worker's log lines
    traceparent: str | None = None  # of the trace that the attempts join
    tracestate: str | None = None


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the queue, read without taking it."""

    sequence: int
    tag: str
    subject: str
    payload: bytes
    created_sequence: int | None


class Delivery(Protocol):
    """One delivered job. Call exactly one of ack, nak, term, or none when another worker has it now."""

    payload: bytes
    tag: str
    subject: str
    num_delivered: int
    created_sequence: int | None  # of EXECUTION_CREATED; None for a job of a foreign producer
    return_to: str  # the address for `JobQueue.give_back`, should this worker be lost

    async def ack(self) -> None: ...
    async def nak(self, delay_sec: float) -> None: ...
    async def term(self) -> None: ...
    async def in_progress(self) -> None: ...


class TagQueue(Protocol):
    """The jobs of one tag, as one worker pulls them."""

    @property
    def ack_wait_sec(self) -> float:
        """The setting of the real consumer, which may be older than ours."""

    async def receive(self, credit: int) -> Sequence[Delivery]:
        """Keep up to `credit` jobs requested, wait for at least one, and return those received.

        Safe to cancel: a job that arrives meanwhile is returned by the next call.
        """

    async def close(self) -> None:
        """Stop requesting, and give back received jobs that were not returned."""


class JobQueue(Protocol):
    """Work waiting for workers, by tag."""

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        """Enqueue the job. `nth` rises with each deliberate re-publish of a run; a repeated `nth` is dropped."""

    async def open(self, tag: str) -> TagQueue:
        """Start to pull a tag; creates its durable consumer when it is missing, and changes no existing one."""

    async def state(self, tag: str) -> QueueState:
        """The state of the tag's queue, also before the first worker pulls it."""

    async def give_back(self, return_to: str) -> None:
        """Redeliver a delivered job at once; a removed one stays removed."""

    async def take_back(self, jobs: Sequence[StoredJob], *, like: str) -> None:
        """Redeliver those of these jobs that are delivered, at once. Waiting and removed ones are left alone.

        `like` is the `return_to` of another job of their tag.
        """

    async def tags(self) -> Sequence[str]:
        """The tags that have stored jobs; invalid tags of foreign producers are left out."""

    async def stored(
        self, tag: str, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> Sequence[StoredJob]:
        """The jobs of the tag behind a sequence (and up to another), in order, without taking them."""

    async def discard(self, job: StoredJob) -> None:
        """Remove the job, also when it is delivered; a missing one is no error."""

    async def on_given_up(self, notify: Callable[[], None]) -> None:
        """Call `notify` when a job has used up its deliveries, across reconnects; best effort."""
