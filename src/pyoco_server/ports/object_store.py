"""The object store: wheels with their metadata, and their bytes in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from pyoco_server.domain.wheels.wheel import Wheel


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
