"""Concurrent writers, lost responses, foreign commits and crashed writers: the log stays valid."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.commands import (
    AddTag,
    CancelExecution,
    Command,
    CreateExecution,
    StartExecution,
    StartNode,
)
from pyoco_server.domain.execution.decide import Rejection, decide
from pyoco_server.domain.execution.events import Actor, Commit, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, Request, Status, empty_execution
from pyoco_server.domain.ids import CommitId, InstanceId, RunId
from pyoco_server.services.context import CommandContext, Counters, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle
from pyoco_server.stores import EventLog, SnapshotStore
from support.faulty_log import Fault, FaultyLog, FaultySnapshots, Turns, WriterDied
from unit.domain.execution.strategies import NODE_IDS, RUN_ID, advancing, commands, creates, thorough

ORIGIN = CommandContext(actor=Actor(kind="user", id="alice"))
CREATE = CreateExecution(at=1.0, request=Request(flow_name="etl"))

# A number selects one of the commands that advance the execution in its current state.
Line = Command | int
lines: st.SearchStrategy[Line] = st.integers(0, 7) | st.integers(0, 7) | commands
pauses = st.lists(st.integers(0, 3), max_size=60)
log_faults = st.lists(st.sampled_from([Fault.NONE, Fault.NONE, Fault.LOST_ACK, Fault.SLIPPED_IN]), max_size=30)
deaths = st.lists(st.sampled_from([Fault.NONE, Fault.NONE, Fault.NONE, Fault.WRITER_DIED]), max_size=30)


@dataclass(slots=True, kw_only=True)
class Scene:
    """One run, its two stores, and the command of each commit id."""

    pauses: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    deaths: list[Fault] = field(default_factory=list)
    max_public_bytes: int = 1_000_000
    commands_by_id: dict[CommitId, Command] = field(default_factory=dict)
    log: FaultyLog = field(init=False)
    snapshots: FaultySnapshots = field(init=False)

    def __post_init__(self) -> None:
        turns = Turns(self.pauses)
        self.log = FaultyLog(turns, self.faults, self._foreign_commit)
        self.snapshots = FaultySnapshots(turns, self.deaths, self.max_public_bytes)

    @property
    def history(self) -> list[StoredCommit]:
        return self.log.commits(RUN_ID)

    def truth(self, version: int | None = None) -> Execution:
        """The fold of the log, up to a version."""
        upto = [stored for stored in self.history if version is None or stored.sequence <= version]
        return fold_commits(upto, empty_execution(RUN_ID))

    def _foreign_commit(self) -> Commit | None:
        tag = AddTag(at=2.0, tag=f"foreign-{len(self.commands_by_id)}")
        verdict = decide(self.truth(), tag)
        if isinstance(verdict, Rejection):
            return None
        commit_id = CommitId(tag.tag)
        self.commands_by_id[commit_id] = tag
        return Commit(commit_id=commit_id, occurred_at=2.0, command="AddTag", actor=ORIGIN.actor, events=verdict)


@dataclass(slots=True)
class Writer:
    """One writer process; after a crash it continues with the next line of its script."""

    name: str
    scene: Scene
    answers: dict[CommitId, CommandResult] = field(default_factory=dict)
    version_at_request: dict[CommitId, int] = field(default_factory=dict)

    async def send(self, command: Command) -> CommandResult | None:
        commit_id = CommitId(f"{self.name}-{len(self.scene.commands_by_id)}")
        self.scene.commands_by_id[commit_id] = command
        self.version_at_request[commit_id] = self.scene.truth().version
        try:
            self.answers[commit_id] = await handle(self._stores(commit_id), RUN_ID, command, ORIGIN)
        except WriterDied:
            return None
        return self.answers[commit_id]

    async def play(self, script: list[Line]) -> None:
        for line in script:
            if isinstance(line, int):
                options = advancing(self.scene.truth())
                if options:
                    await self.send(options[line % len(options)])
            else:
                await self.send(line)

    def _stores(self, commit_id: CommitId) -> Stores:
        log: EventLog = self.scene.log
        snapshots: SnapshotStore = self.scene.snapshots
        # `handle` needs no other store.
        stores = SimpleNamespace(
            events=log, snapshots=snapshots, clock=_Clock(), ids=_Ids(commit_id), counters=Counters()
        )
        return cast(Stores, stores)


@dataclass(slots=True)
class _Ids:
    next_commit: CommitId

    def run_id(self) -> RunId:
        return RUN_ID

    def commit_id(self) -> CommitId:
        return self.next_commit

    def instance_id(self) -> InstanceId:
        return InstanceId("i-1")


class _Clock:
    def now(self) -> float:
        return 2.0

    def monotonic(self) -> float:
        return 2.0


async def _perform(scene: Scene, scripts: list[list[Line]]) -> list[Writer]:
    writers = [Writer(f"writer{place}", scene) for place in range(len(scripts))]
    async with asyncio.TaskGroup() as together:
        for writer, script in zip(writers, scripts, strict=True):
            together.create_task(writer.play(script))
    return writers


def _assert_legal(scene: Scene) -> None:
    """Each commit is what `decide` returns on the fold before it, is stored once, and undoes no end."""
    history = scene.history
    assert len({stored.commit.commit_id for stored in history}) == len(history)
    assert [stored.sequence for stored in history] == sorted({stored.sequence for stored in history})
    before = empty_execution(RUN_ID)
    for stored in history:
        assert stored.commit.events == decide(before, scene.commands_by_id[stored.commit.commit_id])
        now = fold_commits([stored], before)
        if before.status.is_terminal:
            assert (now.status, now.nodes) == (before.status, before.nodes)
        if before.cancel_requested_at is not None:
            assert now.status in (Status.ACTIVE, Status.CANCELED)
        before = now


def _assert_true(scene: Scene, writer: Writer) -> None:
    """A writer's results agree with the log: its events are stored, and its rejections follow from the log."""
    kept = {stored.commit.commit_id: stored for stored in scene.history}
    for commit_id, handled in writer.answers.items():
        now = scene.truth(handled.execution.version)
        seen = handled.execution
        assert seen.version >= writer.version_at_request[commit_id], "a result older than its request"
        assert (seen.status, seen.labels, seen.holder, seen.cancel) == (now.status, now.labels, now.holder, now.cancel)
        assert [(n.node_id, n.status, n.attempt) for n in seen.nodes.values()] == [
            (n.node_id, n.status, n.attempt) for n in now.nodes.values()
        ]
        if handled.events:
            assert kept[commit_id].commit.events == handled.events
            assert kept[commit_id].sequence == seen.version
        else:
            assert commit_id not in kept
            # repr, because a refused NaN is not equal to itself.
            assert repr(decide(now, scene.commands_by_id[commit_id])) == repr(handled.refused or ())


@thorough
@given(
    st.lists(st.lists(lines, max_size=7), min_size=1, max_size=4),
    creates,
    pauses,
    log_faults,
    deaths,
    st.sampled_from([0, 600, 1_000_000]),
)
def test_under_all_faults_the_log_is_valid_and_results_agree_with_it(
    scripts: list[list[Line]],
    create: Command,
    gaps: list[int],
    faults: list[Fault],
    dying: list[Fault],
    max_public_bytes: int,
) -> None:
    scene = Scene(pauses=gaps, faults=faults, deaths=dying, max_public_bytes=max_public_bytes)

    writers = asyncio.run(_perform(scene, [[create, *script] for script in scripts]))

    _assert_legal(scene)
    for writer in writers:
        _assert_true(scene, writer)
    snapshot = scene.snapshots.shown(RUN_ID)
    if snapshot is not None and not snapshot.execution.records_truncated:
        assert snapshot.execution == scene.truth(snapshot.execution.version)


@thorough
@given(st.lists(st.lists(lines, max_size=5), min_size=2, max_size=4), pauses, log_faults)
def test_without_crashes_the_snapshot_equals_the_log(
    scripts: list[list[Line]], gaps: list[int], faults: list[Fault]
) -> None:
    scene = Scene(pauses=gaps, faults=faults)

    asyncio.run(_perform(scene, [[CREATE, *script] for script in scripts]))

    snapshot = scene.snapshots.shown(RUN_ID)
    assert snapshot is not None
    assert snapshot.execution == scene.truth()


@pytest.mark.parametrize("faults", [[Fault.LOST_ACK], [Fault.SLIPPED_IN], [Fault.SLIPPED_IN, Fault.LOST_ACK]])
async def test_one_command_is_one_commit_despite_lost_responses(faults: list[Fault]) -> None:
    scene = Scene(faults=[Fault.NONE, *faults])
    writer = Writer("writer", scene)
    await writer.send(CREATE)

    handled = await writer.send(StartExecution(at=2.0))

    assert handled is not None
    assert [stored.commit.command for stored in scene.history].count("StartExecution") == 1
    assert handled.execution == scene.truth()


async def test_a_lost_response_is_found_before_later_commits_of_others() -> None:
    scene = Scene(pauses=[0, 0, 0, 0, 0, 0, 9], faults=[Fault.NONE, Fault.LOST_ACK])
    first, second = Writer("first", scene), Writer("second", scene)
    await first.send(CREATE)

    await asyncio.gather(first.send(StartExecution(at=2.0)), second.send(CancelExecution(at=3.0)))

    _assert_legal(scene)
    assert all(answer.events for writer in (first, second) for answer in writer.answers.values())
    assert [stored.commit.command for stored in scene.history] == [
        "CreateExecution",
        "StartExecution",
        "CancelExecution",
    ]


async def test_an_old_snapshot_of_a_crashed_writer_causes_no_rejection() -> None:
    scene = Scene(deaths=[Fault.NONE, Fault.WRITER_DIED])
    writer = Writer("writer", scene)
    await writer.send(CREATE)
    assert await writer.send(StartExecution(at=2.0)) is None
    behind = scene.snapshots.shown(RUN_ID)

    handled = await writer.send(StartNode(at=3.0, node_id=NODE_IDS[0]))

    assert behind is not None
    assert isinstance(decide(behind.execution, StartNode(at=3.0, node_id=NODE_IDS[0])), Rejection)
    assert handled is not None
    assert handled.accepted() == scene.truth()
