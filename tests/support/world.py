"""The stores, index and maintenance of a gateway in memory, with a manual clock and planned faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.commands import Command, CompleteExecution, StartExecution
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Execution, Request, empty_execution
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId
from pyoco_server.domain.queries.query import IndexPosition
from pyoco_server.domain.queries.rows import change_of
from pyoco_server.ports import Clock, RunIndex, SnapshotSeen
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle
from pyoco_server.services.executions.submit import SubmitService, Workflow
from pyoco_server.services.maintenance.cancels import confirm_cancels, expire_nodes
from pyoco_server.services.maintenance.lost_workers import StrayRequeuer
from pyoco_server.services.maintenance.retention import forget_workers, remove_old_runs
from pyoco_server.services.maintenance.snapshots import SnapshotRepairer
from pyoco_server.stores import EventLog, Feed, LoadedSnapshot, LogSeen
from pyoco_server.testing.broker import MemorySubjectLog
from pyoco_server.testing.index import MemoryRunIndex
from pyoco_server.testing.job_queue import MemoryJobQueue
from support.clocks import ManualClock
from support.faults import Faults, behind
from support.stores import memory_ports

USER = CommandContext(actor=Actor(kind="user"), correlation_id="request-1")
HELLO = Request(flow_name="hello", tag="default", input={"name": "world"})
OURS, THEIRS = InstanceId("instance-1"), InstanceId("instance-2")
WORKER = WorkerId("w-1")


class PresentFeed(Feed):
    """Feed of the currently stored data: it ends where the real one would wait."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def snapshot_stream(self) -> tuple[str, int]:
        return await self._feed.snapshot_stream()

    async def snapshot_key_at(self, sequence: int) -> str | None:
        return await self._feed.snapshot_key_at(sequence)

    async def snapshots(self, *, after: int) -> AsyncGenerator[Sequence[SnapshotSeen], None]:
        _, last = await self.snapshot_stream()
        if last > after:
            yield await anext(aiter(self._feed.snapshots(after=after)))

    async def commit_stream(self) -> tuple[str, int]:
        return await self._feed.commit_stream()

    async def commits(self, *, after: int) -> AsyncGenerator[Sequence[LogSeen], None]:
        if (await self.commit_stream())[1] > after:
            yield await anext(aiter(self._feed.commits(after=after)))


class Maintenance:
    """The maintenance of one gateway; each job runs when it is called."""

    def __init__(self, stores: Stores, index: RunIndex, feed: Feed, config: NatsBackendConfig) -> None:
        self.queued: set[RunId] = set()
        repairer = SnapshotRepairer(stores, index, feed, self.queued)
        self.note_commits, self.repair = repairer.note_commits, repairer.repair
        self.requeue_strays = StrayRequeuer(stores, index, config).requeue
        self.confirm_cancels = partial(confirm_cancels, stores, index, config)
        self.expire_nodes = partial(expire_nodes, stores, index)
        self.remove_old_runs = partial(remove_old_runs, stores, index, config)
        self.forget_workers = partial(forget_workers, stores)


class ListenedEvents(EventLog):
    """The event log with access to its listeners. `interrupt` acts as a lost connection."""

    def __init__(self, log: MemorySubjectLog) -> None:
        super().__init__(log)
        self._memory = log

    @property
    def listened_to(self) -> set[str]:
        return self._memory.listened_to

    def interrupt(self) -> None:
        self._memory.interrupt()


class World:
    """`stores` fail as `faults` plan it; `truth` are the same stores, which never fail."""

    def __init__(self, clock: Clock | None = None, ack_wait_sec: float = 30.0, **settings: Any) -> None:
        self.clock = ManualClock()
        self.faults = Faults()
        self.config = NatsBackendConfig(**settings)
        events = MemorySubjectLog()
        self.live = ListenedEvents(events)
        ports = memory_ports(events)
        self.live_feed = ports.feed
        self.feed = PresentFeed(ports.feed)
        self.truth: Stores = replace(
            ports,
            broker=self.faults,
            queue=MemoryJobQueue(ack_wait_sec=ack_wait_sec, max_deliver=self.config.consumer_max_deliver),
            clock=clock or self.clock,
        )
        self.stores = behind(self.faults, self.truth)
        self.index = MemoryRunIndex()
        self.maintenance = self.new_maintenance()

    def new_maintenance(self) -> Maintenance:
        """The maintenance of another gateway, or of this one after a restart."""
        return Maintenance(self.stores, self.index, self.feed, self.config)

    async def submit(self, request: Request = HELLO, workflow: Workflow | None = None) -> RunId:
        return (await SubmitService(stores=self.stores).submit(request, ("default",), USER, workflow)).execution_id

    async def handle(self, run_id: RunId, command: Command) -> CommandResult:
        return await handle(self.truth, run_id, command, USER)

    async def start(self, run_id: RunId, instance_id: InstanceId = OURS, attempt: int = 1) -> None:
        command = StartExecution(at=self.now(), attempt=attempt, worker_id=WORKER, instance_id=instance_id)
        (await self.handle(run_id, command)).accepted()

    async def complete(self, run_id: RunId, instance_id: InstanceId = OURS) -> None:
        (await self.handle(run_id, CompleteExecution(at=self.now(), instance_id=instance_id))).accepted()

    async def execution(self, run_id: RunId) -> Execution:
        """The fold of the log."""
        return fold_commits(await self.truth.events.read(run_id), empty_execution(run_id))

    async def snapshot(self, run_id: RunId) -> LoadedSnapshot | None:
        return await self.truth.snapshots.load(run_id)

    async def status(self, run_id: RunId) -> str:
        """The status in log and snapshot, which must agree."""
        snapshot = await self.snapshot(run_id)
        assert snapshot is not None
        folded = await self.execution(run_id)
        assert snapshot.execution.version == folded.version
        assert snapshot.plain["status"] == run_status(folded)
        return run_status(folded)

    async def until(
        self,
        run_id: RunId,
        *statuses: str,
        tasks: Mapping[str, str] | None = None,
        progress: Mapping[str, float] | None = None,
    ) -> Mapping[str, Any]:
        """Wait until the snapshot of the run has one of these statuses (and these tasks, this progress); return it."""
        async with aclosing(self.live_feed.snapshots(after=0)) as batches:
            async for batch in batches:
                for seen in batch:
                    if seen.run_id != run_id or seen.plain is None or seen.plain["status"] not in statuses:
                        continue
                    if tasks is not None and seen.plain["tasks"] != tasks:
                        continue
                    if progress is None or seen.plain.get("progress") == progress:
                        return seen.plain
        raise AssertionError("the feed ended")

    async def catch_up(self) -> None:
        """Applies everything stored to the index, and passes every commit to maintenance."""
        created, last = await self.feed.snapshot_stream()
        known = self.index.position()
        async for changes in self.feed.snapshots(after=known.sequence if known else 0):
            position = IndexPosition(stream_created=created, sequence=last, last_key=changes[-1].run_id)
            self.index.apply([change_of(seen) for seen in changes], position)
        await self.maintenance.note_commits(pause_sec=0.0)

    def now(self) -> float:
        return self.truth.clock.now()
