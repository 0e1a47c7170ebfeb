"""The object store: wheels with their metadata, and their bytes in pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Protocol

from pyoco_server.domain.wheels.wheel import Wheel


class WheelStore(Protocol):
    """Wheels by object name (see `Wheel.object_name`). No method holds a whole wheel in memory."""

    async def all(self) -> Sequence[Wheel]:
        """Every wheel, by name."""

    async def get(self, name: str) -> Wheel | None: ...
    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        tags: Sequence[str],
        admit: Callable[[Sequence[Wheel]], None] | None = None,
    ) -> Wheel:
        """Store the bytes under this name in place of the present ones, which stay when `chunks` raises.

        `admit` is called with all present wheels; between its return and the write no wheel is added, changed or
        removed. Its exceptions are raised here, and nothing has changed.
        """

    def read(self, wheel: Wheel) -> AsyncGenerator[bytes, None]:
        """The bytes of exactly this upload, in order; `WheelNotFound` when it was deleted or replaced meanwhile.

        Raises `WheelCorrupt` instead of yielding the last piece when the digest does not match.
        """

    async def delete(self, wheel: Wheel) -> bool:
        """Remove exactly this upload; False when it was gone already."""
