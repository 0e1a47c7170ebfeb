"""The audit trail: one record per change, whatever is killed, repeated or done by two gateways at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyoco_server.bootstrap import audit_on
from pyoco_server.domain.audit import AuditQuery, AuditRecord
from pyoco_server.domain.execution.commands import CancelExecution, StartExecution
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.errors import BrokerUnavailable, GraphVersionConflict
from pyoco_server.services.audit import recorder
from pyoco_server.services.audit.reader import AuditReader
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.maintenance.retention import remove_old_runs
from pyoco_server.testing.audit_index import MemoryAuditIndex
from support.world import HELLO, OURS, WORKER, World

ANN = CommandContext(actor=Actor(kind="user", id="ann"), request_id="01J8TPZ7YJ1E1X4C5N9ZP3M3QJ", address="192.0.2.7")
WITH_KEY = CommandContext(actor=ANN.actor, commit_id=CommitId("c-1"))


@pytest.fixture
def world() -> World:
    return World()


def gateway(world: World) -> AuditReader:
    """One gateway's view on the trail; a new one is a restarted gateway."""
    return audit_on(world.stores, world.live_feed, MemoryAuditIndex(), world.config)


async def shown(audit: AuditReader, **query: Any) -> list[AuditRecord]:
    return list((await audit.page(AuditQuery(**query), limit=500)).records)


async def submit(world: World) -> RunId:
    return await world.submit(HELLO)


async def test_commands_of_users_are_recorded_once_and_those_of_workers_not(world: World) -> None:
    run_id = await submit(world)
    start = StartExecution(at=world.now(), attempt=1, worker_id=WORKER, instance_id=OURS)
    await handle(world.stores, run_id, start, CommandContext(actor=Actor(kind="worker", id="w-1")))
    await handle(world.stores, run_id, CancelExecution(at=world.now()), ANN)
    audit = gateway(world)

    first, again = await shown(audit), await shown(audit)

    assert [(one.action, one.resource_id) for one in first] == [("run.cancel", run_id), ("run.create", run_id)]
    assert (first[0].actor_id, first[0].address, first[0].request_id) == ("ann", ANN.address, ANN.request_id)
    assert again == first


async def test_a_restarted_gateway_and_two_at_once_record_nothing_twice(world: World) -> None:
    for _ in range(5):
        await submit(world)
    audits = [gateway(world) for _ in range(3)]

    await asyncio.gather(*(audit.catch_up() for audit in audits))
    await submit(world)
    await asyncio.gather(*(audit.catch_up() for audit in [*audits, gateway(world)]))

    found = [await shown(audit) for audit in [*audits, gateway(world)]]
    assert [len(records) for records in found] == [6] * 4
    assert len({tuple(record.key for record in records) for records in found}) == 1


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_gateway_killed_while_it_records_loses_and_doubles_nothing(world: World, is_stored: bool) -> None:
    await submit(world)
    await submit(world)
    if is_stored:
        world.faults.lose_answer("audit.append")
    else:
        world.faults.fail("audit.append")
    with pytest.raises(BrokerUnavailable):
        await gateway(world).catch_up()

    found = await shown(gateway(world))

    assert len(found) == 2


async def test_many_commits_are_recorded_in_several_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "STEP", 3)
    runs = [await submit(world) for _ in range(10)]

    found = await shown(gateway(world))

    assert [one.resource_id for one in reversed(found)] == runs
    assert (await world.truth.audit.state()).messages == 4


async def test_the_position_is_stored_without_commands_of_users_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MARK_EVERY", 1)
    run_id = await submit(world)
    audit = gateway(world)
    await audit.catch_up()
    start = StartExecution(at=world.now(), attempt=1, worker_id=WORKER, instance_id=OURS)
    await handle(world.stores, run_id, start, CommandContext(actor=Actor(kind="worker", id="w-1")))

    await audit.catch_up()

    assert (await world.truth.audit.recorded()).upto == (await world.truth.events.state()).last_sequence


async def test_retention_leaves_a_run_until_it_is_recorded_and_the_record_stays(world: World) -> None:
    run_id = await submit(world)
    await world.start(run_id)
    await world.complete(run_id)
    audit = gateway(world)
    world.clock.pass_time(world.config.run_retention_sec + 60)
    await world.catch_up()

    await remove_old_runs(world.stores, world.index, world.config, is_recorded=audit.recorder.is_recorded)
    before = await world.truth.events.read(run_id)
    await audit.catch_up()
    await remove_old_runs(world.stores, world.index, world.config, is_recorded=audit.recorder.is_recorded)

    assert before != []
    assert await world.truth.events.read(run_id) == []
    assert {one.resource_id for one in await shown(gateway(world))} == {run_id}


async def test_commits_older_than_the_trail_are_not_recorded(world: World) -> None:
    await submit(world)
    world.clock.pass_time(world.config.audit_retention_sec + 1)

    assert await shown(gateway(world)) == []


async def test_pages_show_each_record_once_and_keep_their_filters(world: World) -> None:
    runs = [await submit(world) for _ in range(7)]
    audit, cursor, found = gateway(world), None, []

    while True:
        page = await audit.page(AuditQuery(action="run.create"), limit=3, cursor=cursor)
        found += [one.resource_id for one in page.records]
        if (cursor := page.next_cursor) is None:
            break

    assert sorted(found) == sorted(runs)


async def change(world: World, context: CommandContext, error: Exception | None = None, **result: bool) -> None:
    async with AuditTrail.of(world.stores).change("graph.put", "graph", "release", context) as done:
        done.unchanged = result.get("unchanged", False)
        if error is not None:
            raise error


async def test_a_change_leaves_one_record_also_when_its_request_is_repeated(world: World) -> None:
    await change(world, WITH_KEY)
    await change(world, WITH_KEY)
    await change(world, ANN)

    assert [one.outcome for one in await shown(gateway(world), resource="release")] == ["made", "made"]


async def test_a_refused_change_and_one_that_changes_nothing_leave_no_record(world: World) -> None:
    with pytest.raises(GraphVersionConflict):
        await change(world, ANN, GraphVersionConflict("it has version 2"))
    await change(world, ANN, unchanged=True)

    assert await shown(gateway(world)) == []


async def test_nothing_is_changed_while_the_trail_cannot_be_written(world: World) -> None:
    world.faults.fail("audit.put")
    reached = []

    with pytest.raises(BrokerUnavailable):
        async with AuditTrail.of(world.stores).change("graph.put", "graph", "release", ANN):
            reached.append(True)

    assert reached == []


@pytest.mark.parametrize("killed", [BrokerUnavailable(), asyncio.CancelledError()])
async def test_a_killed_change_is_shown_as_attempted_until_its_repetition_is_made(
    world: World, killed: BaseException
) -> None:
    with pytest.raises(type(killed)):
        async with AuditTrail.of(world.stores).change("graph.put", "graph", "release", WITH_KEY):
            raise killed
    before = await shown(gateway(world))

    await change(world, WITH_KEY)

    assert [one.outcome for one in before] == ["attempted"]
    assert [one.outcome for one in await shown(gateway(world))] == ["made"]


async def test_the_refusal_of_a_repetition_does_not_remove_what_an_earlier_try_may_have_done(world: World) -> None:
    with pytest.raises(BrokerUnavailable):
        await change(world, WITH_KEY, BrokerUnavailable())

    with pytest.raises(GraphVersionConflict):
        await change(world, WITH_KEY, GraphVersionConflict("it has version 2"))

    assert [one.outcome for one in await shown(gateway(world))] == ["attempted"]


async def test_a_change_whose_outcome_cannot_be_stored_succeeds(world: World) -> None:
    async with AuditTrail.of(world.stores).change("graph.put", "graph", "release", ANN):
        world.faults.fail("audit.put")

    assert [one.outcome for one in await shown(gateway(world))] == ["attempted"]
