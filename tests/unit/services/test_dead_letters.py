"""Replays of dead letters."""

from __future__ import annotations

from pyoco_server.services.executions.service import NewExecution
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.stores.dead_letters import DeadLetter
from support.services import following
from support.world import USER, World


async def test_a_replay_of_a_manually_started_flow_starts_automatically() -> None:
    world = World()
    async with following(world) as services:
        run_id = world.truth.ids.run_id()
        new = NewExecution(graph_id="etl", input={"n": 1}, tag="default")
        (await services.executions.create(new, run_id, USER)).accepted()
        (await services.executions.start(run_id, USER)).accepted()
        await world.truth.dead_letters.publish(DeadLetter(timestamp=1.0, reason="execution_error", run_id=run_id))
        attempt = IdempotentAttempt(USER, world.truth.ids.run_id())

        again = await services.dead_letters.replay(1, attempt, tenant_filter=None, api_key_id=None)

        assert again.is_queued
        await world.start(again.execution_id)
        assert await world.status(again.execution_id) == "RUNNING"
