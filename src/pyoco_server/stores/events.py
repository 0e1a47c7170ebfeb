"""The event log: per run an ordered list of commits, the source of truth. Decides nothing about runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import Commit, StoredCommit
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InternalError
from pyoco_server.ports.broker import Conflict, LogMessage, Stored, StreamState, SubjectLog


class CommitHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A commit was stored; `may_end` says whether it may end the run. Without a sequence: some may have been missed."""

    sequence: int | None = None
    may_end: bool = False


class EventLog:
    def __init__(self, log: SubjectLog) -> None:
        self._log = log

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        """Add a commit behind the one with sequence `after` (0: as the first).

        On a lost ack or a conflict the log is searched for this commit id. Others may have written behind it.
        """

        def is_ours(message: LogMessage) -> bool:
            return _decode(message).commit.commit_id == commit.commit_id

        return await self._log.append(run_id, codec.encode(run_id, commit), after=after, is_ours=is_ours)

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        """The commits behind `after`, in order, the first `limit` of them; empty when there are none."""
        return [_decode(message) for message in await self._log.read(run_id, after=after, limit=limit)]

    async def last_sequence(self, run_id: RunId) -> int:
        """The sequence of the run's last commit; 0 when there is none."""
        message = await self._log.last(run_id)
        return 0 if message is None else message.sequence

    async def state(self) -> StreamState:
        return await self._log.state()

    async def listen(self, run_id: RunId, notify: Callable[[CommitHeard], None]) -> Callable[[], None]:
        """Call `notify` for every commit of the run stored from now on; the returned function ends that.

        A hint: commits appended before this returns may be missed, so a listener reads the log afterwards.
        """

        def on_message(message: LogMessage | None) -> None:
            if message is None:
                notify(CommitHeard())
            else:
                notify(CommitHeard(sequence=message.sequence, may_end=codec.may_end(message.data)))

        return await self._log.listen(run_id, on_message)

    async def purge(self, run_id: RunId) -> None:
        """Remove the run's commits (retention only: a purged log would accept a first commit again)."""
        await self._log.purge(run_id)


def _decode(message: LogMessage) -> StoredCommit:
    try:
        return StoredCommit(sequence=message.sequence, commit=codec.decode(message.data))
    except codec.UnreadableCommit as error:
        raise InternalError(f"events of {message.key}, sequence {message.sequence}: {error}") from error
