"""One conversation about a job: its status and its log down, commands up, until the job is over or somebody goes.

    watcher of the run ──▶ status frames ─┐
    follower of the log ─▶ log frames ────┼─▶ socket, one frame after the other        both over ─▶ `end`, closed
    socket ─▶ frames up ─▶ pong, error ───┘

Nothing waits for a slow reader but the place of its follower and the newest view of its watcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import InvalidRequest, PyocoError
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.translate import status_of
from pyoco_server.http_api.protocol import json_body
from pyoco_server.http_api.protocol.websocket import Code, Socket, code_of
from pyoco_server.http_api.responses.problems import describe
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext
from pyoco_server.services.loops import first_result
from pyoco_server.services.streaming.topics import RunTopic

# Frames that make no sense, after which nothing sensible is expected any more.
MOST_MISTAKES = 5
# What a person and a program on their behalf may say; more of it is a flood.
MOST_FRAMES, WINDOW_SEC = 100, 10.0
FEW_MARKS = 64

UntilRevoked = Callable[[], Awaitable[PyocoError]]
Verdict = tuple[Code, str]

TOO_SLOW: Verdict = (Code.POLICY, "too slow: nothing was taken for long")


class Ping(BaseModel):
    """Somebody wants to know whether we are there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["ping"]


class Cancel(BaseModel):
    """The job is to be stopped."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["cancel"]
    reason: str | None = Field(default=None, max_length=1000)


_FRAMES: TypeAdapter[Ping | Cancel] = TypeAdapter(Annotated[Ping | Cancel, Field(discriminator="type")])


class Session:
    """What is said on one socket. It counts as a stream, by its watcher."""

    def __init__(
        self, socket: Socket, services: Services, run_id: RunId, caller: Caller, context: CommandContext
    ) -> None:
        self._socket = socket
        self._services = services
        self._run_id = run_id
        self._caller = caller
        self._context = context
        self._mistakes = 0
        self._frames, self._window_ends = 0, 0.0

    async def run(
        self, place: LogPosition, *, tail: int | None, logs: bool, until_revoked: UntilRevoked | None
    ) -> Verdict | None:
        """Stream the job until either side ends it; returns how to close, None when the peer has disconnected."""
        topics, tenant_filter = self._services.topics, self._caller.tenant_filter
        async with topics.join(self._run_id, tenant_filter=tenant_filter) as topic:
            begin = await topic.open_log(place, tail) if logs else None
            return await first_result(
                self._send_all(topic, begin),
                self._listen(),
                self._put_out_when_slow(),
                *([_put_out(until_revoked)] if until_revoked is not None else []),
            )

    # --- down ---------------------------------------------------------------------------------------------------------

    async def _send_all(self, topic: RunTopic, begin: LogPosition | None) -> Verdict:
        try:
            async with asyncio.TaskGroup() as group:
                status = group.create_task(self._send_status(topic))
                is_read = group.create_task(self._send_log(topic, begin))
        except ExceptionGroup as broken:
            raise broken.exceptions[0] from broken
        ended = status.result()
        if self._socket.stalled.is_set():
            return TOO_SLOW
        if ended is None or not is_read.result():
            return Code.RESTART, "the gateway stops; connect again"
        await self._socket.send(stream_encoding.frame("end", status=ended))
        return Code.NORMAL, ended

    async def _put_out_when_slow(self) -> Verdict:
        await self._socket.stalled.wait()
        return TOO_SLOW

    async def _send_status(self, topic: RunTopic) -> str | None:
        """Each change; how the job ended, None when it has not."""
        async with aclosing(topic.follow_run()) as updates:
            async for update in updates:
                # The protocol has heartbeats of its own.
                if not update.beat and not await self._socket.send(stream_encoding.status_frame(update.view)):
                    return None
                if update.view.is_terminal:
                    return status_of(update.view.plain)
        return None

    async def _send_log(self, topic: RunTopic, begin: LogPosition | None) -> bool:
        """All lines; whether these were all."""
        if begin is None:
            return True
        async with aclosing(topic.follow_log(begin)) as updates:
            async for update in updates:
                if update.ended:
                    return True
                if update.batches and not await self._socket.send(
                    stream_encoding.log_frame(update.batches, self._run_id)
                ):
                    return False
        return False

    # --- up -----------------------------------------------------------------------------------------------------------

    async def _listen(self) -> Verdict | None:
        while (said := await self._socket.receive()) is not None:
            if self._is_flooded():
                return Code.POLICY, "too many messages"
            try:
                await self._hear(said)
            except PyocoError as error:
                await self._socket.send(stream_encoding.error_frame(error))
            if self._mistakes > MOST_MISTAKES:
                return Code.POLICY, "too many messages that make no sense"
        return None

    async def _hear(self, said: str | bytes) -> None:
        match self._frame(said):
            case Ping():
                await self._socket.send(stream_encoding.frame("pong"))
            case Cancel(reason=reason):
                self._caller.require(frozenset({Scope.RUNS_CANCEL}))
                handled = await self._services.executions.cancel(self._run_id, reason, self._context)
                if handled.refused is None or handled.refused.why is not RejectionReason.FINISHED:
                    handled.accepted()

    def _frame(self, said: str | bytes) -> Ping | Cancel:
        try:
            if isinstance(said, bytes):
                raise InvalidRequest("send text: JSON in a text frame")
            return _FRAMES.validate_python(json_body.parse(said.encode(), FEW_MARKS))
        except ValidationError as error:
            self._mistakes += 1
            raise InvalidRequest(describe(list(error.errors()))) from error
        except PyocoError:
            self._mistakes += 1
            raise

    def _is_flooded(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self._window_ends:
            self._frames, self._window_ends = 0, now + WINDOW_SEC
        self._frames += 1
        return self._frames > MOST_FRAMES


async def _put_out(until_revoked: UntilRevoked) -> Verdict:
    refusal = await until_revoked()
    return code_of(refusal), f"{refusal.err_id} {refusal.message()}"
