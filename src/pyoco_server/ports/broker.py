"""The broker as the stores see it: key-value buckets and logs of messages by key.

The typed stores in `pyoco_server.stores` are written on these two protocols only. Both exist twice: on JetStream and in
memory (`pyoco_server.testing`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

Durability = Literal["fsynced", "replicated", "buffered"]


class Broker(Protocol):
    """Whether the broker can be reached."""

    @property
    def connected(self) -> bool: ...


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """The extent of a bucket or log. While it is equal, the content is the same; `created` changes on recreation."""

    created: str
    first_sequence: int
    last_sequence: int
    messages: int
    lost_bytes: int = 0  # that the broker dropped as damaged when it started


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The write is stored under this sequence: now, or (`found`) by an earlier attempt whose ack was lost.

    That attempt may belong to another process that uses the same commit id: its decision may differ from ours.
    """

    version: int
    found: bool = False


class Entry(NamedTuple):
    """The latest state of a key. `value` is None after a removal, which differs from a key never written."""

    key: str
    revision: int
    value: bytes | None
    age_sec: float = 0.0  # by the broker's clock; set for the entries that `follow` finds already stored


class RevisionConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was written, because the key has another revision; `entry` is its present state."""

    entry: Entry | None


class KeyValue(Protocol):
    """A bucket: the latest value of each key, changed by compare-and-set. Revisions rise across all keys."""

    async def get(self, key: str) -> Entry | None:
        """The state of the key; None when it was never written, or its removal is forgotten."""

    async def put(self, key: str, value: bytes, *, revision: int) -> Stored | RevisionConflict:
        """Store if the key still has this revision (0: never written).

        When another revision already holds exactly this value, the write counts as an earlier attempt of this caller
        whose ack was lost: the result is `Stored` with `found`.
        """

    async def purge(self, key: str, *, revision: int | None = None) -> int | None:
        """Remove the key (if it still has this revision); the revision of the removal, or None when refused.

        None may also follow a lost ack: a removal does not say who made it.
        """

    async def all(self, prefix: str = "") -> Sequence[Entry]:
        """The entries whose keys start with the prefix (which ends in a dot), without removed keys."""

    async def revisions(self, prefix: str = "") -> Mapping[str, int]:
        """The keys that `all` finds with their revisions, without reading their values."""

    async def read(self, *, after: int, upto: int) -> Sequence[Entry]:
        """The entries whose revisions lie in this range, in order; removals included."""

    async def key_at(self, revision: int) -> str | None:
        """The key stored under this revision; None when it was replaced since."""

    async def state(self) -> StreamState:
        """The extent of the bucket, from the broker and not from a cache."""

    def follow(self, *, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        """Batches of changes behind `after` in order and without gaps, then live, across reconnects.

        An empty batch says that nothing is pending. It comes at the latest behind the entries that were stored at the
        start. Raises `BrokerUnavailable` when the bucket was recreated: revisions known so far are void.
        """


class Conflict(msgspec.Struct, frozen=True):
    """Another writer was first, or the log is gone; nothing of this append is stored."""


class LogMessage(NamedTuple):
    key: str
    sequence: int
    data: bytes


class SubjectLog(Protocol):
    """An append-only log: per key an ordered list of messages. Sequences rise across all keys."""

    async def append(
        self,
        key: str,
        data: bytes,
        *,
        after: int,
        is_ours: Callable[[LogMessage], bool],
        search_limit: int | None = None,
    ) -> Stored | Conflict:
        """Add a message behind the one with sequence `after` (0: as the first of its key).

        On a lost ack or a conflict, the messages behind `after` (at most `search_limit`) are searched for one that
        `is_ours` accepts. The result always reflects what is stored.
        """

    async def publish(self, key: str, data: bytes) -> None:
        """Add a message unconditionally."""

    async def read(self, key: str, *, after: int = 0, limit: int | None = None) -> Sequence[LogMessage]:
        """The messages of the key behind `after`, in order, the first `limit` of them."""

    async def next(self, key: str, *, after: int) -> LogMessage | None:
        """The first message of the key behind any sequence."""

    async def last(self, key: str) -> LogMessage | None: ...
    async def at(self, sequence: int) -> LogMessage | None:
        """The message with this sequence, of whatever key."""

    async def read_range(self, *, after: int, upto: int, key: str | None = None) -> Sequence[LogMessage]:
        """The messages (of one key) whose sequences lie in this range, in order."""

    async def listen(self, key: str, notify: Callable[[LogMessage | None], None]) -> Callable[[], None]:
        """Call `notify` for each message of the key stored from now on; the returned function ends that.

        A hint, not a source: None says that messages may have been missed. Messages that are stored while this call is
        under way may be reported or not, so a listener reads the log afterwards. `data` may be left out.
        """

    async def purge(self, key: str) -> None:
        """Remove the messages of the key. A purged key accepts a first message again."""

    async def state(self) -> StreamState: ...
    def follow(self, *, after: int) -> AsyncGenerator[Sequence[LogMessage], None]:
        """Batches of messages of all keys behind `after`, then live, as `KeyValue.follow`; without their data."""
