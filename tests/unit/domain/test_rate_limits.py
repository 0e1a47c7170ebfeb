"""The cell rate algorithm: never more than burst and rate allow, and never less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.rate_limits import NO_ADDRESS, SECOND_NS, Rate, address_key, admit

quotas = st.integers(1, 100_000)
parts = st.integers(1, 20)
bursts = st.integers(1, 120)
gaps = st.lists(st.integers(0, 30 * SECOND_NS), min_size=1, max_size=200)
START = 10**18


def admitted_at(rate: Rate, gaps: list[int]) -> list[int]:
    """The times of the admitted ones of requests with these gaps."""
    now, paid_at, times = START, 0, []
    for gap in gaps:
        now += gap
        verdict = admit(paid_at, now, rate)
        paid_at = verdict.paid_at
        if verdict.is_admitted:
            times.append(now)
    return times


@given(quota=quotas, parts=parts, burst_sec=bursts, gaps=gaps)
def test_in_any_time_at_most_the_burst_and_what_was_earned_is_admitted(
    quota: int, parts: int, burst_sec: int, gaps: list[int]
) -> None:
    rate = Rate.per_minute(quota, parts=parts, burst_sec=burst_sec)

    times = admitted_at(rate, gaps)

    for first in range(len(times)):
        for last in range(first, len(times)):
            assert (last - first + 1) * rate.cost_ns <= rate.burst_ns + times[last] - times[first]


@given(quota=quotas, gaps=gaps)
def test_a_request_is_refused_only_where_the_rule_wants_it(quota: int, gaps: list[int]) -> None:
    rate = Rate.per_minute(quota)
    now, debt, paid_at = START, 0, 0
    for gap in gaps:
        now, debt = now + gap, max(0, debt - gap)

        verdict = admit(paid_at, now, rate)

        paid_at = verdict.paid_at
        assert verdict.is_admitted == (debt + rate.cost_ns <= rate.burst_ns)
        debt += rate.cost_ns if verdict.is_admitted else 0


@given(quota=quotas, parts=parts, gaps=gaps)
def test_what_a_caller_is_told_is_true(quota: int, parts: int, gaps: list[int]) -> None:
    rate = Rate.per_minute(quota, parts=parts)
    now, paid_at = START, 0
    for gap in gaps:
        now += gap
        paid_at, _, remaining, wait_ns, reset_ns = admit(paid_at, now, rate)

    later = admit(paid_at, now + wait_ns, rate)
    too_early = admit(paid_at, now + wait_ns - 1, rate)
    at_once, more = paid_at, 0
    while more <= min(remaining, 300) and (verdict := admit(at_once, now, rate)).is_admitted:
        at_once, more = verdict.paid_at, more + 1

    assert later.is_admitted
    assert wait_ns == 0 or not too_early.is_admitted
    assert (wait_ns == 0) == (remaining > 0)
    assert more == min(remaining, 301)
    assert admit(paid_at, now + reset_ns, rate).reset_ns == rate.cost_ns


@pytest.mark.parametrize("quota", [1, 3, 7, 10, 120, 600, 7919])
def test_the_whole_quota_of_a_minute_is_admitted_at_once_and_again_in_each_further_minute(quota: int) -> None:
    rate = Rate.per_minute(quota)

    at_once = admitted_at(rate, [0] * (quota + 5))
    tries = admitted_at(rate, [0] * (quota + 5) + [SECOND_NS // 100] * 18_000)

    assert len(at_once) == quota
    assert len(tries) - quota == pytest.approx(3 * min(quota, 6000), abs=3)


@given(before=st.integers(1, 10), after=st.integers(1, 10), used=st.integers(0, 600))
def test_a_caller_keeps_the_fraction_of_its_burst_when_the_shares_change(before: int, after: int, used: int) -> None:
    old, new = Rate.per_minute(600, parts=before), Rate.per_minute(600, parts=after)
    paid_at = START
    for _ in range(used):
        paid_at = admit(paid_at, START, old).paid_at
    left = 1 - (paid_at - START) / old.burst_ns

    admitted = 0
    while (verdict := admit(paid_at, START, new)).is_admitted:
        paid_at, admitted = verdict.paid_at, admitted + 1

    assert admitted == pytest.approx(left * 600 / after, abs=1)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", NO_ADDRESS),
        ("unknown", NO_ADDRESS),
        ("1" * 5000, NO_ADDRESS),
    ],
)
def test_addresses_that_cost_a_client_nothing_are_one_caller(host: str, key: str) -> None:
    assert address_key(host) == key
