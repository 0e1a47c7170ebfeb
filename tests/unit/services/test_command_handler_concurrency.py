"""Concurrent attempts of one request share a commit id: it is stored once, and each attempt returns it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.execution.codec import event_id
from pyoco_server.domain.execution.commands import AddTag, CancelExecution, Command, StartExecution, StartNode
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import CommitId, NodeId
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.command_handler import CommandResult, handle
from support.world import USER, World
from unit.domain.execution.strategies import RUN_ID, advancing, commands, thorough
from unit.services.test_command_handler_faults import CREATE, Scene, Writer, log_faults, pauses

OURS = CommitId("ours")


@dataclass
class Holding:
    """Hold."""

    is_overtaken: bool = False
    event_ids: list[str] = field(default_factory=list)

    async def overtaken(self) -> bool:
        return self.is_overtaken

    def emitted(self, commit_id: CommitId, events: int) -> None:
        self.event_ids += [event_id(commit_id, place) for place in range(events)]


def keyed(hold: Holding, *, resumed: bool = False) -> CommandContext:
    return replace(USER, idempotency_key="k-1", commit_id=OURS, resumed=resumed, hold=hold)


async def test_a_commit_has_the_id_and_key_of_its_request_and_reports_its_events(world: World) -> None:
    run_id, hold = await world.submit(), Holding()

    handled = await handle(world.stores, run_id, CancelExecution(at=2.0), keyed(hold))

    stored = (await world.truth.events.read(run_id))[-1].commit
    assert (stored.commit_id, stored.idempotency_key) == (OURS, "k-1")
    assert handled.commit_id == OURS
    assert hold.event_ids == ["ours.0"]


async def test_a_repeated_command_returns_the_version_of_its_own_commit(world: World) -> None:
    run_id = await world.submit()
    first = await handle(world.stores, run_id, AddTag(at=2.0, tag="ours"), keyed(Holding()))
    await world.handle(run_id, AddTag(at=3.0, tag="theirs"))

    again = await handle(world.stores, run_id, AddTag(at=2.0, tag="ours"), keyed(Holding(), resumed=True))

    assert again.version == first.version == first.execution.version
    assert again.execution.version > again.version


async def test_a_repeated_command_returns_its_events_and_the_current_run(world: World) -> None:
    run_id = await world.submit()
    first = await handle(world.stores, run_id, AddTag(at=2.0, tag="blue"), keyed(Holding()))
    await world.start(run_id)
    hold = Holding()

    again = await handle(world.stores, run_id, AddTag(at=9.0, tag="blue"), keyed(hold, resumed=True))

    assert again.events == first.events
    assert again.execution == await world.execution(run_id)
    assert hold.event_ids == ["ours.0"]


async def test_a_repeatable_command_is_applied_once(world: World) -> None:
    """A start with the next attempt is a take-over; a repetition would be a second one."""
    run_id = await world.submit()
    await world.start(run_id)
    await handle(world.stores, run_id, StartExecution(at=2.0, attempt=2), keyed(Holding()))

    again = await handle(world.stores, run_id, StartExecution(at=3.0, attempt=3), keyed(Holding(), resumed=True))

    assert again.execution.attempt == 2


async def test_the_next_attempt_advances_the_snapshot_after_a_crash(world: World) -> None:
    run_id = await world.submit()
    world.faults.fail("snapshots.advance")
    with pytest.raises(Exception, match="nats"):
        await handle(world.stores, run_id, CancelExecution(at=2.0), keyed(Holding()))

    await handle(world.stores, run_id, CancelExecution(at=3.0), keyed(Holding(), resumed=True))

    assert await world.status(run_id) == "CANCELLING"


async def test_a_faster_twin_commits_for_both(world: World) -> None:
    """The commit of the twin wins, although a third writer changed the run between our read and its append."""
    run_id = await world.submit()
    hold = Holding()

    async def twin() -> None:
        await world.handle(run_id, AddTag(at=2.0, tag="third"))
        await handle(world.truth, run_id, CancelExecution(at=3.0, reason="twin"), keyed(Holding(), resumed=True))

    world.faults.before("events.append", twin)
    handled = await handle(world.stores, run_id, CancelExecution(at=4.0, reason="ours"), keyed(hold))

    assert handled.execution == await world.execution(run_id)
    assert handled.events == (await world.truth.events.read(run_id))[-1].commit.events
    assert handled.execution.cancel is not None
    assert handled.execution.cancel.reason == "twin"
    assert hold.event_ids == ["ours.0"]


async def test_an_attempt_overtaken_before_its_read_is_not_rejected_by_the_commit_of_its_twin(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    node = StartNode(at=2.0, node_id=NodeId("a"), attempt=1)
    hold = Holding()

    async def twin() -> None:
        hold.is_overtaken = True
        (await handle(world.truth, run_id, node, keyed(Holding(), resumed=True))).accepted()

    world.faults.before("snapshots.load", twin)
    handled = await handle(world.stores, run_id, node, keyed(hold))

    assert handled.refused is None
    assert [stored.commit.commit_id for stored in await world.truth.events.read(run_id)].count(OURS) == 1
    assert handled.events == (await world.truth.events.read(run_id))[-1].commit.events


async def test_a_command_without_a_key_needs_no_additional_read(world: World) -> None:
    run_id = await world.submit()
    world.faults.calls.clear()

    await handle(world.stores, run_id, CancelExecution(at=2.0), USER)

    assert world.faults.calls == ["snapshots.load", "events.append", "snapshots.advance"]


lines = st.integers(0, 7) | commands


@thorough
@given(st.lists(st.integers(0, 7), max_size=4), lines, st.integers(0, 3), pauses, log_faults)
def test_for_any_interleaving_the_commit_is_stored_once_and_returned_to_both(
    before: list[int], line: Command | int, late: int, gaps: list[int], faults: list[object]
) -> None:
    scene = Scene(pauses=gaps, faults=faults)  # type: ignore[arg-type]

    answers = asyncio.run(_both(scene, before, line, late))

    history = scene.history
    ours = [stored.commit for stored in history if stored.commit.commit_id == OURS]
    assert len({stored.commit.commit_id for stored in history}) == len(history)
    for answer in answers:
        assert answer.events == (ours[0].events if ours else ())
        seen, now = answer.execution, scene.truth(answer.execution.version)
        assert (seen.status, seen.labels, seen.holder, seen.cancel) == (now.status, now.labels, now.holder, now.cancel)


async def _both(scene: Scene, before: list[int], line: Command | int, late: int) -> list[CommandResult]:
    writer = Writer("writer", scene)
    await writer.send(CREATE)
    await writer.play(list(before))
    options = advancing(scene.truth())
    command = options[line % len(options)] if isinstance(line, int) and options else line
    if isinstance(command, int):
        command = AddTag(at=2.0, tag="last")
    scene.commands_by_id[OURS] = command
    hold = Holding()
    stores = writer._stores(OURS)

    async def twin() -> CommandResult:
        for _ in range(late):
            await asyncio.sleep(0)
        hold.is_overtaken = True
        return await handle(stores, RUN_ID, command, _origin(Holding(), resumed=True))

    return list(await asyncio.gather(handle(stores, RUN_ID, command, _origin(hold)), twin()))


def _origin(hold: Holding, *, resumed: bool = False) -> CommandContext:
    return CommandContext(actor=Actor(kind="user"), commit_id=OURS, resumed=resumed, hold=hold)
