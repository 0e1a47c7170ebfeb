"""What a worker knows of one run, and its patient pen: commits and snapshots that wait out a broker that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.decide import Rejection, RejectionReason
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import AppendConflict, BrokerUnavailable, RunNotFound, TerminalNotRecorded
from pyoco_server.ports import LoadedSnapshot
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, commit

logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long to wait before asking again; growing, so that a long outage stays quiet.
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 2.0


class LetGo(Exception):
    """The worker has to stop, and what it wanted to write could not be written."""


class Ledger:
    """One run in this worker's hands: its execution as far as we know it, and the ways to write it on."""

    def __init__(self, stores: Stores, origin: CommandContext, run_id: RunId) -> None:
        self.execution: Execution = empty_execution(run_id)
        self.letting_go = False
        self._stores = stores
        self._origin = origin
        self._known: LoadedSnapshot | None = None
        self._shown_version = 0
        self._writing = asyncio.Lock()
        self._showing = asyncio.Lock()

    @property
    def run_id(self) -> RunId:
        return self.execution.execution_id

    def facts(self) -> dict[str, object]:
        """By which a log line about the run is found."""
        correlation_id = self._origin.correlation_id
        return {"run_id": self.run_id} | ({} if correlation_id is None else {"correlation_id": correlation_id})

    async def open(self) -> Execution:
        """Read the run: its snapshot, or its log where there is no snapshot (yet)."""
        self._known = await self._stores.snapshots.load(self.run_id)
        if self._known is not None:
            self.execution = self._known.execution
            self._shown_version = self.execution.version
        else:
            await self.refresh()
        return self.execution

    async def refresh(self) -> None:
        """Take in what others have written."""
        async with self._writing:
            newer = await self._stores.events.read(self.run_id, after=self.execution.version)
            if newer:
                self.execution = fold_commits(newer, self.execution)

    async def commit(self, command: Command) -> CommandResult:
        """Decide and append, however long that takes; `LetGo` when the worker must stop first."""
        return await self._patiently(lambda: self._commit(command))

    async def show(self) -> None:
        """Make the snapshot show what we know; calls that come meanwhile are served by one write."""
        async with self._showing:
            if self._shown_version < self.execution.version:
                await self._patiently(self._advance)

    async def beat(self) -> None:
        """Renew the run's heartbeat; the snapshot read on the way may show that others have written."""
        if self._showing.locked():
            # The snapshot is being written, however long that takes; all runs of the worker share this heartbeat.
            await self.refresh()
            return
        async with self._showing:
            seen = await self._stores.snapshots.touch(self.run_id, self._stores.clock.now())
            self._known = seen or self._known
        if seen is not None and seen.execution.version > self.execution.version:
            await self.refresh()

    async def _commit(self, command: Command) -> CommandResult:
        async with self._writing:
            try:
                handled = await commit(self._stores, self.execution, command, self._origin)
            except RunNotFound:
                gone = Rejection(why=RejectionReason.FINISHED, detail="retention has removed the run")
                return CommandResult(execution=self.execution, refused=gone)
            self.execution = handled.execution
            return handled

    async def _advance(self) -> None:
        execution = self.execution
        self._known = await self._stores.snapshots.advance(execution, known=self._known, create=self._known is None)
        self._shown_version = execution.version

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        pause = FIRST_PAUSE_SEC
        while True:
            try:
                return await attempt()
            except (BrokerUnavailable, AppendConflict) as error:
                if self.letting_go:
                    raise LetGo from error
                logger.warning(
                    "could not write; trying again",
                    extra=self.facts()
                    | {
                        "seconds": pause,
                        "err_id": TerminalNotRecorded.err_id,
                        "msg_id": TerminalNotRecorded.msg_id,
                    },
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SEC)
