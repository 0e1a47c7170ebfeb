"""The state of one run as its worker knows it. Commits and snapshots are retried until the broker is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import orjson

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.decide import Rejection, RejectionReason
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, empty_execution
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import AppendConflict, BrokerUnavailable, RunNotFound, SnapshotTooLarge, TerminalNotRecorded
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, commit
from pyoco_server.stores import LoadedSnapshot
from pyoco_server.worker.backoff import Backoff

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.1, 2.0


class RunReleased(Exception):
    """The worker has to stop before a pending write succeeded."""


class RunSession:
    """One run held by this worker: its known execution and the writes to it."""

    def __init__(self, stores: Stores, origin: CommandContext, run_id: RunId, max_snapshot_bytes: int) -> None:
        self.execution: Execution = empty_execution(run_id)
        self.is_releasing = False
        self._stores = stores
        self._origin = origin
        self._max_snapshot_bytes = max_snapshot_bytes
        self._known: LoadedSnapshot | None = None
        self._snapshot_version = 0
        self._is_too_large = False
        self._commit_lock = asyncio.Lock()
        self._snapshot_lock = asyncio.Lock()

    @property
    def run_id(self) -> RunId:
        return self.execution.execution_id

    def log_fields(self) -> dict[str, object]:
        correlation_id = self._origin.correlation_id
        return {"run_id": self.run_id} | ({} if correlation_id is None else {"correlation_id": correlation_id})

    async def open(self) -> Execution:
        """Reads the run from its snapshot, or from its log while there is no snapshot."""
        self._known = await self._stores.snapshots.load(self.run_id)
        if self._known is not None:
            self.execution = self._known.execution
            self._snapshot_version = self.execution.version
        else:
            await self.refresh()
        return self.execution

    async def refresh(self) -> None:
        async with self._commit_lock:
            newer = await self._stores.events.read(self.run_id, after=self.execution.version)
            if newer:
                self.execution = fold_commits(newer, self.execution)

    async def commit(self, command: Command) -> CommandResult:
        """Decides and appends, retrying until it succeeds; `RunReleased` when the worker must stop first."""
        return await self._retry(lambda: self._commit(command))

    async def write_snapshot(self) -> None:
        """Brings the snapshot up to date; concurrent calls share one write."""
        async with self._snapshot_lock:
            if self._snapshot_version < self.execution.version:
                await self._retry(self._advance_snapshot)

    async def heartbeat(self) -> None:
        """Renews the run's heartbeat. Reads the log if the snapshot shows that others have written."""
        if self._snapshot_lock.locked():
            # A snapshot write may take long, and all runs of the worker share this heartbeat.
            await self.refresh()
            return
        async with self._snapshot_lock:
            seen = await self._stores.snapshots.touch(self.run_id, self._stores.clock.now())
            self._known = seen or self._known
        if seen is not None and seen.execution.version > self.execution.version:
            await self.refresh()

    async def _commit(self, command: Command) -> CommandResult:
        async with self._commit_lock:
            try:
                handled = await commit(self._stores, self.execution, command, self._origin)
            except RunNotFound:
                gone = Rejection(why=RejectionReason.FINISHED, detail="retention has removed the run")
                return CommandResult(execution=self.execution, refused=gone)
            self.execution = handled.execution
            return handled

    async def _advance_snapshot(self) -> None:
        execution = self.execution
        self._known = await self._stores.snapshots.advance(execution, known=self._known, create=self._known is None)
        self._snapshot_version = execution.version
        if self._known is not None and len(self._known.value) > self._max_snapshot_bytes:
            self._warn_if_too_large(self._known)

    def _warn_if_too_large(self, snapshot: LoadedSnapshot) -> None:
        """Logs once that the public view exceeds its limit although all task records were dropped."""
        public = {name: value for name, value in snapshot.plain.items() if name != "state"}
        size_bytes = len(orjson.dumps(public))
        if size_bytes > self._max_snapshot_bytes and not self._is_too_large:
            self._is_too_large = True
            facts = {"bytes": size_bytes, "limit_bytes": self._max_snapshot_bytes}
            logger.warning(SnapshotTooLarge.message(), extra=self.log_fields() | facts | SnapshotTooLarge.ids())

    async def _retry(self, write: Callable[[], Awaitable[T]]) -> T:
        backoff = Backoff(FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC)
        while True:
            try:
                return await write()
            except (BrokerUnavailable, AppendConflict) as error:
                if self.is_releasing:
                    raise RunReleased from error
                pause_sec = backoff.next_sec()
                facts = {"seconds": pause_sec, "error": error.detail}
                logger.warning("write failed; retrying", extra=self.log_fields() | facts | TerminalNotRecorded.ids())
                await asyncio.sleep(pause_sec)
