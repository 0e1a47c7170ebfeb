"""One WebSocket session of a job: status and log frames down, commands up, until the job is over or a side leaves.

    changes of the run ─▶ status frames ─┐
    lines of the log ───▶ log frames ────┼─▶ socket, one frame after the other        both over ─▶ `end`, closed
    frames of the peer ─▶ pong, error ───┘

A slow reader has no queue, only a version and a position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import InvalidRequest, PyocoError
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.translate import status_of
from pyoco_server.http_api.protocol import request_parsing
from pyoco_server.http_api.protocol.fields import Strict
from pyoco_server.http_api.protocol.websocket import Code, Socket, code_of
from pyoco_server.http_api.responses.problems import describe
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext
from pyoco_server.services.loops import first_result
from pyoco_server.services.streaming.topics import RunTopic

# Invalid frames, after which the connection is closed.
MOST_MISTAKES = 5
# More frames in one window are a flood.
MOST_FRAMES, WINDOW_SEC = 100, 10.0
# Of the JSON of a frame: what `parse_json` counts before it parses.
MAX_MARKS = 64

UntilRevoked = Callable[[], Awaitable[PyocoError]]
Verdict = tuple[Code, str]


class Ping(Strict):
    """Asks for a `pong`."""

    type: Literal["ping"]


class Cancel(Strict):
    """Cancels the job."""

    type: Literal["cancel"]
    reason: str | None = Field(default=None, max_length=1000)


_FRAMES: TypeAdapter[Ping | Cancel] = TypeAdapter(Annotated[Ping | Cancel, Field(discriminator="type")])


@dataclass(slots=True)
class Session:
    """The frames of one socket. It counts as one stream."""

    socket: Socket
    services: Services
    run_id: RunId
    caller: Caller
    context: CommandContext
    holder: str = ""
    mistakes: int = 0
    frames: int = 0
    window_ends: float = 0.0

    async def run(
        self, place: LogPosition, *, tail: int | None, logs: bool, until_revoked: UntilRevoked | None
    ) -> Verdict | None:
        """Stream the job until either side ends it; returns how to close, None when the peer has disconnected."""
        topics, tenant_filter = self.services.topics, self.caller.tenant_filter
        async with topics.join(
            self.run_id, tenant_filter=tenant_filter, caller=self.caller, holder=self.holder
        ) as topic:
            begin = await topic.open_log(place, tail) if logs else None
            return await first_result(
                self._until_stalled(),
                self._listen(),
                *([_until_revoked(until_revoked)] if until_revoked is not None else []),
                self._send_all(topic, begin),
            )

    async def _send_all(self, topic: RunTopic, begin: LogPosition | None) -> Verdict:
        try:
            async with asyncio.TaskGroup() as group:
                status = group.create_task(self._send_status(topic))
                is_read = group.create_task(self._send_log(topic, begin))
        except ExceptionGroup as broken:
            raise broken.exceptions[0] from broken
        ended = status.result()
        if ended is None or not is_read.result():
            return Code.RESTART, "the gateway stops; connect again"
        await self.socket.send(stream_encoding.frame("end", status=ended))
        return Code.NORMAL, ended

    async def _until_stalled(self) -> Verdict:
        await self.socket.stalled.wait()
        return Code.POLICY, "too slow: no frame was read for long"

    async def _send_status(self, topic: RunTopic) -> str | None:
        """Each change; how the job ended, None when it has not."""
        ended = None
        async with aclosing(topic.follow_run()) as updates:
            async for update in updates:
                if not update.beat:  # the protocol has heartbeats of its own
                    await self.socket.send(stream_encoding.status_frame(update.view))
                ended = status_of(update.view.plain) if update.view.is_terminal else None
        return ended

    async def _send_log(self, topic: RunTopic, begin: LogPosition | None) -> bool:
        """All lines; whether these were all."""
        if begin is None:
            return True
        async with aclosing(topic.follow_log(begin)) as updates:
            async for update in updates:
                if update.batches:
                    await self.socket.send(stream_encoding.log_frame(update.batches, self.run_id))
                if update.ended:
                    return True
        return False

    async def _listen(self) -> Verdict | None:
        while (text := await self.socket.receive()) is not None:
            if self._is_flooded():
                return Code.POLICY, "too many messages"
            try:
                await self._execute(text)
            except PyocoError as error:
                await self.socket.send(stream_encoding.error_frame(error))
            if self.mistakes > MOST_MISTAKES:
                return Code.POLICY, "too many invalid messages"
        return None

    async def _execute(self, text: str | bytes) -> None:
        match self._frame(text):
            case Ping():
                await self.socket.send(stream_encoding.frame("pong"))
            case Cancel(reason=reason):
                self.caller.require(frozenset({Scope.RUNS_CANCEL}))
                handled = await self.services.executions.cancel(self.run_id, reason, self.context)
                if handled.refused is None or handled.refused.why is not RejectionReason.FINISHED:
                    handled.accepted()

    def _frame(self, text: str | bytes) -> Ping | Cancel:
        try:
            if isinstance(text, bytes):
                raise InvalidRequest("send text: JSON in a text frame")
            return _FRAMES.validate_python(request_parsing.parse_json(text.encode(), MAX_MARKS))
        except ValidationError as error:
            self.mistakes += 1
            raise InvalidRequest(describe(list(error.errors()))) from error
        except PyocoError:
            self.mistakes += 1
            raise

    def _is_flooded(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self.window_ends:
            self.frames, self.window_ends = 0, now + WINDOW_SEC
        self.frames += 1
        return self.frames > MOST_FRAMES


async def _until_revoked(until_revoked: UntilRevoked) -> Verdict:
    refusal = await until_revoked()
    return code_of(refusal), f"{refusal.err_id} {refusal.message()}"
