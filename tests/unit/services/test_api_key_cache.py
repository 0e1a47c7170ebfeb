"""A gateway's copy of the API keys: how soon it knows, for how long it is believed, and what it costs the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, Pepper, write_key
from pyoco_server.errors import BrokerUnavailable, InvalidApiKey
from pyoco_server.ports import StreamState
from pyoco_server.services.auth.api_key_cache import TRUST_SEC, ApiKeyCache
from pyoco_server.stores import KeyStore
from pyoco_server.testing.broker import MemoryKeyValue
from support.callers import KEY, KEY_ID, SECRET, key_record
from support.clocks import ManualClock

UNKNOWN = write_key(KeyId("f" * 16), SECRET)


class Store(KeyStore):
    """A store that can go away, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(MemoryKeyValue())
        self.is_offline = False
        self.looks = 0
        self.reads = 0
        self.looked = asyncio.Event()

    async def position(self) -> StreamState:
        self.looks += 1
        self.looked.set()
        if self.is_offline:
            raise BrokerUnavailable
        return await super().position()

    async def all(self) -> Sequence[ApiKey]:
        self.reads += 1
        return await super().all()

    async def next_look(self) -> None:
        """Return when it was asked once more from now on."""
        self.looked.clear()
        await self.looked.wait()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@asynccontextmanager
async def looking(store: Store, clock: ManualClock, *, patience_sec: float = 30.0) -> AsyncIterator[ApiKeyCache]:
    keyring = ApiKeyCache(store, clock, Pepper(""), patience_sec=patience_sec)
    task = asyncio.create_task(keyring.run())
    try:
        yield keyring
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_key_opens_from_the_moment_it_was_made(clock: ManualClock) -> None:
    store = Store()
    async with looking(store, clock) as keyring:
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(KEY)

        await store.create(key_record())

        assert (await keyring.caller_of(KEY)).api_key_id == KEY_ID


async def test_a_revoked_key_is_refused_after_the_next_look(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with looking(store, clock) as keyring:
        await keyring.caller_of(KEY)
        await store.revoke(KEY_ID, 1.0)
        async with asyncio.timeout(10):
            await store.next_look()
            await store.next_look()  # the second one begins when the first is taken in

        with pytest.raises(InvalidApiKey, match="revoked"):
            await keyring.caller_of(KEY)


async def test_a_known_key_costs_the_store_nothing_and_an_unchanged_store_is_not_read_again(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with looking(store, clock) as keyring:
        await keyring.caller_of(KEY)
        looks = store.looks

        for _ in range(1000):
            await keyring.caller_of(KEY)

        assert store.looks == looks
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(UNKNOWN)
        assert store.looks > looks
        assert store.reads == 1


async def test_a_key_that_was_good_before_still_expires(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record(expires_at=1000.5))
    async with looking(store, clock) as keyring:
        for _ in range(2):
            await keyring.caller_of(KEY)

        clock.pass_time(0.5)

        with pytest.raises(InvalidApiKey, match="expired"):
            await keyring.caller_of(KEY)


async def test_many_refusals_share_one_look(clock: ManualClock) -> None:
    store = Store()
    async with looking(store, clock) as keyring:
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(UNKNOWN)
        before = store.looks

        refused = await asyncio.gather(*(keyring.caller_of(UNKNOWN) for _ in range(500)), return_exceptions=True)

        assert all(isinstance(one, InvalidApiKey) for one in refused)
        assert store.looks - before <= 2


async def test_what_does_not_look_like_a_key_is_refused_without_any_look(clock: ManualClock) -> None:
    store = Store()
    keyring = ApiKeyCache(store, clock, Pepper(""))

    with pytest.raises(InvalidApiKey):
        await keyring.caller_of("nonsense")

    assert store.looks == 0


async def test_a_copy_is_believed_for_a_second_after_the_store_went_away_and_no_longer(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with looking(store, clock, patience_sec=0.01) as keyring:
        while store.reads == 0:
            await store.next_look()
        await store.next_look()
        store.is_offline = True
        clock.pass_time(TRUST_SEC * 0.9)
        assert (await keyring.caller_of(KEY)).api_key_id == KEY_ID

        clock.pass_time(TRUST_SEC * 0.2)

        for key in (KEY, UNKNOWN):
            with pytest.raises(BrokerUnavailable, match="cannot be checked"):
                await keyring.caller_of(key)


async def test_the_second_runs_from_the_question_however_late_the_answer_comes(clock: ManualClock) -> None:
    class Slow(Store):
        async def position(self) -> StreamState:
            found = await super().position()
            clock.pass_time(TRUST_SEC * 0.6)
            return found

    store = Slow()
    await store.create(key_record())
    async with looking(store, clock, patience_sec=0.01) as keyring:
        while store.reads == 0:
            await store.next_look()
    clock.pass_time(TRUST_SEC * 0.5)  # and nobody looks any more

    with pytest.raises(BrokerUnavailable):
        await keyring.caller_of(KEY)


async def test_a_look_that_breaks_lets_nobody_in_and_the_next_one_mends_it(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Store):
        broken = True

        async def all(self) -> Sequence[ApiKey]:
            if self.broken:
                raise LookupError("not what a store says")
            return await super().all()

    store = Odd()
    await store.create(key_record())
    async with looking(store, clock) as keyring:
        waiting = asyncio.create_task(keyring.caller_of(KEY))
        await store.next_look()
        await store.next_look()
        assert not waiting.done()

        store.broken = False

        assert (await waiting).api_key_id == KEY_ID
    assert caplog.text.count("API keys cannot be read") == 1


async def test_a_caller_waits_for_a_store_that_is_soon_back(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    store.is_offline = True
    async with looking(store, clock) as keyring:
        waiting = asyncio.create_task(keyring.caller_of(KEY))
        await store.next_look()

        store.is_offline = False

        assert (await waiting).api_key_id == KEY_ID


async def test_a_key_that_was_shown_before_is_asked_for_by_its_id(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with looking(store, clock) as keyring:
        await keyring.check_active(KEY_ID)
        looks = store.looks

        await keyring.check_active(KEY_ID)
        assert store.looks == looks  # a copy that is fresh is enough for a yes
        await store.revoke(KEY_ID, 1.0)
        clock.pass_time(TRUST_SEC)

        for key_id in (KEY_ID, "f" * 16):
            with pytest.raises(InvalidApiKey):
                await keyring.check_active(key_id)
