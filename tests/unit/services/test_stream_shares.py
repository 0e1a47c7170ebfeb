"""Shares of streams: a tenant that opens all it can leaves room for every other one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import TooManyStreams, TooManyWatchers
from pyoco_server.services.streaming.shares import RETRY_SEC, StreamShares
from support.topics import Followers
from support.world import World

LIMIT = 5000


def caller(tenant: str, key: str = "k") -> Caller:
    return Caller(name=key, tenant_id=tenant, api_key_id=key, scopes=frozenset({Scope.RUNS_READ}))


def open_all(shares: StreamShares, *callers: Caller) -> int:
    """How many streams the callers get if they open as many as they can, in turns."""
    opened, refused = 0, 0
    while refused < len(callers):
        refused = 0
        for one in callers:
            try:
                shares.take(one)
                opened += 1
            except TooManyWatchers:
                refused += 1
    return opened


def test_without_access_control_only_the_limit_counts() -> None:
    shares = StreamShares(LIMIT)

    assert open_all(shares, ANYONE) == LIMIT


def test_a_greedy_tenant_with_many_keys_leaves_half_and_the_next_ones_find_room() -> None:
    shares = StreamShares(LIMIT)
    greedy = open_all(shares, *(caller("greedy", str(number)) for number in range(50)))

    modest = [open_all(shares, *(caller(f"t{number}", str(key)) for key in range(20))) for number in range(4)]

    assert LIMIT * 0.45 < greedy <= LIMIT / 2
    assert min(modest) > 100
    assert shares.open_count < LIMIT


def test_tenants_that_compete_get_equal_shares() -> None:
    shares = StreamShares(LIMIT)
    tenants = [caller(f"t{number}") for number in range(4)]

    opened = open_all(shares, *tenants)

    assert {shares._of_tenants[one.tenant_id] for one in tenants} == {opened // 4}
    assert opened / 4 > LIMIT / 7


def test_a_greedy_caller_leaves_room_for_others_of_its_tenant() -> None:
    shares = StreamShares(LIMIT)
    greedy = open_all(shares, caller("t", "greedy"))

    assert greedy < LIMIT / 2
    assert open_all(shares, caller("t", "modest")) > 100


def test_the_share_grows_when_others_leave() -> None:
    shares = StreamShares(40)
    first, second = caller("a"), caller("b")
    open_all(shares, first, second)
    before = shares._of_tenants["a"]
    for _ in range(shares._of_tenants["b"]):
        shares.give_back(second)

    open_all(shares, first)

    assert shares._of_tenants["a"] > before
    assert "b" not in shares._of_tenants


@given(
    limit=st.integers(0, 60),
    steps=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.booleans()), max_size=150),
)
def test_counts_are_exact_and_a_new_tenant_is_refused_only_at_the_limit(
    limit: int, steps: list[tuple[str, str, bool]]
) -> None:
    shares = StreamShares(limit)
    held: list[Caller] = []
    for tenant, key, gives_back in steps:
        if gives_back and held:
            shares.give_back(held.pop())
        else:
            try:
                shares.take(caller(tenant, key))
                held.append(caller(tenant, key))
            except TooManyWatchers:
                is_new = caller(tenant, key) not in held
                assert not is_new or shares.open_count == limit or tenant in {one.tenant_id for one in held}

    assert shares.open_count == len(held) <= limit
    for one in held:
        shares.give_back(one)
    assert (shares.open_count, shares._of_tenants, shares._of_callers) == (0, {}, {})


async def test_streams_count_for_the_caller_that_opens_them() -> None:
    world = World(http_max_watchers=4)
    run_id = await world.submit()
    topics = Followers(world).topics
    greedy, modest = caller("greedy"), caller("modest")

    async with topics.join(run_id, tenant_filter=None, caller=greedy):
        with pytest.raises(TooManyWatchers):
            async with (
                topics.join(run_id, tenant_filter=None, caller=greedy),
                topics.join(run_id, tenant_filter=None, caller=greedy),
            ):
                pass
        async with topics.join(run_id, tenant_filter=None, caller=modest):
            assert topics.open_count == 2

    assert topics.open_count == 0


def test_a_caller_has_at_most_its_number_of_streams_also_without_access_control() -> None:
    shares = StreamShares(LIMIT, per_caller=3)
    for _ in range(3):
        shares.take(ANYONE, "198.51.100.7")

    with pytest.raises(TooManyStreams) as refused:
        shares.take(ANYONE, "198.51.100.7")
    shares.take(ANYONE, "198.51.100.8")
    shares.give_back(ANYONE, "198.51.100.7")
    shares.take(ANYONE, "198.51.100.7")

    assert refused.value.facts["retry_after_sec"] == RETRY_SEC
    assert shares.open_count == 4
