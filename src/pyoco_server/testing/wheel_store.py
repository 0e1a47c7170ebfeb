"""Wheels in memory."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from pyoco_server.domain.wheels.wheel import Wheel, split_object_name
from pyoco_server.errors import WheelCorrupt, WheelNotFound
from pyoco_server.ports import Clock

BUCKET = "memory"
PIECE_BYTES = 128 * 1024


class MemoryWheelStore:
    """WheelStore."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wheels: dict[str, Wheel] = {}
        self._bytes: dict[str, bytes] = {}
        self._uploads = 0

    async def all(self) -> Sequence[Wheel]:
        return [self._wheels[name] for name in sorted(self._wheels)]

    async def get(self, name: str) -> Wheel | None:
        return self._wheels.get(name)

    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        tags: Sequence[str],
        admit: Callable[[Sequence[Wheel]], None] | None = None,
    ) -> Wheel:
        data = b"".join([chunk async for chunk in chunks])
        if admit is not None:
            admit(await self.all())
        self._uploads += 1
        file_name, tenant_id = split_object_name(name)
        wheel = Wheel(
            name=file_name,
            tenant_id=tenant_id,
            size_bytes=len(data),
            bucket=BUCKET,
            nuid=f"{self._uploads:022d}",
            modified=self._clock.now(),
            sha256_hex=hashlib.sha256(data).hexdigest(),
            tags=tuple(tags),
        )
        replaced = self._wheels.get(name)
        if replaced is not None:
            del self._bytes[replaced.nuid]
        self._wheels[name], self._bytes[wheel.nuid] = wheel, data
        return wheel

    async def read(self, wheel: Wheel) -> AsyncGenerator[bytes, None]:
        at = 0
        while True:
            present = self._wheels.get(wheel.object_name)
            if present is None or present.nuid != wheel.nuid:
                raise WheelNotFound(wheel=wheel.name)
            data = self._bytes[wheel.nuid]
            if at + PIECE_BYTES >= len(data) and hashlib.sha256(data).hexdigest() != present.sha256_hex:
                raise WheelCorrupt(wheel=wheel.name)
            if at >= len(data):
                return
            yield data[at : at + PIECE_BYTES]
            at += PIECE_BYTES

    async def delete(self, wheel: Wheel) -> bool:
        present = self._wheels.get(wheel.object_name)
        if present is None or present.nuid != wheel.nuid:
            return False
        del self._wheels[wheel.object_name], self._bytes[wheel.nuid]
        return True
