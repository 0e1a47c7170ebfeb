"""Dead letters in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.application.ports import DeadLetter


class MemoryDeadLetters:
    """DeadLetters."""

    def __init__(self) -> None:
        self._letters: list[DeadLetter] = []

    async def publish(self, letter: DeadLetter) -> None:
        self._letters.append(letter)

    async def recent(self, limit: int = 100) -> Sequence[DeadLetter]:
        return self._letters[::-1][:limit]

    async def count(self) -> int:
        return len(self._letters)
