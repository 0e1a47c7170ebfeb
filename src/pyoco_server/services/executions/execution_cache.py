"""Commands to executions whose nodes are taken one by one: in turn, each on what the last one left; it decides nothing.

    command ─▶ wait for one's turn at this execution ─▶ decide and append, on what is at hand ─▶ answer
                                                             │
                                       snapshot: at once when the status changed, else when it has rested

A thousand holders of one execution's nodes would otherwise read its snapshot, decide, and lose against each other a
thousand times each. What is kept at hand is only a place to start from: where it is out of date, because another
gateway wrote, the append is refused, and `commit` reads what is new. A snapshot that this process does not come to
write is advanced by any gateway's caretaker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from pyoco_server.domain.execution.commands import Command
from pyoco_server.domain.execution.events import NodeProgressReported
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.snapshot import TRUNCATED, run_status
from pyoco_server.domain.execution.state import Execution, NodeStatus, empty_execution
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import BrokerUnavailable, PyocoError
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, commit
from pyoco_server.services.maintenance.error_handling import log_and_continue
from pyoco_server.stores import LoadedSnapshot

logger = logging.getLogger(__name__)

# A snapshot is written whole, whatever has changed of it: one that takes long rests long, so that there is time for
# commands too. What is small is written after nearly every command, and found by those who look for work.
REST_PER_WORK = 4.0
LONGEST_REST_SEC = 0.1
# Nobody finds work by how far a node is: that may gather longer, while its holder reports again and again.
GATHER_SEC = 0.1
PAUSE_SEC = 0.5
# Executions kept at hand: those that were asked about last.
AT_HAND = 256
# Commits of ours that are remembered of each.
MAX_OURS = 1000


@dataclass(slots=True)
class _File:
    """One execution at hand: as this process knows it, and as its snapshot was last stored by this process.

    `read_at` is when it was last read from the stores; `ours` are the commits with a request's own id that were
    appended to it here since then. So it has nothing in it that came into being later, and is not among those.
    """

    execution: Execution | None = None
    stored: LoadedSnapshot | None = None
    read_at: float = float("inf")
    ours: set[CommitId] = field(default_factory=set)
    users: int = 0
    write_at: float | None = None
    rested_at: float = float("-inf")
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def version_stored(self) -> int:
        return self.stored.execution.version if self.stored else 0

    @property
    def is_ahead(self) -> bool:
        """Whether the snapshot lacks something that was answered here, or is being written just now."""
        return self.execution is not None and self.execution.version > self.version_stored

    def was_read(self, now: float) -> None:
        self.read_at = now
        self.ours.clear()

    def cannot_have(self, origin: CommandContext) -> bool:
        """Whether the commit of this origin is surely not in it, so that nobody needs to be asked."""
        return not origin.resumed and self.read_at < origin.begun_at and origin.commit_id not in self.ours

    def note(self, handled: CommandResult, origin: CommandContext, now: float) -> None:
        if handled.looked or len(self.ours) >= MAX_OURS:
            self.was_read(now)
        if origin.commit_id is not None and handled.commit_id is not None:
            self.ours.add(handled.commit_id)


class ExecutionCache:
    """One gateway's desk. `run` writes what was left to gather; `handle` may be called at any time."""

    def __init__(self, stores: Stores, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready` is called when a snapshot was written with nodes in it that can be taken."""
        self._stores = stores
        self._on_ready = on_ready
        self._files: OrderedDict[RunId, _File] = OrderedDict()
        self._left: set[RunId] = set()
        self._something = asyncio.Event()

    async def handle(self, run_id: RunId, command: Command, origin: CommandContext) -> CommandResult:
        """Carry out a command; when it returns the log has it, and soon the snapshot."""
        file = self._open(run_id)
        try:
            async with file.turn:
                known = file.execution or await self._load(run_id, file)
                handled = await commit(self._stores, known, command, origin, is_new=file.cannot_have(origin))
                file.note(handled, origin, self._now())
                if handled.execution.exists:
                    file.execution = handled.execution
                    await self._keep(run_id, file, known, handled)
                return handled
        except BaseException:
            file.execution = None  # what is at hand may be wrong: the next one reads it anew
            raise
        finally:
            file.users -= 1

    async def look(self, run_id: RunId) -> Execution:
        """The execution as its log tells it now; one that does not exist has no events."""
        file = self._files.get(run_id)
        known = file.execution if file is not None else None
        if known is None:
            loaded = await self._stores.snapshots.load(run_id)
            known = loaded.execution if loaded else empty_execution(run_id)
        return fold_commits(await self._stores.events.read(run_id, after=known.version), known)

    async def run(self) -> None:
        """Write the snapshots whose time has come, for ever."""
        while True:
            await self._something.wait()
            self._something.clear()
            with log_and_continue("snapshots"):
                await self._write_left()

    async def settle(self) -> None:
        """Write what is left now, for somebody who is about to look at lists; what cannot be written stays left."""
        # The files with them: one that another writes meanwhile may be put away before its turn here.
        for run_id, file in [(run_id, file) for run_id, file in self._files.items() if file.is_ahead]:
            await self._settle(run_id, file)

    async def settle_one(self, run_id: RunId) -> None:
        """The same of one execution, for somebody who is about to look at its snapshot."""
        file = self._files.get(run_id)
        if file is not None and file.is_ahead:
            await self._settle(run_id, file)

    async def _settle(self, run_id: RunId, file: _File) -> None:
        try:
            await self._write_in_turn(run_id, file)
        except PyocoError as error:
            logger.info("snapshot left to a caretaker", extra={"run_id": run_id, "error": error.detail})

    def _open(self, run_id: RunId) -> _File:
        file = self._files.get(run_id)
        if file is None:
            file = self._files[run_id] = _File()
        self._files.move_to_end(run_id)
        file.users += 1
        if len(self._files) > AT_HAND:
            self._put_away()
        return file

    def _put_away(self) -> None:
        for run_id, file in self._files.items():
            if not file.users and run_id not in self._left:
                del self._files[run_id]
                return

    async def _load(self, run_id: RunId, file: _File) -> Execution:
        loaded = await self._stores.snapshots.load(run_id)
        file.stored = loaded
        file.was_read(self._now())
        return loaded.execution if loaded else empty_execution(run_id)

    async def _keep(self, run_id: RunId, file: _File, before: Execution, handled: CommandResult) -> None:
        if file.execution is None or not file.is_ahead:
            return
        if not before.exists or run_status(before) != run_status(file.execution):
            await self._write(run_id, file)
        else:
            soonest = self._now() + (GATHER_SEC if _only_says_how_far(handled) else 0.0)
            self._leave(run_id, file, max(soonest, file.rested_at))

    def _leave(self, run_id: RunId, file: _File, write_at: float) -> None:
        if file.write_at is None or write_at < file.write_at:
            file.write_at = write_at
            self._left.add(run_id)
            self._something.set()

    async def _write(self, run_id: RunId, file: _File) -> None:
        """Called by whoever has the turn."""
        if file.execution is None or not file.is_ahead:
            return
        create, began = file.stored is None, self._now()
        file.stored = await self._stores.snapshots.advance(file.execution, known=file.stored, create=create)
        ended = self._now()
        file.rested_at = ended + min(REST_PER_WORK * (ended - began), LONGEST_REST_SEC)
        if any(node.status is NodeStatus.READY for node in file.execution.nodes.values()):
            self._on_ready()
        if file.stored is None or file.execution.status.is_terminal:
            file.execution = None  # retention has taken it, or will: what is finished is seldom asked for again
        elif TRUNCATED in file.stored.value:
            # What its snapshot had to give up is given up here too: the log has it, and nobody decides by it.
            file.execution = LoadedSnapshot.read(file.stored.value, file.stored.revision).execution
            file.was_read(self._now())

    async def _write_left(self) -> None:
        while self._left:
            soonest = min(self._left, key=lambda run_id: self._files[run_id].write_at or 0.0)
            wait_sec = (self._files[soonest].write_at or 0.0) - self._now()
            if wait_sec > 0:
                await self._something_sooner(wait_sec)
            now = self._now()
            due = [run_id for run_id in self._left if (self._files[run_id].write_at or 0.0) <= now]
            outcomes = await asyncio.gather(
                *(self._write_in_turn(run_id, self._files[run_id]) for run_id in due), return_exceptions=True
            )
            await self._put_off(due, outcomes)

    async def _something_sooner(self, timeout_sec: float) -> None:
        """Wait until the time of the next one has come, or until there is another that may be due before it."""
        self._something.clear()
        try:
            async with asyncio.timeout(timeout_sec):
                await self._something.wait()
        except TimeoutError:
            return

    async def _write_in_turn(self, run_id: RunId, file: _File) -> None:
        async with file.turn:
            file.write_at = None
            self._left.discard(run_id)
            await self._write(run_id, file)

    async def _put_off(self, due: list[RunId], outcomes: list[BaseException | None]) -> None:
        """What could not be written while the broker is away is written later; what is wrong otherwise is told."""
        away = False
        for run_id, outcome in zip(due, outcomes, strict=True):
            if isinstance(outcome, BrokerUnavailable):
                away = True
                if run_id in self._files:  # one that was put away meanwhile is left to a caretaker
                    self._leave(run_id, self._files[run_id], self._now())
            elif isinstance(outcome, Exception):
                logger.error("snapshot could not be written", exc_info=outcome, extra={"run_id": run_id})
            elif isinstance(outcome, BaseException):
                raise outcome
        if away:
            await asyncio.sleep(PAUSE_SEC)

    def _now(self) -> float:
        return self._stores.clock.monotonic()


def _only_says_how_far(handled: CommandResult) -> bool:
    """Whether nothing has come of it that others may be waiting for."""
    return not handled.looked and all(isinstance(event, NodeProgressReported) for event in handled.events)
