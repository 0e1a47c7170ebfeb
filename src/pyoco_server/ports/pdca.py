"""What the PDCA API needs from outside: an engine that runs batches, and a store of artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.outcome import BatchOutcome as BatchOutcome
from pyoco_server.domain.pdca.outcome import Report as Report
from pyoco_server.domain.pdca.recheck import Batch


class BatchState(Enum):
    """The state of a batch in its engine. MISSING: it was never started there, or is forgotten."""

    MISSING = "missing"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    __hash__ = object.__hash__


class BatchEngine(Protocol):
    """Runs batches. Every method may be repeated, by any gateway: the engine's id of a batch follows from the batch.

    Methods raise `EngineDown` when the engine does not answer, and are then tried again later. What can never succeed
    is an outcome with an error, not an exception.
    """

    @property
    def name(self) -> str:
        """The flow or DAG that runs a batch."""

    @property
    def concurrency(self) -> int:
        """How many batches of one request may be in the engine at a time."""

    @property
    def poll_interval_sec(self) -> float:
        """The pause between two looks at the states of a request, while something changes."""

    async def check(self) -> None:
        """Whether requests can be accepted now; `EngineDown` if not, within 3 s."""

    def run_id(self, batch: Batch) -> str:
        """The engine's id of the batch."""

    async def start(self, batch: Batch) -> None:
        """Start the batch unless it was started before."""

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        """The states of these batches of one request, by number."""

    async def outcome(self, batch: Batch) -> BatchOutcome:
        """The results of a finished batch."""

    async def cancel(self, batch: Batch) -> None:
        """Ask the engine to stop the batch, or never to begin it; `states` shows when it has stopped."""


class StoredArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an artifact."""

    media_type: str
    data: bytes


# An artifact is one message: it is stored as a whole or not at all. NATS accepts 1 MiB by default.
MAX_ARTIFACT_BYTES = 512 * 1024


class ArtifactStore(Protocol):
    """Files by id in the object store. An id (`artifact_id`) begins with its request and has one content."""

    async def put(self, artifact_id: str, artifact: StoredArtifact) -> None:
        """Store the file; a repeated call with the same content changes nothing.

        Raises `RequestTooLarge` beyond `MAX_ARTIFACT_BYTES`.
        """

    async def get(self, artifact_id: str) -> StoredArtifact | None: ...
    async def delete_of(self, request_id: RunId) -> None:
        """Remove the files of a request; without any it does nothing."""
