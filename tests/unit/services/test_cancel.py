"""Cancel requests: with a holder, without one, repeated, and too late."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import ConfirmCanceled
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import InstanceId, RunId
from pyoco_server.errors import BrokerUnavailable, RunNotFound
from pyoco_server.services.executions.cancel import UNCONFIRMED_AFTER_GRACE_SEC, cancel, confirm_or_signal
from pyoco_server.services.executions.command_handler import CommandResult
from support.world import HELLO, OURS, THEIRS, USER, World


async def request_cancel(world: World, run_id: RunId, reason: str | None = None) -> CommandResult:
    return await cancel(world.stores, run_id, reason, replace(USER, actor=Actor(kind="user", id="alice")))


async def listen(world: World, instance_id: InstanceId = OURS) -> list[RunId]:
    signalled: list[RunId] = []
    await world.truth.signals.listen(instance_id, signalled.append, lambda _: True)
    return signalled


async def test_a_pending_run_is_cancelled_without_a_worker(world: World) -> None:
    run_id = await world.submit()

    handled = await request_cancel(world, run_id, "wrong input")

    assert run_status(handled.accepted()) == "CANCELLING"
    assert await world.status(run_id) == "CANCELLED"
    receipt = (await world.execution(run_id)).cancel
    assert receipt is not None
    assert (receipt.how, receipt.reason, receipt.requested_by) == (StopHow.BEFORE_START, "wrong input", "alice")


async def test_only_the_holder_of_a_running_run_is_signalled(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    ours, theirs = await listen(world), await listen(world, THEIRS)

    handled = await request_cancel(world, run_id)

    assert run_status(handled.accepted()) == "CANCELLING"
    assert await world.status(run_id) == "CANCELLING"
    assert (ours, theirs) == ([run_id], [])


async def test_a_repeated_request_adds_no_event_and_signals_the_holder_again(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    signalled = await listen(world)

    first = await request_cancel(world, run_id, "first")
    world.clock.pass_time(5.0)
    second = await request_cancel(world, run_id, "second")

    assert second.events == ()
    assert second.accepted().cancel == first.accepted().cancel
    assert signalled == [run_id, run_id]


async def test_a_repeated_request_confirms_a_cancel_whose_confirmation_failed(world: World) -> None:
    run_id = await world.submit()

    async def fail_the_next_read() -> None:
        world.faults.fail("snapshots.load")

    world.faults.after("snapshots.advance", fail_the_next_read)
    with pytest.raises(BrokerUnavailable):
        await request_cancel(world, run_id)
    assert await world.status(run_id) == "CANCELLING"

    await request_cancel(world, run_id)

    assert await world.status(run_id) == "CANCELLED"


async def test_a_holder_has_the_grace_period_and_ten_seconds(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await request_cancel(world, run_id)
    execution = await world.execution(run_id)

    world.clock.pass_time(30.0 + UNCONFIRMED_AFTER_GRACE_SEC)
    await confirm_or_signal(world.stores, execution, grace_sec=30.0)
    assert await world.status(run_id) == "CANCELLING"

    world.clock.pass_time(0.1)
    await confirm_or_signal(world.stores, execution, grace_sec=30.0)
    assert await world.status(run_id) == "CANCELLED"
    receipt = (await world.execution(run_id)).cancel
    assert receipt is not None
    assert receipt.how is StopHow.UNCONFIRMED


async def test_a_confirmation_at_the_last_moment_wins(world: World) -> None:
    run_id = await world.submit()
    await world.start(run_id)
    await request_cancel(world, run_id)
    execution = await world.execution(run_id)
    await world.handle(run_id, ConfirmCanceled(at=world.now(), how=StopHow.KILLED, attempt=1))

    world.clock.pass_time(100.0)
    await confirm_or_signal(world.stores, execution, grace_sec=30.0)

    receipt = (await world.execution(run_id)).cancel
    assert receipt is not None
    assert receipt.how is StopHow.KILLED


async def test_a_cancel_of_another_tenant_is_refused_and_loads_the_snapshot_once(world: World) -> None:
    run_id = await world.submit(replace(HELLO, tenant_id="acme"))
    world.faults.calls.clear()

    with pytest.raises(RunNotFound):
        await cancel(world.stores, run_id, None, replace(USER, tenant_filter="other"))

    assert world.faults.calls == ["snapshots.load"]
    assert await world.status(run_id) == "PENDING"


async def test_overdue_cancels_are_confirmed_oldest_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.maintenance.cancels.BATCH", 2)
    runs = []
    for _ in range(5):
        runs.append(await world.submit())
        await world.start(runs[-1])
        await request_cancel(world, runs[-1])
        world.clock.pass_time(1.0)
    await world.catch_up()
    world.clock.pass_time(world.config.cancel_grace_period_sec + UNCONFIRMED_AFTER_GRACE_SEC)

    await world.maintenance.confirm_cancels()

    ended = [(await world.execution(run_id)).version for run_id in runs]
    assert [await world.status(run_id) for run_id in runs] == ["CANCELLED"] * 5
    assert ended == sorted(ended)
