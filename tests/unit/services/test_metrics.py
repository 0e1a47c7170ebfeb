"""Metrics of a gateway, and the subset for a caller of one tenant."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import AddTag
from pyoco_server.domain.queries.histograms import HistogramDelta
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.services.executions.command_handler import handle
from pyoco_server.services.projections.metrics import Metrics
from pyoco_server.services.projections.run_figures import MAX_TAGS
from pyoco_server.stores import DeadLetter
from support.services import following
from support.world import HELLO, USER, World


async def read_metrics(world: World, tenant_filter: str | None = None) -> Metrics:
    await world.catch_up()
    async with following(world) as services:
        return await services.metrics.gather(tenant_filter=tenant_filter)


async def test_dead_letters_are_counted(world: World) -> None:
    await world.truth.dead_letters.publish(DeadLetter(timestamp=1.0, reason="invalid_job"))

    assert (await read_metrics(world)).runs.dead_letters == 1


async def test_a_caller_of_one_tenant_gets_the_figures_of_its_runs_only(world: World) -> None:
    for tenant_id in ("acme", "acme", "other"):
        await world.submit(replace(HELLO, tenant_id=tenant_id, tag=tenant_id))

    theirs, everything = await read_metrics(world, "acme"), await read_metrics(world)

    assert theirs.process is None
    assert theirs.runs.counts == {"PENDING": 2}
    assert [(queue.tag, queue.runs) for queue in theirs.runs.waiting] == [("acme", 2)]
    assert theirs.tallies[HistogramDelta.SUBMITTED, ""].total == 2
    assert everything.process is not None
    assert everything.runs.counts == {"PENDING": 3}


async def test_the_number_of_shown_tags_is_bounded(world: World) -> None:
    for number in range(MAX_TAGS + 5):
        await world.submit(replace(HELLO, tag=f"tag-{number}"))

    assert len((await read_metrics(world)).runs.waiting) == MAX_TAGS


async def test_conflicting_appends_are_counted(world: World) -> None:
    run_id = await world.submit()

    async def append_first() -> None:
        await world.handle(run_id, AddTag(at=world.now(), tag="theirs"))

    world.faults.before("events.append", append_first)
    await handle(world.stores, run_id, AddTag(at=world.now(), tag="ours"), USER)

    process = (await read_metrics(world)).process
    assert process is not None
    assert process["pyoco_append_conflicts_total"] == 1


async def test_during_an_outage_there_are_no_queue_metrics(world: World) -> None:
    world.faults.fail("dead_letters.count", BrokerUnavailable())

    with pytest.raises(BrokerUnavailable):
        await read_metrics(world)
