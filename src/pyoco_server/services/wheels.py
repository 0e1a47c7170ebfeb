"""The wheel registry: who may add which version, what is remembered of it, and the bytes, never all of them at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pyoco_server.domain.wheels.contents import check_contents
from pyoco_server.domain.wheels.history import WheelAction, WheelEvent
from pyoco_server.domain.wheels.wheel import Wheel, WheelName, check_newer
from pyoco_server.errors import BrokerUnavailable, UploadsBusy, WheelNotFound, WheelVersionConflict
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.idempotency import IdempotentAttempt

logger = logging.getLogger(__name__)

READ_BYTES = 512 * 1024
# At a time, at one gateway; each may lie on its disk as a whole. Others wait before their first byte is read, not long.
UPLOADS = 8
UPLOAD_WAIT_SEC = 10.0
# One version of a package is registered once, or a few times with deletions in between.
LOOKED_BACK = 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A wheel that is here as a whole, and wants to be registered."""

    name: WheelName
    file: BinaryIO
    size: int
    sha256_hex: str
    tags: Sequence[str] = ()

    def is_that_of(self, wheel: Wheel) -> bool:
        return (wheel.sha256_hex, wheel.tags) == (self.sha256_hex, tuple(self.tags))


@dataclass(frozen=True, slots=True)
class WheelService:
    """The wheels of a gateway; they belong to all tenants alike, as workers do."""

    stores: Stores
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS))

    async def all(self) -> Sequence[Wheel]:
        return await self.stores.wheels.all()

    async def history(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        return await self.stores.wheel_history.recent(limit, wheel_name=wheel_name, action=action)

    async def check_newer(self, name: WheelName) -> None:
        """Refuse a version that will be refused in the end, before all of it is there."""
        check_newer(name, await self.stores.wheels.all())

    async def upload(self, upload: Upload, trail: Trail, context: CommandContext) -> Wheel:
        """Register the file, if it is what its name says and newer than what is there when it is whole."""
        name, file = upload.name, upload.file
        await asyncio.to_thread(check_contents, file, upload.size, name)
        try:
            await self.check_newer(name)
            await asyncio.to_thread(file.seek, 0)
            wheel = await self.stores.wheels.put(
                name.file_name, _pieces(file), tags=upload.tags, admit=lambda present: check_newer(name, present)
            )
        except WheelVersionConflict:
            # Nothing is newer than itself: of a request that was begun before, the end may have been reached, too.
            registered = await self.stores.wheels.get(name.file_name)
            if registered is None or not upload.is_that_of(registered) or not await _was_begun_before(context):
                raise
            await self._remember_once("upload", registered, trail, context)
            return registered
        logger.info("wheel registered", extra={"wheel": wheel.name, "nuid": wheel.nuid, "size_bytes": wheel.size_bytes})
        await self._remember("upload", wheel, trail, context)
        return wheel

    async def get(self, name: str) -> Wheel:
        wheel = await self.stores.wheels.get(name)
        if wheel is None:
            raise WheelNotFound(wheel=name[:200])
        return wheel

    def read(self, wheel: Wheel) -> AsyncGenerator[bytes, None]:
        return self.stores.wheels.read(wheel)

    async def delete(self, name: str, trail: Trail, turn: IdempotentAttempt) -> None:
        """Remove the wheel; workers that have installed it take it away at their next look.

        Which upload it is about is chosen once: whoever carries on must not remove one that came after it.
        """
        wheel = await self.stores.wheels.get(name)
        if turn.resource_id and (wheel is None or wheel.nuid != turn.resource_id):
            return  # somebody before us chose it, and it is gone
        if wheel is None:
            raise WheelNotFound(wheel=name[:200])
        if await turn.choose(wheel.nuid) != wheel.nuid:
            return
        if await self.stores.wheels.delete(wheel):
            logger.info("wheel deleted", extra={"wheel": wheel.name, "nuid": wheel.nuid})
            await self._remember("delete", wheel, trail, turn.context)
        elif not await _was_begun_before(turn.context):
            raise WheelNotFound(wheel=name[:200])

    async def _remember_once(self, action: WheelAction, wheel: Wheel, trail: Trail, context: CommandContext) -> None:
        told = await self.stores.wheel_history.recent(LOOKED_BACK, wheel_name=wheel.name, action=action)
        if context.commit_id not in {event.event_id for event in told}:
            await self._remember(action, wheel, trail, context)

    async def _remember(self, action: WheelAction, wheel: Wheel, trail: Trail, context: CommandContext) -> None:
        event = WheelEvent(
            event_id=context.commit_id or self.stores.ids.commit_id(),
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
        except BrokerUnavailable as error:
            # It is done; to say that it was not would be worse. The log has what the history lacks.
            facts = {"wheel": wheel.name, "action": action, "source": trail.source, "actor": trail.actor}
            logger.error("wheel event was not remembered", exc_info=error, extra=facts)  # noqa: TRY400


async def _was_begun_before(context: CommandContext) -> bool:
    """Whether somebody else has worked on the same request."""
    return context.resumed or (context.hold is not None and await context.hold.overtaken())


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        yield piece
