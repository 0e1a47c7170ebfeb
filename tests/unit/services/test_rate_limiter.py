"""Rate limits of several gateways: the sum holds the quota, callers are apart, and the tables stay small."""

from __future__ import annotations

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.rate_limits import SECOND_NS, LimitClass, Rate
from pyoco_server.services.gateway_roster import GatewayRoster
from pyoco_server.services.rate_limiter import LOOKED_AT, OTHERS, DebtTable, LimitedCaller, RateLimiter
from support.clocks import ManualClock

ALICE, BOB = LimitedCaller("key alice", is_known=True), LimitedCaller("key bob", is_known=True)


class Gateways:
    """The rate limiters of some gateways on one clock."""

    def __init__(self, count: int, **settings: int) -> None:
        self.clock, config = ManualClock(), NatsBackendConfig(**settings)  # type: ignore[arg-type]
        names = [str(number) for number in range(count)]
        self.rosters = [GatewayRoster(own_id=name, heard_at=dict.fromkeys({*names} - {name}, 0.0)) for name in names]
        self.limiters = [RateLimiter(config, roster, self.clock) for roster in self.rosters]

    def admitted(self, requests: int, seconds: float = 0.0, caller: LimitedCaller = ALICE) -> int:
        """How many of these requests are admitted, sent in turns to all gateways over this time."""
        count = 0
        for number in range(requests):
            limiter = self.limiters[number % len(self.limiters)]
            count += limiter.judge(LimitClass.READ, caller).is_admitted
            self.clock.pass_time(seconds / requests)
        return count

    def kill(self, number: int) -> None:
        del self.limiters[number]
        for roster in self.rosters:
            roster.heard_at.pop(str(number), None)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("quota", [10, 60, 600])
def test_the_sum_over_gateways_holds_the_quota_at_once_and_in_every_further_minute(count: int, quota: int) -> None:
    gateways = Gateways(count, rate_limit_read_per_min=quota)

    at_once = gateways.admitted(3 * quota)
    minutes = [gateways.admitted(6 * quota, 60.0) for _ in range(5)]

    # Shares are whole requests: with tiny ones a gateway may be one off.
    assert [at_once, *minutes] == pytest.approx([quota] * 6, abs=max(quota / 10, count))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_with_a_short_burst_no_minute_has_more_than_a_tenth_above_the_quota(count: int) -> None:
    gateways = Gateways(count, rate_limit_read_per_min=600, rate_limit_burst_sec=6)

    minutes = [gateways.admitted(3600, 60.0) for _ in range(3)]

    assert minutes == pytest.approx([600] * 3, rel=0.1)
    assert max(minutes) <= 660


def test_a_caller_within_its_quota_is_never_refused() -> None:
    gateways = Gateways(2, rate_limit_read_per_min=60)

    assert gateways.admitted(600, 600.0) == 600


def test_the_share_of_a_gateway_that_left_is_used_by_the_others_at_once() -> None:
    gateways = Gateways(2, rate_limit_read_per_min=60)
    gateways.admitted(200)
    gateways.clock.pass_time(0.5)

    gateways.kill(1)
    after = gateways.admitted(600, 60.0)

    assert after == pytest.approx(60, rel=0.1)


def test_callers_do_not_use_each_others_quota() -> None:
    gateways = Gateways(1, rate_limit_read_per_min=60)

    greedy, modest = gateways.admitted(500, caller=ALICE), gateways.admitted(60, caller=BOB)

    assert (greedy, modest) == (60, 60)


def test_classes_have_quotas_of_their_own() -> None:
    (limiter,) = Gateways(1, rate_limit_read_per_min=1, rate_limit_write_per_min=1).limiters

    verdicts = [limiter.judge(limit, ALICE).is_admitted for limit in (LimitClass.READ, LimitClass.WRITE) * 2]

    assert verdicts == [True, True, False, False]
    assert +limiter.refused == {LimitClass.READ: 1, LimitClass.WRITE: 1}


RATE = Rate.per_minute(60)
NOW = 10**18


def test_a_caller_in_debt_is_not_forgotten_however_many_strangers_come() -> None:
    table = DebtTable(limit=100)
    while table.judge("limited", NOW, RATE).is_admitted:
        pass

    flood = [table.judge(f"stranger {number}", NOW, RATE).is_admitted for number in range(10_000)]

    assert not table.judge("limited", NOW, RATE).is_admitted
    assert len(table) <= 101
    # A hundred had room; all others share the quota of one caller.
    assert sum(flood) == 99 + 60


def test_a_caller_that_is_in_debt_and_silent_is_not_forgotten_by_a_slow_flood() -> None:
    table, now = DebtTable(limit=100), NOW
    while table.judge("limited", now, RATE).is_admitted:
        pass

    for number in range(3_000):
        now += SECOND_NS // 100
        table.judge(f"stranger {number}", now, RATE)

    # Thirty seconds have paid half of its debt.
    assert table.judge("limited", now, RATE).remaining == 29


def test_callers_without_debt_make_room() -> None:
    table, now = DebtTable(limit=LOOKED_AT), NOW
    for number in range(100):
        now += 2 * SECOND_NS
        table.judge(str(number), now, RATE)

    assert len(table) == LOOKED_AT
    assert OTHERS not in table._paid_at


def test_asking_whether_a_quota_is_used_up_costs_nothing() -> None:
    (limiter,) = Gateways(1, rate_limit_read_per_min=2).limiters

    before = [limiter.is_used_up(LimitClass.READ, ALICE) for _ in range(5)]
    for _ in range(2):
        limiter.judge(LimitClass.READ, ALICE)

    assert not any(before)
    assert limiter.is_used_up(LimitClass.READ, ALICE)
