"""Executions: the kind of worker chosen at creation, then start, stop, deadlines and reads."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.as_of import AsOfTime, AsOfVersion
from pyoco_server.domain.execution.commands import Command, FailNode, ReportNodeProgress, StartNode, SucceedNode
from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.state import Execution, Failure, Status, StopHow, Work
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.graphs import GraphDocument
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.errors import InvalidRequest, RunNotFound, SnapshotTooLarge
from pyoco_server.http_api.api.graph_models import read_document
from pyoco_server.ports import StoredGraph
from pyoco_server.services.executions.service import NewExecution
from support.executions_in_memory import A, B, begun, executions_of
from support.world import USER, World

RELEASE = read_document({"nodes": ["a", "b"], "edges": [["a", "b"]]})


async def put(world: World, document: GraphDocument, version: int = 1) -> None:
    graph = StoredGraph(graph_id="release", version=version, document=document, updated_at=1.0, updated_by=None)
    assert await world.truth.graphs.put(None, graph) is not None


async def created(world: World, request: NewExecution, *flows: AnnouncedFlow) -> Execution:
    handled = await executions_of(world, *flows).create(request, world.truth.ids.run_id(), USER)
    return handled.accepted()


async def taken(world: World, run_id: RunId, lease_until: float | None = None) -> None:
    start = StartNode(at=world.now(), node_id=A, worker_id=WorkerId("ann"), lease_until=lease_until, from_outside=True)
    executions = executions_of(world)
    assert (await executions.command(run_id, start, USER)).refused is None
    await executions.cache.flush(progress=True)


# --- creation ---------------------------------------------------------------------------------------------------------


async def test_a_stored_graph_is_claimed_node_by_node_in_its_current_version(world: World) -> None:
    await put(world, RELEASE, version=3)

    execution = await created(world, NewExecution(graph_id="release", input={"v": 1}))

    assert (execution.request.work, execution.request.graph_version) == (Work.NODES, 3)
    assert [*execution.nodes] == [A, B]
    assert await world.status(execution.execution_id) == "PENDING"


async def test_an_announced_flow_runs_on_workers_of_the_default_tag(world: World) -> None:
    flow = AnnouncedFlow(name="etl", tags=("cpu", "default"))

    execution = await created(world, NewExecution(graph_id="etl", input={}), flow)

    assert (execution.request.work, execution.request.tag) == (Work.ON_START, "default")


@pytest.mark.parametrize(("tag", "expected"), [(None, "cpu"), ("gpu", "gpu")])
async def test_a_flow_not_served_by_the_default_tag_runs_on_another_tag(
    world: World, tag: str | None, expected: str
) -> None:
    flow = AnnouncedFlow(name="etl", tags=("gpu", "cpu"))

    execution = await created(world, NewExecution(graph_id="etl", input={}, tag=tag), flow)

    assert execution.request.tag == expected


async def test_an_unknown_name_is_an_open_graph_unless_a_tag_is_given(world: World) -> None:
    is_open = await created(world, NewExecution(graph_id="anything", input={}))
    is_for_workers = await created(world, NewExecution(graph_id="anything", input={}, tag="cpu"))

    assert (is_open.request.work, is_open.graph) == (Work.NODES, None)
    assert is_for_workers.request.work is Work.ON_START


async def test_a_graph_has_no_tag(world: World) -> None:
    await put(world, RELEASE)

    with pytest.raises(InvalidRequest, match="is a graph"):
        await created(world, NewExecution(graph_id="release", input={}, tag="cpu"))


# --- start ------------------------------------------------------------------------------------------------------------


async def test_a_start_queues_the_job_of_a_flow_once(world: World) -> None:
    execution = await created(world, NewExecution(graph_id="etl", input={"n": 1}, tag="cpu"))
    assert len(await world.truth.queue.stored("cpu")) == 0

    executions = executions_of(world)
    for _ in range(2):
        await executions.start(execution.execution_id, USER)
    await executions.cache.flush(progress=True)

    assert len(await world.truth.queue.stored("cpu")) == 1
    assert await world.status(execution.execution_id) == "PENDING"


async def test_a_job_not_published_by_a_crashed_gateway_is_published_by_maintenance(world: World) -> None:
    execution = await created(world, NewExecution(graph_id="etl", input={}, tag="cpu"))
    world.maintenance = world.new_maintenance()
    world.faults.fail("queue.publish", RuntimeError("killed"))
    with pytest.raises(RuntimeError):
        await executions_of(world).start(execution.execution_id, USER)

    await world.catch_up()
    world.clock.pass_time(2.0)
    await world.maintenance.repair()

    assert len(await world.truth.queue.stored("cpu")) == 1


async def test_maintenance_does_not_queue_an_execution_before_its_start(world: World) -> None:
    await created(world, NewExecution(graph_id="etl", input={}, tag="cpu"))
    await created(world, NewExecution(graph_id="open", input={}))
    world.maintenance = world.new_maintenance()

    await world.catch_up()
    world.clock.pass_time(2.0)
    await world.maintenance.repair()

    assert await world.truth.queue.tags() == []


# --- stop -------------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_at_once_if_no_node_is_held(world: World) -> None:
    run_id = await begun(world)

    await executions_of(world).cancel(run_id, "wrong", USER)

    execution = await world.execution(run_id)
    assert (execution.status, execution.cancel and execution.cancel.how) == (Status.CANCELED, StopHow.IDLE)


async def test_an_expired_lease_does_not_delay_a_cancel(world: World) -> None:
    run_id = await begun(world)
    await taken(world, run_id, lease_until=world.now() + 5)
    world.clock.pass_time(6.0)

    await executions_of(world).cancel(run_id, None, USER)

    assert await world.status(run_id) == "CANCELLED"


@pytest.mark.parametrize("ends_with", ["success", "fail"])
async def test_an_end_of_a_node_after_a_cancel_stops_its_holder(world: World, ends_with: str) -> None:
    run_id, executions = await begun(world), executions_of(world)
    await taken(world, run_id)
    await executions.cancel(run_id, None, USER)
    assert await world.status(run_id) == "CANCELLING"
    progress = ReportNodeProgress(at=world.now(), node_id=A, progress=9, from_outside=True)
    assert (await executions.command(run_id, progress, USER)).refused is not None
    assert (await world.execution(run_id)).status is Status.ACTIVE
    commands: dict[str, Command] = {
        "success": SucceedNode(at=world.now(), node_id=A, attempt=1, from_outside=True),
        "fail": FailNode(at=world.now(), node_id=A, error=Failure(code="C", message="stopped"), from_outside=True),
    }

    handled = await executions.command(run_id, commands[ends_with], USER)

    assert handled.refused is not None
    assert handled.refused.why is RejectionReason.CANCEL_REQUESTED
    execution = await world.execution(run_id)
    assert (execution.status, execution.cancel and execution.cancel.how) == (Status.CANCELED, StopHow.COOPERATIVE)


async def test_a_cancel_waits_for_a_holder_at_most_the_grace_period(world: World) -> None:
    run_id = await begun(world)
    await taken(world, run_id)
    await executions_of(world).cancel(run_id, None, USER)
    await world.catch_up()
    world.clock.pass_time(world.config.cancel_grace_period_sec - 1)
    await world.maintenance.confirm_cancels()
    assert (await world.execution(run_id)).status is Status.ACTIVE

    world.clock.pass_time(2.0)
    await world.maintenance.confirm_cancels()

    execution = await world.execution(run_id)
    assert (execution.status, execution.cancel and execution.cancel.how) == (Status.CANCELED, StopHow.UNCONFIRMED)


# --- time -------------------------------------------------------------------------------------------------------------


async def test_any_gateway_ends_a_wait_past_its_deadline(world: World) -> None:
    document = read_document({"nodes": [{"id": "ask", "type": "wait", "timeoutSec": 60}]})
    run_id = await begun(world, document.graph)
    await world.catch_up()
    await world.maintenance.expire_nodes()
    assert await world.status(run_id) == "RUNNING"

    world.clock.pass_time(60.0)
    await world.maintenance.expire_nodes()
    await world.new_maintenance().expire_nodes()

    execution = await world.execution(run_id)
    assert (execution.status, execution.error and execution.error.code) == (Status.FAILED, "WAIT_TIMED_OUT")


async def test_a_node_fails_when_the_lease_of_its_last_attempt_expires(world: World) -> None:
    document = read_document({"nodes": [{"id": "a", "maxAttempts": 1}]})
    run_id = await begun(world, document.graph)
    await taken(world, run_id, lease_until=world.now() + 5)
    world.clock.pass_time(6.0)
    await world.catch_up()

    await world.maintenance.expire_nodes()

    execution = await world.execution(run_id)
    assert (execution.status, execution.error and execution.error.code) == (Status.FAILED, "LEASE_EXPIRED")


async def test_an_expiry_that_fails_does_not_block_the_others(world: World) -> None:
    document = read_document({"nodes": [{"id": "ask", "type": "wait", "timeoutSec": 60}]})
    runs = [await begun(world, document.graph) for _ in range(2)]
    world.clock.pass_time(60.0)
    await world.catch_up()
    world.faults.fail("events.append", SnapshotTooLarge())

    await world.maintenance.expire_nodes()

    assert [(await world.execution(run_id)).status for run_id in runs].count(Status.FAILED) == 1


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_an_execution_can_be_read_at_any_version(world: World) -> None:
    run_id, executions = await begun(world), executions_of(world)
    await taken(world, run_id)
    versions = [stored.sequence for stored in await world.truth.events.read(run_id)]

    seen = [await executions.look(run_id, tenant_filter=None, at=AsOfVersion(version)) for version in versions]

    assert [(one.version, one.nodes[A].status.value) for one in seen] == list(
        zip(versions, ["IDLE", "READY", "RUNNING"], strict=True)
    )
    with pytest.raises(InvalidRequest, match=f"began with version {versions[0]}"):
        await executions.look(run_id, tenant_filter=None, at=AsOfVersion(versions[0] - 1))


async def test_the_past_of_an_execution_of_another_tenant_is_not_found(world: World) -> None:
    execution = await created(world, NewExecution(graph_id="open", input={}, tenant_id="acme"))
    executions, run_id = executions_of(world), execution.execution_id

    for then in (AsOfVersion(2**53), AsOfVersion(0), AsOfTime(world.now()), AsOfTime(0.0)):
        with pytest.raises(RunNotFound):
            await executions.look(run_id, tenant_filter="other", at=then)
        with pytest.raises(RunNotFound):
            await executions.get_snapshot_as_of(run_id, then, tenant_filter="other")


async def test_a_snapshot_of_the_past_is_that_of_then_and_there_is_none_before(world: World) -> None:
    run_id, executions = await begun(world), executions_of(world)
    before = world.now()
    stored = await executions.get_snapshot(run_id, tenant_filter=None)
    world.clock.pass_time(10)
    await taken(world, run_id)

    past = await executions.get_snapshot_as_of(run_id, AsOfTime(before), tenant_filter=None)

    assert past == {**stored, "heartbeat_at": past["heartbeat_at"]}
    assert (await executions.get_snapshot(run_id, tenant_filter=None))["version"] > past["version"]
    with pytest.raises(RunNotFound):
        await executions.get_snapshot_as_of(run_id, AsOfTime(before - 1000), tenant_filter=None)
    with pytest.raises(RunNotFound, match=r"at: the run began with version \d+"):
        await executions.get_snapshot_as_of(run_id, AsOfVersion(0), tenant_filter=None)


async def test_an_execution_of_another_tenant_is_not_found(world: World) -> None:
    execution = await created(world, NewExecution(graph_id="open", input={}, tenant_id="acme"))
    executions = executions_of(world)

    assert (await executions.look(execution.execution_id, tenant_filter="acme")).exists
    with pytest.raises(RunNotFound):
        await executions.look(execution.execution_id, tenant_filter="other")
    with pytest.raises(RunNotFound):
        await executions.look(world.truth.ids.run_id(), tenant_filter=None, at=AsOfVersion(5))
