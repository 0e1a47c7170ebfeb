"""What is kept by name: API keys, tickets, graphs, requests with a key, wheels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId
from pyoco_server.domain.auth.tickets import Ticket, TicketKey
from pyoco_server.domain.graphs.codec import StoredGraph
from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Record
from pyoco_server.domain.wheels.history import WheelAction, WheelEvent
from pyoco_server.domain.wheels.wheel import Wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPosition:
    """What the store of API keys looked like: as long as it looks the same, it holds the same."""

    created: str
    last_sequence: int
    messages: int


class KeyStore(Protocol):
    """The API keys there are; each holds a digest, never the key."""

    async def create(self, record: ApiKey) -> bool:
        """Store a new record; False when that key id is or was taken."""

    async def revoke(self, key_id: KeyId, revoked_at: float) -> ApiKey | None:
        """End a key and return its record; one that was revoked before keeps its time, an unknown one is None."""

    async def all(self) -> Sequence[ApiKey]:
        """Every record, the revoked ones too."""

    async def position(self) -> KeysPosition:
        """What the store looks like now, by the word of the broker and not of a cache."""


class TicketStore(Protocol):
    """The tickets that were handed out and not used yet; each by its digest, never in clear."""

    async def add(self, key: TicketKey, ticket: Ticket) -> None:
        """Keep a new ticket, for as long as one may be good for."""

    async def take(self, key: TicketKey) -> Ticket | None:
        """Give a ticket out and forget it: of all who ask for the same one, at most one gets it."""


class GraphStore(Protocol):
    """The graphs of tenants (None: of nobody), by id. What is stored there and is no graph is not there."""

    async def get(self, tenant_id: str | None, graph_id: str) -> StoredGraph | None: ...
    async def put(self, tenant_id: str | None, graph: StoredGraph) -> StoredGraph | None:
        """Store the graph in place of the one with its revision (0: where there is none).

        Returns it with its new revision; None when another was stored meanwhile, and then nothing has changed.
        """

    async def all(self, tenant_id: str | None) -> Sequence[StoredGraph]:
        """Every graph of the tenant, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """What is kept of a request with a key, and the revision to compare-and-set on."""

    record: Record
    revision: int


class IdempotencyStore(Protocol):
    """Requests that carry a key, each under a key of its own; forgotten when they are old enough."""

    async def create(self, key: RecordKey, record: Record) -> StoredRecord | None:
        """Store the first record of a key; None when there is one. The same record again is the same creation."""

    async def get(self, key: RecordKey) -> StoredRecord | None:
        """What is stored; `InternalError` for what nobody can read, because to forget it would be to do it twice."""

    async def replace(self, key: RecordKey, record: Record, *, revision: int) -> StoredRecord | None:
        """Store in place of that revision; None when it is another by now, or gone.

        Where the same record is stored already, an earlier try was ours and its answer was lost: that is success.
        """

    async def remove(self, key: RecordKey, *, revision: int) -> bool:
        """Forget that revision; False when it is another by now, or gone."""


class WheelStore(Protocol):
    """The wheels there are, and their bytes in pieces: no method holds a whole wheel in memory."""

    async def all(self) -> Sequence[Wheel]:
        """Every wheel that is there, by name."""

    async def get(self, name: str) -> Wheel | None: ...
    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        tags: Sequence[str],
        admit: Callable[[Sequence[Wheel]], None] | None = None,
    ) -> Wheel:
        """Store the bytes under this name, in place of what was there; what was there stays when `chunks` raises.

        `admit` is asked with all wheels there are, at the very moment: between its word and the new wheel nobody else's
        is added, changed or removed. What it raises is raised here, and nothing has changed.
        """

    def read(self, wheel: Wheel) -> AsyncIterator[bytes]:
        """The bytes of exactly this upload, in order; `WheelNotFound` when it was deleted or replaced meanwhile.

        Ends with `WheelCorrupt` instead of the last piece when the bytes are not those that were stored.
        """

    async def delete(self, wheel: Wheel) -> bool:
        """Remove exactly this upload; False when it was gone already."""


class WheelHistory(Protocol):
    """What was done to wheels, and by whom; forgotten when it is old enough."""

    async def add(self, event: WheelEvent) -> None:
        """Remember it; the repeat of an event changes nothing."""

    async def recent(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        """The last events that fit, newest first."""
