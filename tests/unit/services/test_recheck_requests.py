"""Requests for rechecks: estimated, stored as executions, and continued by whoever comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pyoco_server.domain.audit import record_of
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.state import Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, ulid_of
from pyoco_server.domain.pdca.recheck import MAX_BATCHES, Recheck, unpack
from pyoco_server.domain.pdca.strategies import RequestProgress, StrategyFilter
from pyoco_server.errors import EngineDown, InvalidRequest, RunNotFound, StrategyNotFound
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.executions.submit import first_commit
from pyoco_server.services.idempotency import IdempotentAttempt
from pyoco_server.services.pdca.requests import Accepted, Asked, RequestService
from support.executions_in_memory import executions_of
from support.rechecks import FakeEngine
from support.world import USER, World

ANN = Caller(name="ann", tenant_id="team-a")
RECHECK = Recheck(kind="recheck", reason="r", window={}, client_id="ann", batches=0, strategies=0, engine="")


class SomeStrategies:
    """Strategies whose filter chooses the first of them."""

    def __init__(self, chosen: Sequence[str] = ()) -> None:
        self.chosen = [StrategyId(one) for one in chosen]
        self.is_removed = False

    async def select(self, tenant_id: str | None, chosen: StrategyFilter) -> Sequence[StrategyId]:
        return self.chosen

    async def check(self, tenant_id: str | None, ids: Sequence[StrategyId]) -> None:
        if self.is_removed:
            raise StrategyNotFound

    async def progress(self, run_id: RunId, *, version: int) -> RequestProgress | None:
        return None


class Gateway:
    """The requests of one gateway over the stores of a world."""

    def __init__(self, world: World, strategies: SomeStrategies) -> None:
        self.engine, self.woken = FakeEngine(), list[RunId]()
        self.executions = executions_of(world)
        self.requests = RequestService(
            executions=self.executions, strategies=strategies, engine=self.engine, wake=self.woken.append
        )

    async def accept(self, attempt: IdempotentAttempt, *ids: str, **changed: Any) -> Accepted:
        asked = Asked(recheck=RECHECK, batch_size=25, strategies=tuple(StrategyId(one) for one in ids))
        return await self.requests.accept(replace(asked, **changed), ANN, attempt)


def attempt_in(world: World, *, resumed: bool = False, of: IdempotentAttempt | None = None) -> IdempotentAttempt:
    """A first attempt with an idempotency key, or one that continues it."""
    if of is not None:
        context = replace(of.context, resumed=resumed, request_id=world.truth.ids.commit_id())
        return IdempotentAttempt(context, of.resource_id)
    ids = world.truth.ids
    context = replace(
        USER, commit_id=ids.commit_id(), resumed=resumed, tenant_filter="team-a", request_id=ids.commit_id()
    )
    return IdempotentAttempt(context, world.truth.ids.run_id())


async def plan_of(world: World, run_id: RunId) -> list[tuple[StrategyId, ...]]:
    first = await first_commit(world.truth.events, run_id)
    assert first is not None
    packed: Any = first.commit.events[0]
    return unpack(packed.node_inputs)


async def audited(world: World, run_id: RunId) -> list[str]:
    """The actions in the audit trail, which has one record per key."""
    found = [record_of(run_id, stored.commit) for stored in await world.truth.events.read(run_id)]
    return [record.action for record in {one.key: one for one in reversed(found) if one is not None}.values()]


async def test_a_request_is_an_execution_with_a_node_per_batch(world: World) -> None:
    gateway, ids = Gateway(world, SomeStrategies()), [f"s.{place}" for place in range(50)]

    accepted = await gateway.accept(attempt_in(world), *ids)

    execution = await gateway.executions.look(accepted.request_id, tenant_filter="team-a")
    assert (accepted.strategies, accepted.batches, accepted.engine, accepted.first_run) == (50, 2, "dag", "run-1")
    assert list(execution.nodes) == ["batch-0001", "batch-0002"]
    assert execution.labels == ("pdca", f"pdca:{ulid_of(accepted.request_id)}")
    assert (execution.status, execution.started_at is not None) == (Status.ACTIVE, True)
    assert await plan_of(world, accepted.request_id) == [tuple(ids[:25]), tuple(ids[25:])]
    assert gateway.woken == [accepted.request_id]


async def test_a_filter_that_admits_none_is_a_request_that_has_succeeded(world: World) -> None:
    gateway = Gateway(world, SomeStrategies())

    accepted = await gateway.accept(attempt_in(world), filter=StrategyFilter())

    execution = await gateway.executions.look(accepted.request_id, tenant_filter="team-a")
    assert (accepted.strategies, accepted.batches, accepted.first_run) == (0, 0, None)
    assert execution.status is Status.COMPLETED
    assert await audited(world, accepted.request_id) == ["run.create"]


async def test_a_dry_run_stores_nothing_and_needs_no_engine(world: World) -> None:
    gateway = Gateway(world, SomeStrategies())
    gateway.engine.is_down = True

    accepted = await gateway.accept(attempt_in(world), "a", dry_run=True)

    assert (accepted.strategies, accepted.batches, accepted.first_run) == (1, 1, None)
    assert await world.truth.events.read(accepted.request_id) == []


async def test_nothing_is_stored_while_the_engine_is_down(world: World) -> None:
    gateway, first = Gateway(world, SomeStrategies()), attempt_in(world)
    gateway.engine.is_down = True

    with pytest.raises(EngineDown):
        await gateway.accept(first, "a")

    assert await world.truth.events.read(RunId(first.resource_id)) == []
    gateway.engine.is_down = False
    assert (await gateway.accept(attempt_in(world, resumed=True, of=first), "a")).request_id == first.resource_id


@pytest.mark.parametrize("dry_run", [True, False])
async def test_too_many_batches_are_refused_with_what_to_change(world: World, dry_run: bool) -> None:
    gateway = Gateway(world, SomeStrategies([f"s{place:06}" for place in range(10 * MAX_BATCHES + 1)]))

    with pytest.raises(InvalidRequest, match=r"2001 batches are more than 2000: raise batch_size.*filter"):
        await gateway.accept(attempt_in(world), filter=StrategyFilter(), batch_size=10, dry_run=dry_run)

    assert gateway.engine.checks == 0


async def test_a_hundred_thousand_strategies_are_one_request(world: World) -> None:
    gateway = Gateway(world, SomeStrategies([f"strat.meanrev.{place:06}" for place in range(100_000)]))

    accepted = await gateway.accept(attempt_in(world), filter=StrategyFilter(), batch_size=50)

    assert (accepted.strategies, accepted.batches) == (100_000, 2_000)


async def test_ids_that_do_not_fit_into_one_commit_are_refused(world: World) -> None:
    def noise(place: int) -> str:
        return "".join(f"{(place * 2_654_435_761 + step * 40_503) % 4_294_967_291:08x}" for step in range(16))

    gateway = Gateway(world, SomeStrategies([noise(place) for place in range(30_000)]))

    with pytest.raises(InvalidRequest, match=r"too long for one request: raise batch_size.*filter"):
        await gateway.accept(attempt_in(world), filter=StrategyFilter(), batch_size=100)


@pytest.mark.parametrize("killed_after", ["create", "start"])
async def test_a_request_whose_gateway_was_killed_is_continued_as_it_was_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, killed_after: str
) -> None:
    strategies, first = SomeStrategies(["a", "b"]), attempt_in(world)
    killed = Gateway(world, strategies)

    async def kill(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(
            ExecutionService if killed_after == "create" else RequestService,
            "start" if killed_after == "create" else "_begin",
            kill,
        )
        with pytest.raises(asyncio.CancelledError):
            await killed.accept(first, filter=StrategyFilter())
    strategies.chosen, strategies.is_removed = [], True
    other = Gateway(world, strategies)
    other.engine.is_down = True

    accepted = await other.accept(attempt_in(world, resumed=True, of=first), filter=StrategyFilter())

    execution = await other.executions.look(accepted.request_id, tenant_filter="team-a")
    assert accepted.request_id == first.resource_id
    assert (accepted.strategies, accepted.batches) == (2, 1)
    assert execution.started_at is not None
    assert await audited(world, accepted.request_id) == ["run.create"]


async def test_two_attempts_at_once_are_one_request_with_one_plan(world: World) -> None:
    first = attempt_in(world)
    one, other = Gateway(world, SomeStrategies(["a"])), Gateway(world, SomeStrategies(["a", "b"]))
    again = attempt_in(world, resumed=True, of=first)

    accepted = await asyncio.gather(
        one.accept(first, filter=StrategyFilter()), other.accept(again, filter=StrategyFilter())
    )

    assert accepted[0] == accepted[1]
    plan = await plan_of(world, RunId(first.resource_id))
    assert sum(map(len, plan)) == accepted[0].strategies


async def test_what_is_no_request_of_this_tenant_is_not_shown(world: World) -> None:
    gateway = Gateway(world, SomeStrategies())
    accepted, run = await gateway.accept(attempt_in(world), "a"), await world.submit()

    for run_id, tenant in ((accepted.request_id, "team-b"), (run, None), (world.truth.ids.run_id(), None)):
        with pytest.raises(RunNotFound, match="there is no request with this id"):
            await gateway.requests.show(run_id, tenant_filter=tenant)
