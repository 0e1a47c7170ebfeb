"""Dead letters in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.ports import DeadLetter, DeadLetterBatch, StoredDeadLetter

STRETCH = 500
DEFAULT_TAG = "default"


class MemoryDeadLetters:
    """DeadLetters."""

    def __init__(self) -> None:
        self._letters: list[DeadLetter] = []

    async def publish(self, letter: DeadLetter) -> None:
        self._letters.append(letter)

    async def recent(self, limit: int = 100) -> Sequence[DeadLetter]:
        return self._letters[::-1][:limit]

    async def stretch(self, *, before: int | None = None, tag: str | None = None) -> DeadLetterBatch:
        end = len(self._letters) if before is None else min(before - 1, len(self._letters))
        begin = max(0, end - STRETCH)
        numbered = [StoredDeadLetter(seq=place + 1, letter=self._letters[place]) for place in range(begin, end)]
        found = [filed for filed in numbered if tag in (None, filed.letter.tag or DEFAULT_TAG)]
        return DeadLetterBatch(letters=tuple(reversed(found)), before=begin + 1 if begin else None)

    async def get(self, seq: int) -> DeadLetter | None:
        return self._letters[seq - 1] if 0 < seq <= len(self._letters) else None

    async def count(self) -> int:
        return len(self._letters)
