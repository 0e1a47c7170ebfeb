"""Driving a request: starts, ends, cancels and outages of its engine."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import CreateExecution, RemoveTag, StartNode
from pyoco_server.domain.execution.events import NodeFailed, NodeSucceeded
from pyoco_server.domain.execution.state import NodeStatus, Request, Status, StopHow, Work
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.domain.pdca.ids import artifact_id, node_of
from pyoco_server.domain.pdca.recheck import ENGINE_WORKER, REQUEST_FLOW, STOPPING, is_stopping, pack, unreachable_since
from pyoco_server.domain.pdca.strategies import read_output
from pyoco_server.errors import BrokerUnavailable, EngineDown
from pyoco_server.ports.pdca import BatchOutcome, BatchState
from pyoco_server.services.executions.cancel import UNCONFIRMED_AFTER_GRACE_SEC, confirm_or_signal
from pyoco_server.services.pdca.request_run import BATCH_FAILED, BATCHES_FAILED, UNREADABLE, RequestRun
from pyoco_server.testing.batch_engine import MemoryBatchEngine
from support.pdca import FIRST, SECOND, THREE, creation, request_cancel, request_run, requested, statuses
from support.world import World


@pytest.fixture
def engine() -> MemoryBatchEngine:
    return MemoryBatchEngine()


async def ended(world: World, run_id: RunId) -> dict[str, int]:
    """How often each node has ended in the log."""
    found: dict[str, int] = {}
    for stored in await world.truth.events.read(run_id):
        for event in stored.commit.events:
            if isinstance(event, NodeSucceeded | NodeFailed):
                found[event.node_id] = found.get(event.node_id, 0) + 1
    return found


async def within(request: RequestRun) -> None:
    async with asyncio.timeout(10):
        await request.run()


async def test_a_request_that_was_never_started_is_started(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)

    is_done = await request_run(world, run_id, engine).advance()

    assert not is_done
    assert (await world.execution(run_id)).started_at is not None
    assert set((await statuses(world, run_id)).values()) == {"RUNNING"}
    assert [engine.starts[run_id, number] for number in (1, 2, 3)] == [1, 1, 1]


async def test_a_request_without_batches_is_complete(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, [])

    await request_run(world, run_id, engine).advance()

    assert (await world.execution(run_id)).status is Status.COMPLETED


async def test_results_and_reports_of_a_batch_are_stored_with_its_end(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.end_all()

    await request.advance()

    execution = await world.execution(run_id)
    output = read_output(execution.nodes[FIRST].output)
    assert output is not None
    assert [result.strategy for result in output.results] == ["a", "b"]
    assert [artifact.id for artifact in output.artifacts] == [artifact_id(run_id, 1, 1)]
    assert (await world.truth.artifacts.get(output.artifacts[0].id)) is not None
    assert execution.status is Status.COMPLETED


async def test_a_report_is_stored_before_the_event_that_names_it(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.end_all()
    world.faults.fail("artifacts.put")

    with pytest.raises(BrokerUnavailable):
        await request.advance()

    assert await statuses(world, run_id) == {FIRST: "RUNNING"}
    await request.advance()
    assert (await world.execution(run_id)).status is Status.COMPLETED


async def test_a_failed_batch_fails_the_request_and_stops_no_other(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.set_state(run_id, 2, BatchState.FAILED, BatchOutcome(error="no data base"))
    await request.advance()
    engine.end_all()

    await request.advance()

    execution = await world.execution(run_id)
    assert list((await statuses(world, run_id)).values()) == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    error = execution.nodes[SECOND].error
    assert error is not None
    assert (error.code, error.message) == (BATCH_FAILED, "no data base")
    assert execution.error is not None
    assert (execution.error.code, execution.error.message) == (BATCHES_FAILED, "1 of 3 batches failed")


async def test_an_unreadable_answer_fails_its_batch(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.set_state(run_id, 1, BatchState.SUCCEEDED, BatchOutcome(error="the batch returned what …"))

    await request.advance()

    assert (await world.execution(run_id)).status is Status.FAILED


async def test_a_batch_that_somebody_canceled_in_the_engine_has_failed(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.set_state(run_id, 1, BatchState.CANCELED)

    await request.advance()

    execution = await world.execution(run_id)
    assert execution.status is Status.FAILED
    assert execution.nodes[FIRST].error is not None


async def test_no_more_batches_run_than_the_engine_takes(world: World) -> None:
    engine = MemoryBatchEngine(concurrency=2)
    run_id = await requested(world)
    request = request_run(world, run_id, engine)

    await request.advance()

    assert list((await statuses(world, run_id)).values()) == ["RUNNING", "RUNNING", "IDLE"]
    engine.end_all()
    await request.advance()
    assert list((await statuses(world, run_id)).values()) == ["SUCCEEDED", "SUCCEEDED", "RUNNING"]


async def test_a_batch_that_its_engine_lost_is_started_again(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.set_state(run_id, 1, BatchState.MISSING)

    await request.advance()

    assert engine.state(run_id, 1) is BatchState.RUNNING


async def test_a_cancel_ends_the_request_when_its_batches_have_stopped(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    engine.stops_at_once = False
    request = request_run(world, run_id, engine)
    await request.advance()
    await request_cancel(world, run_id)

    await request.advance()

    assert (await world.execution(run_id)).status is Status.ACTIVE
    for number in (1, 2, 3):
        engine.set_state(run_id, number, BatchState.CANCELED)
    assert await request.advance()
    execution = await world.execution(run_id)
    assert execution.status is Status.CANCELED
    assert execution.cancel is not None
    assert execution.cancel.how is StopHow.COOPERATIVE


async def test_a_batch_that_succeeds_after_the_cancel_does_not_complete_the_request(
    world: World, engine: MemoryBatchEngine
) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.end_all()

    async def cancel_now() -> None:
        await request_cancel(world, run_id)

    world.faults.before("artifacts.put", cancel_now)

    await request.advance()
    await request.advance()

    assert (await world.execution(run_id)).status is Status.CANCELED


async def test_a_cancel_during_a_start_leaves_nothing_running(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)

    async def cancel_now() -> None:
        await request_cancel(world, run_id)

    world.faults.after("events.append", lambda: asyncio.sleep(0))  # the start of the execution
    world.faults.after("events.append", cancel_now)  # that of the node

    await request.advance()
    await request.advance()

    assert (await world.execution(run_id)).status is Status.CANCELED
    assert engine.state(run_id, 1) in (BatchState.MISSING, BatchState.CANCELED)


async def canceled_without_its_engine(world: World, engine: MemoryBatchEngine) -> RunId:
    """A running request that was canceled while its engine was away, and has been ended without it."""
    run_id = await requested(world)
    request = request_run(world, run_id, engine)
    await request.advance()
    engine.set_state(run_id, 1, BatchState.SUCCEEDED)
    await request.advance()
    engine.is_down = True
    await request_cancel(world, run_id)
    with pytest.raises(EngineDown):
        await request.advance()
    world.clock.pass_time(30 + 2 * UNCONFIRMED_AFTER_GRACE_SEC + 1)
    await confirm_or_signal(world.stores, await world.execution(run_id), grace_sec=30)
    return run_id


async def test_batches_of_a_request_that_was_ended_without_its_engine_are_stopped_later(
    world: World, engine: MemoryBatchEngine
) -> None:
    run_id = await canceled_without_its_engine(world, engine)
    left = await world.execution(run_id)
    another = request_run(world, run_id, engine)
    with pytest.raises(EngineDown):
        await another.advance()
    engine.is_down, engine.stops_at_once = False, False
    still_going_on = not await another.advance()
    while_going_on = await world.execution(run_id)
    engine.set_state(run_id, 2, BatchState.CANCELED)
    engine.set_state(run_id, 3, BatchState.CANCELED)

    is_done = await another.advance()

    after = await world.execution(run_id)
    assert (left.status, left.cancel and left.cancel.how) == (Status.CANCELED, StopHow.UNCONFIRMED)
    assert is_stopping(left)
    assert still_going_on
    assert is_stopping(while_going_on)
    assert is_done
    assert not is_stopping(after)
    assert (after.status, after.cancel, after.nodes) == (left.status, left.cancel, left.nodes)
    assert engine.state(run_id, 1) is BatchState.SUCCEEDED


async def test_batches_are_left_alone_when_the_label_is_removed(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await canceled_without_its_engine(world, engine)
    engine.is_down = False
    await world.handle(run_id, RemoveTag(at=world.now(), tag=STOPPING))

    is_done = await request_run(world, run_id, engine).advance()

    assert is_done
    assert engine.state(run_id, 2) is BatchState.RUNNING


async def test_an_engine_that_is_away_is_shown_once_and_forgotten_when_it_is_back(
    world: World, engine: MemoryBatchEngine
) -> None:
    run_id = await requested(world)
    engine.is_down = True
    request = request_run(world, run_id, engine)
    for _ in range(3):
        with pytest.raises(EngineDown):
            await request.advance()
    said = unreachable_since(await world.execution(run_id))
    version = (await world.execution(run_id)).version
    with pytest.raises(EngineDown):
        await request.advance()

    assert said == "1970-01-12T13:46:40Z"
    assert (await world.execution(run_id)).version == version
    engine.is_down = False
    await request.advance()
    assert unreachable_since(await world.execution(run_id)) is None
    assert {engine.starts[run_id, number] for number in (1, 2, 3)} == {1}


async def test_an_outage_of_the_engine_delays_the_request_only(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    engine.is_down = True
    driving = asyncio.create_task(within(request_run(world, run_id, engine)))
    await world.faults.done("events.append", times=5)
    engine.is_down = False
    await world.faults.done("events.append", times=6)
    engine.end_all()

    await driving

    assert (await world.execution(run_id)).status is Status.COMPLETED


async def test_another_gateway_takes_back_what_was_said_of_the_engine(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    engine.is_down = True
    first = request_run(world, run_id, engine)
    with pytest.raises(EngineDown):
        await first.advance()
    engine.is_down = False

    await request_run(world, run_id, engine).advance()

    assert unreachable_since(await world.execution(run_id)) is None


async def test_a_broker_that_is_away_delays_the_request_only(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, [])
    world.faults.fail("events.read", times=3)

    await within(request_run(world, run_id, engine))

    assert (await world.execution(run_id)).status is Status.COMPLETED


async def test_two_gateways_that_drive_one_request_end_no_batch_twice(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)
    one, other = request_run(world, run_id, engine), request_run(world, run_id, engine)
    await asyncio.gather(one.advance(), other.advance())
    engine.end_all()

    await asyncio.gather(one.advance(), other.advance())

    assert (await world.execution(run_id)).status is Status.COMPLETED
    assert await ended(world, run_id) == {node_of(number): 1 for number in (1, 2, 3)}
    assert {engine.starts[run_id, number] for number in (1, 2, 3)} == {1}


async def test_a_stale_gateway_does_not_start_a_finished_batch_again(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world, THREE[:1])
    stale, other = request_run(world, run_id, engine), request_run(world, run_id, engine)

    async def finish_elsewhere() -> None:
        await other.advance()
        engine.end_all()
        await other.advance()

    world.faults.before("events.append", lambda: asyncio.sleep(0))  # the start of the request
    world.faults.before("events.append", finish_elsewhere)

    await stale.advance()

    assert (await world.execution(run_id)).nodes[FIRST].attempt == 1
    assert await ended(world, run_id) == {FIRST: 1}


async def test_a_gateway_that_no_longer_owns_the_request_leaves_it(world: World, engine: MemoryBatchEngine) -> None:
    run_id = await requested(world)

    await within(request_run(world, run_id, engine, owns=lambda run_id: False))

    assert (await world.execution(run_id)).started_at is None


async def test_a_batch_that_another_holds_without_a_lease_is_taken_over(
    world: World, engine: MemoryBatchEngine
) -> None:
    run_id = await requested(world, THREE[:1])
    request = request_run(world, run_id, engine)
    await request.advance()
    theirs = StartNode(at=world.now(), node_id=FIRST, attempt=2, worker_id=WorkerId("ann"))
    await world.handle(run_id, theirs)

    await request.advance()

    node = (await world.execution(run_id)).nodes[FIRST]
    assert (node.attempt, node.worker_id, node.status) == (3, ENGINE_WORKER, NodeStatus.RUNNING)


async def test_an_execution_that_only_has_the_name_of_a_request_is_left_alone(
    world: World, engine: MemoryBatchEngine
) -> None:
    run_id = world.truth.ids.run_id()
    await world.handle(
        run_id, CreateExecution(at=world.now(), request=Request(flow_name=REQUEST_FLOW, work=Work.NODES))
    )
    request = request_run(world, run_id, engine)

    assert await request.advance()

    assert not request.is_request
    assert (await world.execution(run_id)).started_at is None


@pytest.mark.parametrize(("given", "inputs"), [({"x": 1}, pack(THREE)), (None, b"no zlib"), (None, pack(THREE[:1]))])
async def test_a_request_that_cannot_be_read_fails(
    world: World, engine: MemoryBatchEngine, given: dict[str, int] | None, inputs: bytes
) -> None:
    create = creation(world.now())
    run_id = world.truth.ids.run_id()
    request = create.request if given is None else replace(create.request, input=given)
    await world.handle(run_id, replace(create, request=request, node_inputs=inputs))

    await request_run(world, run_id, engine).advance()

    execution = await world.execution(run_id)
    assert execution.status is Status.FAILED
    assert execution.error is not None
    assert execution.error.code == UNREADABLE
