"""The connection of a gateway to the stores: each call takes two turns, and some calls fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from pyoco_server.domain.pdca.recheck import Batch
from pyoco_server.errors import BrokerUnavailable, EngineDown, Unanswered
from pyoco_server.ports import SnapshotSeen
from pyoco_server.ports.pdca import BatchEngine, BatchOutcome, BatchState
from pyoco_server.stores import Feed, LogSeen
from simulation.loop import SeededLoop

T = TypeVar("T")


@dataclass(slots=True)
class Faults:
    """How often a call fails before its effect, and after it; and at which call a gateway crashes."""

    rate: float
    crash_at: tuple[int, ...] = ()
    crash: Callable[[], None] = lambda: None
    met: int = 0
    ways: int = 0

    def count(self) -> None:
        self.ways += 1
        if self.ways in self.crash_at:
            self.crash()

    def stop(self) -> None:
        self.rate, self.crash_at = 0.0, ()


class Way:
    """The connection of one gateway. Calls fail as often as `faults` says, and always when the gateway is dead."""

    def __init__(self, loop: SeededLoop, random: Random, faults: Faults) -> None:
        self._turn = loop.turn
        self._draw = random.random
        self._faults = faults
        self.dead = False

    @property
    def connected(self) -> bool:
        return not self.dead

    async def there(self) -> None:
        """Before the effect of a call."""
        if not self.dead:
            self._faults.count()
            await self._turn()
        if self.dead:  # its cancelled tasks must not reach a store
            raise asyncio.CancelledError
        if self._draw() < self._faults.rate:
            self._faults.met += 1
            raise BrokerUnavailable

    async def back(self) -> None:
        """After the effect of a call: its response may be lost."""
        self._faults.count()
        await self._turn()
        if self._draw() < self._faults.rate:
            self._faults.met += 1
            raise Unanswered

    def guarded(self, port: object, names: Sequence[str]) -> Any:
        """The port, reached by this connection."""
        return _Guarded({name: self._unsteady(getattr(port, name)) for name in names}, port)

    def _unsteady(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def unsteady(*args: Any, **named: Any) -> Any:
            await self.there()
            result = await call(*args, **named)
            await self.back()
            return result

        return unsteady


class _Guarded:
    def __init__(self, calls: dict[str, Any], port: object) -> None:
        self.__dict__.update(calls)
        self._port = port

    @property
    def last_revision(self) -> Any:
        return self._port.last_revision  # type: ignore[attr-defined]


class EngineOnTheWay:
    """The engine of batches as one gateway reaches it."""

    def __init__(self, engine: BatchEngine, way: Way) -> None:
        self._engine = engine
        self._way = way
        self.name, self.concurrency = engine.name, engine.concurrency
        self.poll_interval_sec, self.run_id = engine.poll_interval_sec, engine.run_id

    async def check(self) -> None:
        await self._reached(self._engine.check())

    async def start(self, batch: Batch) -> None:
        await self._reached(self._engine.start(batch))

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        return await self._reached(self._engine.states(batches))

    async def outcome(self, batch: Batch) -> BatchOutcome:
        return await self._reached(self._engine.outcome(batch))

    async def cancel(self, batch: Batch) -> None:
        await self._reached(self._engine.cancel(batch))

    async def _reached(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            await self._way.there()
            result = await call
            await self._way.back()
        except BrokerUnavailable as error:
            raise EngineDown from error
        finally:
            call.close()
        return result


class FeedOnTheWay(Feed):
    """The feed as one gateway receives it: late, and sometimes cut."""

    def __init__(self, feed: Feed, way: Way) -> None:
        self._feed = feed
        self._way = way

    async def snapshot_stream(self) -> tuple[str, int]:
        await self._way.there()
        return await self._feed.snapshot_stream()

    async def snapshot_key_at(self, sequence: int) -> str | None:
        await self._way.there()
        return await self._feed.snapshot_key_at(sequence)

    async def snapshots(self, *, after: int) -> AsyncGenerator[Sequence[SnapshotSeen], None]:
        async with aclosing(self._feed.snapshots(after=after)) as batches:
            async for batch in batches:
                await self._way.there()
                yield batch

    async def commit_stream(self) -> tuple[str, int]:
        await self._way.there()
        return await self._feed.commit_stream()

    async def commits(self, *, after: int) -> AsyncGenerator[Sequence[LogSeen], None]:
        async with aclosing(self._feed.commits(after=after)) as batches:
            async for batch in batches:
                await self._way.there()
                yield batch
