"""The wheel registry: uploads, downloads, deletions and their history; a wheel is never in memory as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pyoco_server.domain.wheels.contents import check_contents
from pyoco_server.domain.wheels.history import WheelAction, WheelEvent
from pyoco_server.domain.wheels.wheel import Wheel, WheelName, check_newer, object_name
from pyoco_server.errors import BrokerUnavailable, UploadsBusy, WheelNotFound, WheelVersionConflict
from pyoco_server.services.audit.trail import AuditTrail, Change
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.idempotency import IdempotentAttempt

logger = logging.getLogger(__name__)

READ_BYTES = 512 * 1024
# At a time at one gateway, each spooled to its disk. Others wait briefly before their first byte is read.
UPLOADS = 8
UPLOAD_WAIT_SEC = 10.0
# A version of a package is registered once, or a few times with deletions in between.
MAX_RECENT = 20


@asynccontextmanager
async def upload_turn(uploads: asyncio.Semaphore, wait_sec: float = UPLOAD_WAIT_SEC) -> AsyncIterator[None]:
    """One of the concurrent uploads of a gateway; `UploadsBusy` after `wait_sec`."""
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
    """The origin of a change, and the caller who made it."""

    source: Mapping[str, Any]
    actor: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A wheel that was received completely and is to be registered, for a tenant or, without one, for all."""

    name: WheelName
    file: BinaryIO
    size: int
    sha256_hex: str
    tags: Sequence[str] = ()
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class WheelService:
    """The wheels of a gateway: those of each tenant, and those that all tenants share."""

    stores: Stores
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS))

    async def upload(self, upload: Upload, trail: Trail, context: CommandContext) -> Wheel:
        """Register the file if its content matches its name and its owner has no version that is as new."""
        name, file, tenant_id = upload.name, upload.file, upload.tenant_id
        stored_name = object_name(name.file_name, tenant_id)
        await asyncio.to_thread(check_contents, file, upload.size, name)
        try:
            check_newer(name, await self.stores.wheels.all(), tenant_id)
            await asyncio.to_thread(file.seek, 0)
            async with self._audited("wheel.upload", name.file_name, tenant_id, context):
                wheel = await self.stores.wheels.put(
                    stored_name,
                    _pieces(file),
                    tags=upload.tags,
                    admit=lambda present: check_newer(name, present, tenant_id),
                )
        except WheelVersionConflict:
            # An earlier try of the same request may have registered the wheel.
            registered = await self.stores.wheels.get(stored_name)
            is_same = registered is not None and (registered.sha256_hex, registered.tags) == (
                upload.sha256_hex,
                tuple(upload.tags),
            )
            if registered is None or not is_same or not await _was_begun_before(context):
                raise
            recent = await self.stores.wheel_history.recent(
                MAX_RECENT, wheel_name=registered.name, action="upload", tenant_filter=tenant_id
            )
            async with self._audited("wheel.upload", name.file_name, tenant_id, context):
                pass  # made by the earlier try, which may not have lived to say so
            if context.commit_id not in {event.event_id for event in recent}:
                await self._record("upload", registered, trail, context)
            return registered
        logger.info("wheel registered", extra={"wheel": wheel.name, "nuid": wheel.nuid, "size_bytes": wheel.size_bytes})
        await self._record("upload", wheel, trail, context)
        return wheel

    async def get(self, name: str, owner: str | None) -> Wheel:
        """The wheel of this tenant, else the shared one of that name."""
        wheel = await self.stores.wheels.get(object_name(name, owner))
        if wheel is None and owner is not None:
            wheel = await self.stores.wheels.get(name)
        if wheel is None:
            raise WheelNotFound(wheel=name[:200])
        return wheel

    async def delete(self, name: str, owner: str | None, trail: Trail, turn: IdempotentAttempt) -> None:
        """Remove the wheel; workers that have installed it remove it at their next sync.

        The upload to remove is chosen once: a continuation of the request must not remove a later one. A shared one is
        never removed in place of a tenant's: a repetition of the request would remove both.
        """
        wheel = await self.stores.wheels.get(object_name(name, owner))
        if turn.resource_id and (wheel is None or wheel.nuid != turn.resource_id):
            async with self._audited("wheel.delete", name, owner, turn.context):
                return  # an earlier try has removed it, and may not have lived to say so
        if wheel is None and owner is not None and await self.stores.wheels.get(name) is not None:
            raise WheelNotFound(
                f"{name[:200]} is shared by all tenants; an administrator removes it with shared=true (--shared)"
            )
        if wheel is None:
            raise WheelNotFound(wheel=name[:200])
        if await turn.choose(wheel.nuid) != wheel.nuid:
            return
        async with self._audited("wheel.delete", wheel.name, wheel.tenant_id, turn.context) as change:
            is_deleted = await self.stores.wheels.delete(wheel)
            change.unchanged = not is_deleted
        if is_deleted:
            logger.info("wheel deleted", extra={"wheel": wheel.name, "nuid": wheel.nuid})
            await self._record("delete", wheel, trail, turn.context)
        elif not await _was_begun_before(turn.context):
            raise WheelNotFound(wheel=name[:200])

    def _audited(
        self, action: str, name: str, tenant_id: str | None, context: CommandContext
    ) -> AbstractAsyncContextManager[Change]:
        return AuditTrail.of(self.stores).change(action, "wheel", name, context, tenant_id=tenant_id)

    async def _record(self, action: WheelAction, wheel: Wheel, trail: Trail, context: CommandContext) -> None:
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
            tenant_id=wheel.tenant_id,
        )
        try:
            await self.stores.wheel_history.add(event)
        except BrokerUnavailable as error:
            # The change is made, so the request must not fail. The log has what the history lacks.
            facts = {"wheel": wheel.name, "action": action, "source": trail.source, "actor": trail.actor}
            logger.error("wheel event not stored", exc_info=error, extra=facts)  # noqa: TRY400


async def _was_begun_before(context: CommandContext) -> bool:
    """Whether an earlier try has worked on the same request."""
    return context.resumed or (context.hold is not None and await context.hold.overtaken())


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        yield piece
