"""The text of a flow.yaml: stored in the first event and in the job, in no snapshot, and never lost."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import orjson
import pytest

from pyoco_server.domain.execution.commands import CreateExecution, DeclareNodes
from pyoco_server.domain.execution.decide import Rejection, decide
from pyoco_server.domain.execution.events import ExecutionCreated, NodeCreated, declared_edges
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.state import MAX_NODES, empty_execution
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions.command_handler import commit
from pyoco_server.services.executions.rerun import create_again
from pyoco_server.services.executions.submit import create_command, is_submitted_text, workflow_text
from pyoco_server.worker.attempt.job_parser import parse_job
from support.flow_files import TWO_TASKS, workflow
from support.samples import new_run_id, worker
from support.world import HELLO, World


async def queued_text(world: World) -> str | None:
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    return parse_job(delivery.payload).workflow_yaml


async def lost_from_the_queue(world: World) -> None:
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    await delivery.ack()


async def test_the_text_is_in_the_first_event_and_the_job_but_not_in_the_snapshot(world: World) -> None:
    run_id = await world.submit(workflow=workflow())

    (stored,) = await world.truth.events.read(run_id)
    created = stored.commit.events[0]
    assert isinstance(created, ExecutionCreated)
    assert created.workflow_yaml == TWO_TASKS
    assert await queued_text(world) == TWO_TASKS
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert "保存" not in orjson.dumps(snapshot.plain).decode()
    assert snapshot.plain["workflow_yaml_bytes"] == len(TWO_TASKS.encode())
    assert snapshot.plain["workflow_yaml_sha256"] == sha256(TWO_TASKS.encode()).hexdigest()


async def test_the_tasks_are_shown_before_a_worker_starts(world: World) -> None:
    run_id = await world.submit(workflow=workflow())

    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["tasks"] == {"load": "PENDING", "save": "PENDING"}
    declared = DeclareNodes(at=world.now(), node_ids=(NodeId("load"), NodeId("save")))
    assert (await world.handle(run_id, declared)).events == ()


async def test_a_run_and_its_rerun_have_the_edges_of_the_text(world: World) -> None:
    run_id = await world.submit(workflow=workflow())

    (stored,) = await world.truth.events.read(run_id)
    again = create_again(stored.commit, HELLO, (), at=world.now())
    assert declared_edges([stored.commit]) == again.edges == ((NodeId("load"), NodeId("save")),)


async def test_the_text_is_found_by_its_run(world: World) -> None:
    run_id = await world.submit(workflow=workflow())
    other = await world.submit()

    execution = await world.execution(run_id)
    assert await workflow_text(world.truth.events, execution) == TWO_TASKS
    assert is_submitted_text(execution, TWO_TASKS)
    assert not is_submitted_text(execution, TWO_TASKS + " ")
    assert not is_submitted_text(execution, None)
    assert await workflow_text(world.truth.events, await world.execution(other)) is None


async def test_an_unqueued_run_is_queued_with_its_text(world: World) -> None:
    run_id = new_run_id()
    create = create_command(world.now(), HELLO, ("default",), workflow())
    await commit(world.truth, empty_execution(run_id), create, GATEWAY)

    await world.catch_up()
    world.clock.pass_time(1.5)
    await world.maintenance.repair()

    assert await queued_text(world) == TWO_TASKS


@pytest.mark.parametrize("running", [True, False], ids=["running", "pending"])
async def test_a_stray_is_requeued_with_its_text(world: World, running: bool) -> None:
    run_id: RunId = await world.submit(workflow=workflow())
    await lost_from_the_queue(world)
    if running:
        await world.start(run_id)
    await world.catch_up()
    world.clock.pass_time(2 * world.config.consumer_ack_wait_sec + 31.0)
    await world.truth.registry.put(replace(worker(last_seen_at=world.now())))

    await world.maintenance.requeue_strays()

    assert await queued_text(world) == TWO_TASKS


def test_more_nodes_than_an_execution_may_have_are_refused_at_its_creation() -> None:
    names = tuple(NodeId(f"n{n}") for n in range(MAX_NODES + 1))
    run = empty_execution(new_run_id())

    refused = decide(run, CreateExecution(at=1.0, request=HELLO, node_ids=names))
    events = decide(run, CreateExecution(at=1.0, request=HELLO, node_ids=(*names[:2], names[0])))

    assert isinstance(refused, Rejection)
    assert not isinstance(events, Rejection)
    assert [type(event) for event in events] == [ExecutionCreated, NodeCreated, NodeCreated]
    assert fold(events, run).graph is None
