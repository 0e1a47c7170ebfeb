"""Word of stored commits, in memory; it is heard before the append returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from pyoco_server.domain.execution import codec
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import CommitHeard
from pyoco_server.testing.event_log import MemoryEventLog

Heard = Callable[[CommitHeard], None]


class MemoryLiveCommits:
    """LiveCommits. `interrupt` is what a lost connection does."""

    def __init__(self, log: MemoryEventLog) -> None:
        self._listeners: defaultdict[RunId, list[Heard]] = defaultdict(list)
        log.on_stored.append(self._stored)

    @property
    def listened_to(self) -> set[RunId]:
        """The runs that somebody listens to."""
        return {run_id for run_id, listeners in self._listeners.items() if listeners}

    async def listen(self, run_id: RunId, heard: Heard) -> Callable[[], None]:
        self._listeners[run_id].append(heard)

        def stop() -> None:
            if heard in self._listeners[run_id]:
                self._listeners[run_id].remove(heard)

        return stop

    def interrupt(self) -> None:
        """Tell everybody that something may have been missed."""
        for listeners in list(self._listeners.values()):
            for heard in list(listeners):
                heard(CommitHeard())

    def _stored(self, run_id: RunId, sequence: int, payload: bytes) -> None:
        for heard in list(self._listeners[run_id]):
            heard(CommitHeard(sequence=sequence, may_end=codec.may_end(payload)))
