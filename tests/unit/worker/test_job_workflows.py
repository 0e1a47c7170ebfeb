"""A worker and the flow.yaml of a run: the submitted text is what runs, whatever the job contains."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.adapters.system import SystemClock
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.domain.ids import RunId
from pyoco_server.services.executions.submit import job_of
from pyoco_server.testing.job_queue import MemoryJobQueue
from pyoco_server.worker.attempt.job_parser import parse_job
from pyoco_server.worker.runner_process.protocol import RunJob, job_from_wire
from support.flow_files import TWO_TASKS, workflow
from support.samples import job_for, new_run_id
from support.world import THEIRS, World
from unit.worker.conftest import QUICK, running_worker


async def put_into_queue(world: World, job: dict[str, Any], created_sequence: int | None = None) -> None:
    queue = world.truth.queue
    assert isinstance(queue, MemoryJobQueue)
    await queue.put(orjson.dumps(job), tag="default", created_sequence=created_sequence)


def foreign(run_id: RunId, text: object, **more: Any) -> dict[str, Any]:
    plain = {"run_id": run_id, "flow_name": "etl", "tag": "default", "submitted_at": 5.5, "workflow_yaml": text}
    return plain | more


async def begun_text(world: World) -> str | None:
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        assert runner.job is not None
        runner.end()
        await world.until(RunId(runner.job.run_id), "COMPLETED")
        return runner.job.workflow_yaml


async def refused(world: World, run_id: RunId) -> str:
    async with running_worker(world) as handle:
        await world.faults.done("delivery.term")
        assert handle.executor.runs == 0
    snapshot = await world.snapshot(run_id)
    assert snapshot is not None
    assert snapshot.plain["status"] == "FAILED"
    (letter,) = await world.truth.dead_letters.recent()
    assert (letter.reason, letter.run_id) == ("invalid_job", run_id)
    return str(snapshot.plain["error"])


async def test_the_runner_is_given_the_text_of_the_job(world: World) -> None:
    await world.submit(workflow=workflow())

    assert await begun_text(world) == TWO_TASKS


async def test_a_run_of_a_resolver_flow_ignores_a_text_in_its_job(world: World) -> None:
    run_id = await world.submit()
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    await delivery.ack()
    await put_into_queue(world, foreign(run_id, TWO_TASKS), created_sequence=1)

    assert await begun_text(world) is None


@pytest.mark.parametrize("brought", [None, TWO_TASKS.replace("tasks:load", "os:abort")], ids=["none", "another"])
async def test_a_job_runs_the_text_of_the_log_even_if_its_own_differs(world: World, brought: str | None) -> None:
    run_id = await world.submit(workflow=workflow())
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    await delivery.ack()
    await put_into_queue(world, foreign(run_id, brought), created_sequence=1)

    assert await begun_text(world) == TWO_TASKS


async def test_a_run_keeps_its_text_after_a_take_over(world: World) -> None:
    run_id = await world.submit(workflow=workflow())
    await world.start(run_id, THEIRS)

    assert await begun_text(world) == TWO_TASKS
    assert (await world.execution(run_id)).attempt == 2


async def test_a_flow_yaml_of_a_foreign_producer_is_adopted_with_its_defaults(world: World) -> None:
    run_id = new_run_id()
    await put_into_queue(world, foreign(run_id, TWO_TASKS, params={"n": 3}))
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        assert runner.job is not None
        assert (runner.job.workflow_yaml, runner.job.params) == (TWO_TASKS, {"day": "monday", "n": 3})
        runner.end()
        run = await world.until(run_id, "COMPLETED")

    assert run["tasks"] == {"load": "PENDING", "save": "PENDING"}
    assert run["workflow_yaml_bytes"] == len(TWO_TASKS.encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tasks: {}", "at least one task"),
        ("", "empty"),
        ("[" * 5000, "nested deeper"),
        ("x" * 300_000, "at most 262144"),
        (7, "workflow_yaml"),
    ],
)
async def test_a_foreign_flow_yaml_that_a_gateway_would_refuse_is_an_invalid_job(
    world: World, text: object, reason: str
) -> None:
    run_id = new_run_id()
    await put_into_queue(world, foreign(run_id, text))

    assert reason in await refused(world, run_id)


async def test_a_foreign_flow_yaml_may_use_only_allowed_callables() -> None:
    world = World(clock=SystemClock(), **QUICK | {"callable_allow": "team.*:*, tasks:load"})
    run_id = new_run_id()
    await put_into_queue(world, foreign(run_id, TWO_TASKS))

    assert "'tasks:save' is not among those" in await refused(world, run_id)


async def test_the_runner_gets_the_allowed_callables(world: World) -> None:
    world = World(clock=SystemClock(), **QUICK | {"callable_allow": "tasks:*, team.*:*"})
    await world.submit(workflow=workflow())
    async with running_worker(world) as handle:
        runner = await handle.executor.begun()
        assert runner.job is not None
        assert runner.job.callable_allow == ("tasks:*", "team.*:*")
        runner.end()


async def test_a_run_without_its_text_fails_and_runs_no_flow_of_its_name(world: World) -> None:
    stamped = workflow().stamped((await world.execution(await world.submit())).request)
    (delivery,) = await (await world.truth.queue.open("default")).receive(1)
    await delivery.ack()
    run_id = await world.submit(stamped)

    assert "is not in its log" in await refused(world, run_id)


def test_a_job_has_the_workflow_field_only_with_a_text() -> None:
    job = job_for(new_run_id())

    assert "workflow_yaml" not in orjson.loads(msgspec.json.encode(job))
    assert parse_job(msgspec.json.encode(job)).workflow_yaml is None


async def test_a_job_with_a_text_survives_a_round_trip(world: World) -> None:
    execution = await world.execution(await world.submit(workflow=workflow()))

    job = job_of(execution, TWO_TASKS)

    assert parse_job(msgspec.json.encode(job)) == job


def test_a_job_survives_a_round_trip() -> None:
    job = RunJob(run_id="r", flow_name="f", params={}, attempt=2, workflow_yaml=TWO_TASKS, callable_allow=("a:*",))

    assert job_from_wire(orjson.loads(orjson.dumps(job))) == job


def test_a_job_has_the_time_limit_of_its_run_if_there_is_one() -> None:
    created = Execution(execution_id=new_run_id(), created_at=1.0, request=Request(flow_name="f", tag="default"))
    limited = replace(created, request=replace(created.request, timeout_sec=90.5))

    assert "timeout_sec" not in orjson.loads(msgspec.json.encode(job_of(created)))
    assert parse_job(msgspec.json.encode(job_of(limited))).timeout_sec == 90.5
