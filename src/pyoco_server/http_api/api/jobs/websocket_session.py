"""One conversation about a job: its status and its log down, commands up, until the job is over or somebody goes.

    watcher of the run ──▶ status frames ─┐
    follower of the log ─▶ log frames ────┼─▶ socket, one frame after the other        both over ─▶ `end`, closed
    socket ─▶ frames up ─▶ pong, error ───┘

Nothing waits for a slow reader but the place of its follower and the newest view of its watcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import InvalidRequest, PyocoError
from pyoco_server.http_api.api.jobs import stream_encoding
from pyoco_server.http_api.api.jobs.translate import status_of
from pyoco_server.http_api.protocol import request_parsing
from pyoco_server.http_api.protocol.websocket import Code, Socket, code_of
from pyoco_server.http_api.responses.problems import describe
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext
from pyoco_server.services.streaming.log_stream_hub import LogFollower, Sign
from pyoco_server.services.streaming.watch_channel import Watcher

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
        """Tell the job until one of both sides has enough; how to close, None when the peer has gone."""
        watcher = await self._services.watches.open(self._run_id, tenant_filter=self._caller.tenant_filter)
        if watcher is None:
            return Code.NORMAL, ""
        follower: LogFollower | None = None
        try:
            if logs:
                feed = self._services.log_streams
                follower = await feed.follow(
                    self._run_id, tenant_filter=self._caller.tenant_filter, place=place, tail=tail
                )
            return await _first(
                self._tell(watcher, follower),
                self._listen(),
                self._put_out_when_slow(),
                *([_put_out(until_revoked)] if until_revoked is not None else []),
            )
        finally:
            watcher.close()
            if follower is not None:
                follower.close()

    # --- down ---------------------------------------------------------------------------------------------------------

    async def _tell(self, watcher: Watcher, follower: LogFollower | None) -> Verdict:
        try:
            async with asyncio.TaskGroup() as group:
                status = group.create_task(self._tell_status(watcher))
                is_read = group.create_task(self._tell_log(follower))
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

    async def _tell_status(self, watcher: Watcher) -> str | None:
        """Each change; how the job ended, None when it has not."""
        ended = None
        while (told := await watcher.next()) is not None:
            # Signs of life are the protocol's own here.
            if not told.beat and not await self._socket.send(stream_encoding.status_frame(told.view)):
                return None
            ended = status_of(told.view.plain) if told.view.is_terminal else None
        return ended

    async def _tell_log(self, follower: LogFollower | None) -> bool:
        """All lines; whether these were all."""
        while follower is not None:
            told = await follower.next()
            if isinstance(told, Sign):
                if told is not Sign.ALIVE:
                    return told is Sign.OVER
            elif not await self._socket.send(stream_encoding.log_frame(await follower.with_more(told), self._run_id)):
                return False
        return True

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
            return _FRAMES.validate_python(request_parsing.parse_json(said.encode(), FEW_MARKS))
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


async def _first(*talks: Any) -> Verdict | None:
    """What the first of them comes to; the others are ended."""
    tasks = [asyncio.ensure_future(talk) for talk in talks]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        verdict: Verdict | None = next(task for task in tasks if task in done).result()
        return verdict
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
