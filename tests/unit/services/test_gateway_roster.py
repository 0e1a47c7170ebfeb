"""The roster of gateways: who left is forgotten, silence counts only where it can be heard, work has one owner."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import InstanceId
from pyoco_server.ports import PresenceNews
from pyoco_server.services.gateway_roster import (
    HEARTBEAT_SEC,
    MAX_GATEWAYS,
    SILENT_SEC,
    TICK_SEC,
    GatewayRoster,
    RosterKeeper,
)
from pyoco_server.testing.presence import MemoryPresence
from support.clocks import ManualClock
from support.faults import Faults


class Cluster:
    """Gateways that hear each other, on one manual clock."""

    def __init__(self) -> None:
        self.presence, self.clock = MemoryPresence(), ManualClock()
        self.broker = Faults()

    async def join(self, name: str, broker: Faults | None = None) -> RosterKeeper:
        roster = GatewayRoster(own_id=name)
        keeper = RosterKeeper(roster, self.presence, broker or self.broker, self.clock)
        await keeper.open()
        return keeper

    def beat(self, name: str) -> None:
        self.presence.announce(InstanceId(name), PresenceNews.PRESENT)

    def pass_time(self, seconds: float, *observers: RosterKeeper, beating: tuple[str, ...] = ()) -> None:
        """Time in which the observers tick and some gateways show that they are alive."""
        for _ in range(round(seconds / TICK_SEC)):
            self.clock.pass_time(TICK_SEC)
            for name in beating:
                self.beat(name)
            for observer in observers:
                observer.forget_silent()


async def test_gateways_know_each_other_as_soon_as_one_arrives() -> None:
    cluster = Cluster()

    first = await cluster.join("a")
    second = await cluster.join("b")

    assert first.roster.live() == second.roster.live() == ("a", "b")
    assert first.roster.size == 2


async def test_a_gateway_that_stops_is_forgotten_at_once_and_not_by_its_last_heartbeat() -> None:
    cluster = Cluster()
    first, second = await cluster.join("a"), await cluster.join("b")

    second.leave()
    second.arrive()
    await cluster.join("c")

    assert first.roster.live() == ("a", "c")


async def test_a_silent_gateway_is_forgotten_within_five_seconds_and_a_live_one_stays() -> None:
    cluster = Cluster()
    first = await cluster.join("a")
    cluster.beat("killed")

    cluster.pass_time(SILENT_SEC, first, beating=("live",))
    before = first.roster.live()
    cluster.pass_time(2 * TICK_SEC, first, beating=("live",))

    assert before == ("a", "killed", "live")
    assert first.roster.live() == ("a", "live")
    assert HEARTBEAT_SEC + SILENT_SEC <= 5.0 - TICK_SEC


async def test_silence_does_not_count_while_the_observer_is_disconnected() -> None:
    cluster, broker = Cluster(), Faults()
    first = await cluster.join("a", broker)
    cluster.beat("b")

    broker.is_offline = True
    cluster.pass_time(60.0, first)
    while_away = first.roster.live()
    broker.is_offline = False
    cluster.pass_time(SILENT_SEC - TICK_SEC, first)
    soon_after = first.roster.live()
    cluster.pass_time(3 * TICK_SEC, first)

    assert while_away == soon_after == ("a", "b")
    assert first.roster.live() == ("a",)


async def test_silence_does_not_count_while_the_observer_stood_still() -> None:
    cluster = Cluster()
    first = await cluster.join("a")
    cluster.beat("b")

    cluster.clock.pass_time(60.0)
    first.forget_silent()

    assert first.roster.live() == ("a", "b")


async def test_the_number_of_remembered_gateways_is_bounded() -> None:
    cluster = Cluster()
    first = await cluster.join("a")

    for number in range(MAX_GATEWAYS + 10):
        cluster.beat(str(number))

    assert len(first.roster.heard_at) == MAX_GATEWAYS


async def test_heartbeats_are_sent_while_it_runs() -> None:
    cluster = Cluster()
    first = await cluster.join("a")
    heard: asyncio.Queue[PresenceNews] = asyncio.Queue()
    await cluster.presence.listen(lambda _, news: heard.put_nowait(news))
    task = asyncio.create_task(first.run())

    async with asyncio.timeout(5):
        news = await heard.get()
    task.cancel()
    await asyncio.wait([task])

    assert news is PresenceNews.PRESENT


@given(names=st.sets(st.text(min_size=1), min_size=1, max_size=6), key=st.text())
def test_a_key_has_exactly_one_owner_and_keeps_it_while_that_lives(names: set[str], key: str) -> None:
    def owners(live: set[str]) -> list[str]:
        rosters = [GatewayRoster(own_id=name, heard_at=dict.fromkeys(live - {name}, 0.0)) for name in live]
        return [roster.own_id for roster in rosters if roster.owns(key)]

    (owner,) = owners(names)

    for other in names - {owner}:
        assert owners(names - {other}) == [owner]


def test_work_is_spread_over_the_gateways() -> None:
    roster = GatewayRoster(own_id="a", heard_at={"b": 0.0, "c": 0.0})

    owned = sum(roster.owns(f"key {number}") for number in range(3000))

    assert owned == pytest.approx(1000, rel=0.1)
