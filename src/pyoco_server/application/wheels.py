"""The wheel registry: who may add which version, what is remembered of it, and the bytes, never all of them at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from pyoco_server.application.stores import Stores
from pyoco_server.errors import NatsUnavailable, UploadsBusy, WheelNotFound
from pyoco_server.wheelhouse.contents import check_contents
from pyoco_server.wheelhouse.history import WheelAction, WheelEvent
from pyoco_server.wheelhouse.names import WheelName
from pyoco_server.wheelhouse.versions import check_newer
from pyoco_server.wheelhouse.wheel import Wheel

logger = logging.getLogger(__name__)

READ_BYTES = 512 * 1024
# At a time, at one gateway; each may lie on its disk as a whole. Others wait before their first byte is read, not long.
UPLOADS = 8
UPLOAD_WAIT_SEC = 10.0


@asynccontextmanager
async def upload_turn(uploads: asyncio.Semaphore, wait_sec: float = UPLOAD_WAIT_SEC) -> AsyncIterator[None]:
    """One of the uploads that a gateway takes at a time; `UploadsBusy` when the others take too long."""
    try:
        async with asyncio.timeout(wait_sec):
            await uploads.acquire()
    except TimeoutError as error:
        raise UploadsBusy from error
    try:
        yield
    finally:
        uploads.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Where a change comes from, and who is answerable for it."""

    source: Mapping[str, Any]
    actor: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wheels:
    """The wheels of a gateway; they belong to all tenants alike, as workers do."""

    stores: Stores

    async def all(self) -> Sequence[Wheel]:
        return await self.stores.wheels.all()

    async def history(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        return await self.stores.wheel_history.recent(limit, wheel_name=wheel_name, action=action)

    async def check_newer(self, name: WheelName) -> None:
        """Refuse a version that will be refused in the end, before all of it is there."""
        check_newer(name, await self.stores.wheels.all())

    async def upload(self, name: WheelName, file: BinaryIO, size: int, tags: Sequence[str], trail: Trail) -> Wheel:
        """Register the file, if it is what its name says and newer than what is there when it is whole."""
        await asyncio.to_thread(check_contents, file, size, name)
        await self.check_newer(name)
        await asyncio.to_thread(file.seek, 0)
        wheel = await self.stores.wheels.put(
            name.file_name, _pieces(file), tags=tags, admit=lambda present: check_newer(name, present)
        )
        logger.info("wheel registered", extra={"wheel": wheel.name, "nuid": wheel.nuid, "size_bytes": wheel.size_bytes})
        await self._remember("upload", wheel, trail)
        return wheel

    async def get(self, name: str) -> Wheel:
        wheel = await self.stores.wheels.get(name)
        if wheel is None:
            raise WheelNotFound(wheel=name[:200])
        return wheel

    def read(self, wheel: Wheel) -> AsyncIterator[bytes]:
        return self.stores.wheels.read(wheel)

    async def delete(self, name: str, trail: Trail) -> Wheel:
        """Remove the wheel; workers that have installed it take it away at their next look."""
        wheel = await self.get(name)
        if not await self.stores.wheels.delete(wheel):
            raise WheelNotFound(wheel=name[:200])
        logger.info("wheel deleted", extra={"wheel": wheel.name, "nuid": wheel.nuid})
        await self._remember("delete", wheel, trail)
        return wheel

    async def _remember(self, action: WheelAction, wheel: Wheel, trail: Trail) -> None:
        event = WheelEvent(
            event_id=self.stores.ids.commit_id(),
            occurred_at=self.stores.clock.now(),
            action=action,
            wheel_name=wheel.name,
            tags=wheel.tags,
            source=trail.source,
            actor=trail.actor,
            size_bytes=wheel.size_bytes,
            sha256_hex=wheel.sha256_hex,
            nuid=wheel.nuid,
        )
        try:
            await self.stores.wheel_history.add(event)
        except NatsUnavailable as error:
            # It is done; to say that it was not would be worse. The log has what the history lacks.
            facts = {"wheel": wheel.name, "action": action, "source": trail.source, "actor": trail.actor}
            logger.error("wheel event was not remembered", exc_info=error, extra=facts)  # noqa: TRY400


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        yield piece
