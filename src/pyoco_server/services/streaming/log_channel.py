"""One log that is followed here: who follows it, and each of its chunks read once for all who ask. It tells nobody.

What was read stays for those who come to the same place a moment later, within a weight for all logs of the gateway.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from pyoco_server.domain.ids import RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.services.streaming.log_parts import CutChunk
from pyoco_server.services.streaming.watcher import View
from pyoco_server.stores import LogStore

# What all channels keep of the chunks they have read; those used last stay.
KEPT_WEIGHT = 64 * 1024 * 1024


class Wakes(Protocol):
    """One who follows, as far as the channel knows them."""

    def wake(self) -> None: ...
    def end(self) -> None: ...


class Kept:
    """The chunks that were read last, of all logs, within a weight."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._chunks: OrderedDict[tuple[RunId, int], CutChunk] = OrderedDict()

    def get(self, run_id: RunId, after: int) -> CutChunk | None:
        chunk = self._chunks.get((run_id, after))
        if chunk is not None:
            self._chunks.move_to_end((run_id, after))
        return chunk

    def keep(self, run_id: RunId, after: int, chunk: CutChunk) -> None:
        if (run_id, after) in self._chunks:
            return
        self._chunks[run_id, after] = chunk
        self._weight += chunk.weight
        while self._weight > self._most and len(self._chunks) > 1:
            self._weight -= self._chunks.popitem(last=False)[1].weight

    def forget(self, run_id: RunId) -> None:
        for key in [key for key in self._chunks if key[0] == run_id]:
            self._weight -= self._chunks.pop(key).weight


class LogChannel:
    """One log that is followed here. To the hub of watchers it is one more watcher."""

    def __init__(self, run_id: RunId, logs: LogStore, kept: Kept) -> None:
        self.run_id = run_id
        self.users = 0
        self.followers: set[Wakes] = set()
        self.opening = asyncio.Lock()
        self.view: View | None = None
        self.has_begun = False
        self.is_ended = False
        self.leave: list[Callable[[], None]] = []
        self._logs = logs
        self._kept = kept
        self._looks = 0
        self._at_end: set[int] = set()
        self._reading: dict[int, asyncio.Future[CutChunk | BrokerUnavailable | None]] = {}

    @property
    def is_over(self) -> bool:
        return self.view is not None and self.view.is_terminal

    @property
    def seen(self) -> View:
        if self.view is None:
            raise RunNotFound(run_id=self.run_id)
        return self.view

    def check(self, tenant_filter: str | None) -> None:
        """Refuse somebody who does not see the run, as if it were not there."""
        if tenant_filter not in (None, self.seen.plain.get("tenant_id")):
            raise RunNotFound(run_id=self.run_id)

    def look_again(self) -> None:
        """There may be more than was seen."""
        self._looks += 1
        self._at_end.clear()
        for follower in self.followers:
            follower.wake()

    def offer(self, view: View) -> None:
        self.view = view
        if view.is_terminal:
            self.look_again()

    def beat(self, view: View, *, away: bool) -> None:
        self.look_again()

    def end(self) -> None:
        self.is_ended = True
        for follower in self.followers:
            follower.end()

    def close(self) -> None:
        for leave in self.leave:
            leave()
        self.leave.clear()

    def at_hand(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence, if it was read already."""
        return self._kept.get(self.run_id, after)

    async def behind(self, after: int) -> CutChunk | None:
        """The chunk behind a sequence, None where a look that began after this was asked for has found none.

        However many ask for the same at once, it is read for them once; a look that fails fails for all of them.
        """
        while True:
            kept = self._kept.get(self.run_id, after)
            if kept is not None or after in self._at_end:
                return kept
            reading = self._reading.get(after)
            if reading is None:
                return await self._read(after)
            found = await asyncio.shield(reading)
            if isinstance(found, BrokerUnavailable):
                raise BrokerUnavailable(found.detail) from found
            if found is not None:
                return found

    async def _read(self, after: int) -> CutChunk | None:
        told: asyncio.Future[CutChunk | BrokerUnavailable | None] = asyncio.get_running_loop().create_future()
        self._reading[after] = told
        looks, found = self._looks, None
        try:
            stored = await self._logs.next(self.run_id, after=after)
            if stored is not None:
                found = CutChunk(stored, after)
                if self.users:
                    self._kept.keep(self.run_id, after, found)
            elif self._looks == looks:
                self._at_end.add(after)
        except BrokerUnavailable as error:
            told.set_result(error)
            raise
        finally:
            del self._reading[after]
            if not told.done():
                told.set_result(found)  # of one that was cancelled: nothing, so that another looks
        return found
