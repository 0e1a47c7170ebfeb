"""A growing list that can be followed, in memory: what the memory feed reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

T = TypeVar("T")

BATCH = 500


class MemoryStream(Generic[T]):
    """Entries under rising sequences; a removed one leaves a hole, as in the real thing."""

    def __init__(self) -> None:
        self.last_sequence = 0
        self._entries: dict[int, T] = {}
        self._grew = asyncio.Event()

    def append(self, entry: T) -> int:
        self.last_sequence += 1
        self._entries[self.last_sequence] = entry
        self._grew.set()
        self._grew = asyncio.Event()
        return self.last_sequence

    def remove(self, sequence: int) -> None:
        self._entries.pop(sequence, None)

    def get(self, sequence: int) -> T | None:
        return self._entries.get(sequence)

    async def follow(self, after: int) -> AsyncGenerator[list[tuple[int, T]], None]:
        """Batches of what is behind `after`, then live, for ever."""
        while True:
            grew = self._grew
            batch = [(sequence, entry) for sequence, entry in self._entries.items() if sequence > after][:BATCH]
            if batch:
                after = batch[-1][0]
                yield batch
            else:
                await grew.wait()
