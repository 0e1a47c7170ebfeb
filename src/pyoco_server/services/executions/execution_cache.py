"""Commands on executions whose nodes are claimed one by one, serialised per execution by an in-memory cache.

    command ─▶ lock of the execution ─▶ decide and append, from the cached state ─▶ answer
                                               │
                        snapshot: at once when the status changed, else batched

Without it a thousand holders of one execution's nodes would each read its snapshot, decide, and lose a thousand appends
to each other. A cached state is only a starting point: when another gateway wrote, the append is refused and `commit`
reads the new commits. A snapshot that this process fails to write is advanced by the maintenance of any gateway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.events import NodeProgressReported
from pyoco_server.domain.execution.snapshot import TRUNCATED, run_status
from pyoco_server.domain.execution.state import Execution, NodeStatus, empty_execution
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import BrokerUnavailable, PyocoError
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, commit, read_execution
from pyoco_server.services.loops import log_and_continue, wait_event
from pyoco_server.stores import LoadedSnapshot

logger = logging.getLogger(__name__)

# A snapshot is written as a whole: one that takes long pauses long, so that commands get their share of the time. A
# small one is written after nearly every command, and claims find its nodes.
PAUSE_PER_WRITE_TIME = 4.0
MAX_PAUSE_SEC = 0.1
# No claim depends on progress: reports of progress are batched for longer.
PROGRESS_BATCH_SEC = 0.1
RETRY_SEC = 0.5
MAX_ENTRIES = 256
# Commit ids remembered per execution.
MAX_OWN_COMMITS = 1000
# Snapshots written at a time for a list or a claim.
CONCURRENT_FLUSHES = 16


@dataclass(slots=True, eq=False)
class _Entry:
    """The cached state of one execution, and its snapshot as this process last stored it.

    `read_at` is when it was last read from the stores; `own_commits` are the request commits appended here since then.
    So it cannot contain a request commit that was begun after `read_at` and is not in `own_commits`.
    """

    run_id: RunId
    execution: Execution | None = None
    stored: LoadedSnapshot | None = None
    read_at: float = float("inf")
    own_commits: set[CommitId] = field(default_factory=set)
    users: int = 0
    write_at: float | None = None
    has_only_progress: bool = True
    paused_until: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_ahead(self) -> bool:
        """Whether the stored snapshot lacks an acknowledged change."""
        stored = self.stored.execution.version if self.stored else 0
        return self.execution is not None and self.execution.version > stored

    def mark_read(self, now: float) -> None:
        self.read_at = now
        self.own_commits.clear()

    def cannot_contain(self, context: CommandContext) -> bool:
        """Whether the commit of this context is surely not in the state, so that its lease need not be checked."""
        return not context.resumed and self.read_at < context.begun_at and context.commit_id not in self.own_commits

    def note(self, result: CommandResult, context: CommandContext, now: float) -> None:
        if result.looked or len(self.own_commits) >= MAX_OWN_COMMITS:
            self.mark_read(now)
        if context.commit_id is not None and result.commit_id is not None:
            self.own_commits.add(result.commit_id)


class ExecutionCache:
    """The cache of one gateway. `run` writes the batched snapshots; all other methods may be called at any time."""

    def __init__(self, stores: Stores, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready` is called when a snapshot with claimable nodes was written."""
        self._stores = stores
        self._on_ready = on_ready
        self._entries: OrderedDict[RunId, _Entry] = OrderedDict()
        # Entries, not ids: an evicted entry that is still being flushed must not take its successor out.
        self._pending: dict[_Entry, None] = {}
        self._changed = asyncio.Event()
        self._flushing = asyncio.Semaphore(CONCURRENT_FLUSHES)

    async def handle(self, run_id: RunId, command: Command, context: CommandContext) -> CommandResult:
        """Carry out a command; when it returns the events have it, and soon the snapshot."""
        entry = self._acquire(run_id)
        try:
            async with entry.lock:
                known = entry.execution or await self._load(entry)
                result = await commit(self._stores, known, command, context, is_new=entry.cannot_contain(context))
                entry.note(result, context, self._now())
                if result.execution.exists:
                    entry.execution = result.execution
                    await self._store(entry, known, result)
                return result
        except BaseException:
            entry.execution = None  # it may be wrong: the next command reads it anew
            raise
        finally:
            entry.users -= 1

    async def look(self, run_id: RunId) -> Execution:
        """The execution as its events say now; one that does not exist has no events."""
        entry = self._entries.get(run_id)
        return await read_execution(self._stores, run_id, entry.execution if entry is not None else None)

    async def run(self) -> None:
        """Write the batched snapshots when they are due, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with log_and_continue("snapshots"):
                await self._write_pending()

    async def flush(self, *, progress: bool = False) -> None:
        """Write the pending snapshots, some at a time, before a list is read; failed ones are left to maintenance.

        Those with nothing but progress are skipped unless asked for: no list depends on it, and it is at most
        `PROGRESS_BATCH_SEC` late.
        """
        await self._flush(
            entry for entry in self._entries.values() if entry.is_ahead and (progress or not entry.has_only_progress)
        )

    async def flush_one(self, run_id: RunId) -> None:
        """The same for one execution, before its snapshot is read; with its progress."""
        entry = self._entries.get(run_id)
        if entry is not None and entry.is_ahead:
            await self._flush([entry])

    async def _flush(self, entries: Iterable[_Entry]) -> None:
        async def write(entry: _Entry) -> None:
            async with self._flushing:
                await self._write_locked(entry)

        flushed = list(entries)
        outcomes = await asyncio.gather(*map(write, flushed), return_exceptions=True)
        for entry, outcome in zip(flushed, outcomes, strict=True):
            if isinstance(outcome, PyocoError):
                facts = {"run_id": entry.run_id, "error": outcome.detail}
                logger.info("snapshot not written, left to maintenance", extra=facts)
            elif outcome is not None:
                raise outcome

    def _acquire(self, run_id: RunId) -> _Entry:
        entry = self._entries.get(run_id)
        if entry is None:
            entry = self._entries[run_id] = _Entry(run_id)
        self._entries.move_to_end(run_id)
        entry.users += 1
        if len(self._entries) > MAX_ENTRIES:
            self._evict()
        return entry

    def _evict(self) -> None:
        for entry in self._entries.values():
            if not entry.users and entry not in self._pending:
                del self._entries[entry.run_id]
                return

    async def _load(self, entry: _Entry) -> Execution:
        entry.stored = await self._stores.snapshots.load(entry.run_id)
        entry.mark_read(self._now())
        return entry.stored.execution if entry.stored else empty_execution(entry.run_id)

    async def _store(self, entry: _Entry, before: Execution, result: CommandResult) -> None:
        if entry.execution is None or not entry.is_ahead:
            return
        if not before.exists or run_status(before) != run_status(entry.execution):
            await self._write(entry)
            return
        # No claim and no list depends on progress.
        is_progress = not result.looked and all(isinstance(event, NodeProgressReported) for event in result.events)
        entry.has_only_progress = entry.has_only_progress and is_progress
        delay_sec = PROGRESS_BATCH_SEC if is_progress else 0.0
        self._defer(entry, max(self._now() + delay_sec, entry.paused_until))

    def _defer(self, entry: _Entry, write_at: float) -> None:
        if entry.write_at is None or write_at < entry.write_at:
            entry.write_at = write_at
            self._pending[entry] = None
            self._changed.set()

    async def _write(self, entry: _Entry) -> None:
        """Write the snapshot; the caller holds the lock."""
        if entry.execution is None or not entry.is_ahead:
            return
        create, began = entry.stored is None, self._now()
        entry.stored = await self._stores.snapshots.advance(entry.execution, known=entry.stored, create=create)
        entry.has_only_progress = True
        ended = self._now()
        entry.paused_until = ended + min(PAUSE_PER_WRITE_TIME * (ended - began), MAX_PAUSE_SEC)
        if any(node.status is NodeStatus.READY for node in entry.execution.nodes.values()):
            self._on_ready()
        if entry.stored is None or entry.execution.status.is_terminal:
            entry.execution = None  # removed by retention, or finished: it is seldom read again
        elif TRUNCATED in entry.stored.value:
            # What the snapshot had to truncate is dropped here too: the events have it, and no decision needs it.
            entry.execution = LoadedSnapshot.read(entry.stored.value, entry.stored.revision).execution
            entry.mark_read(self._now())

    async def _write_pending(self) -> None:
        while self._pending:
            first = min(entry.write_at or 0.0 for entry in self._pending)
            if (wait_sec := first - self._now()) > 0:
                self._changed.clear()
                await wait_event(self._changed, wait_sec)
            now = self._now()
            due = [entry for entry in self._pending if (entry.write_at or 0.0) <= now]
            outcomes = await asyncio.gather(*map(self._write_locked, due), return_exceptions=True)
            await self._retry_failed(due, outcomes)

    async def _write_locked(self, entry: _Entry) -> None:
        async with entry.lock:
            entry.write_at = None
            self._pending.pop(entry, None)
            await self._write(entry)

    async def _retry_failed(self, due: list[_Entry], outcomes: list[BaseException | None]) -> None:
        """Defer what failed because the broker is unavailable; log all other failures."""
        is_unavailable = False
        for entry, outcome in zip(due, outcomes, strict=True):
            if isinstance(outcome, BrokerUnavailable):
                is_unavailable = True
                if self._entries.get(entry.run_id) is entry:  # an evicted one is left to maintenance
                    self._defer(entry, self._now())
            elif isinstance(outcome, Exception):
                logger.error("snapshot not written", exc_info=outcome, extra={"run_id": entry.run_id})
            elif isinstance(outcome, BaseException):
                raise outcome
        if is_unavailable:
            await asyncio.sleep(RETRY_SEC)

    def _now(self) -> float:
        return self._stores.clock.monotonic()
