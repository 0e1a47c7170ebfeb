"""The workers: what they last said of themselves, and a tap on their shoulders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyoco_server.domain.fleet.records import WorkerRecord
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """One change of the registry; `record` is None when it was removed, or is nobody's word.

    `age_sec` says how long ago the worker spoke, by the store's own clock; None where the store cannot tell.
    """

    sequence: int
    worker_id: WorkerId
    record: WorkerRecord | None
    age_sec: float | None = 0.0


class WorkerRegistry(Protocol):
    """What the workers last said of themselves."""

    async def put(self, record: WorkerRecord) -> None:
        """Store the worker's own word; `hidden`, which is an operator's, is kept as it is stored."""

    async def succeed(self, other: WorkerRecord | None, record: WorkerRecord) -> bool:
        """Store a worker's first word in place of that one; False when there is another by now: of two, one gets in."""

    async def get(self, worker_id: WorkerId) -> WorkerRecord | None: ...
    async def all(self) -> Sequence[WorkerRecord]: ...
    async def set_hidden(self, worker_id: WorkerId, hidden: bool, *, at: float) -> WorkerSeen | None:
        """Store an operator's wish and change nothing else, whatever the worker says meanwhile; None: no such worker.

        It is no sign of life of the worker.
        """

    async def remove(self, record: WorkerRecord) -> bool:
        """Remove the worker, unless it has spoken since it said this."""

    def follow(self) -> AsyncIterator[Sequence[WorkerSeen]]:
        """What is stored, then one empty batch, then every change as it comes, for ever and across reconnects.

        Ends with `NatsUnavailable` when the store was made anew: begin again, and forget what was told before.
        """


class Signals(Protocol):
    """A tap on the shoulder of one worker instance, lost when nobody listens: a hint, never the truth."""

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        """Say that something happened to the run which its holder should look at now."""

    async def answers(self, instance_id: InstanceId) -> bool:
        """Whether that instance listens right now."""

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        """Whether that instance listens and says that it works on the run."""

    async def listen(
        self, instance_id: InstanceId, heard: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        """Call `heard` for every tap and `holds` for every question, from now on and across reconnects."""
