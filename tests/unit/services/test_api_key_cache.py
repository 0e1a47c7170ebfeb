"""A gateway's cache of API keys: freshness, trust during outages, and load on the store."""

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
    """A store that can be offline and counts its calls."""

    def __init__(self) -> None:
        super().__init__(MemoryKeyValue())
        self.is_offline = False
        self.checks = 0
        self.reads = 0
        self.polled = asyncio.Event()

    async def position(self) -> StreamState:
        self.checks += 1
        self.polled.set()
        if self.is_offline:
            raise BrokerUnavailable
        return await super().position()

    async def all(self) -> Sequence[ApiKey]:
        self.reads += 1
        return await super().all()

    async def next_check(self) -> None:
        """Wait for the next position check."""
        self.polled.clear()
        await self.polled.wait()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@asynccontextmanager
async def running(store: Store, clock: ManualClock, *, patience_sec: float = 30.0) -> AsyncIterator[ApiKeyCache]:
    keyring = ApiKeyCache(store, clock, Pepper(""), patience_sec=patience_sec)
    task = asyncio.create_task(keyring.run())
    try:
        yield keyring
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_new_key_is_accepted_at_once(clock: ManualClock) -> None:
    store = Store()
    async with running(store, clock) as keyring:
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(KEY)

        await store.create(key_record())

        assert (await keyring.caller_of(KEY)).api_key_id == KEY_ID


async def test_a_revoked_key_is_refused_after_the_next_check(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with running(store, clock) as keyring:
        await keyring.caller_of(KEY)
        await store.revoke(KEY_ID, 1.0)
        async with asyncio.timeout(10):
            await store.next_check()
            await store.next_check()  # the second check begins after the first is applied

        with pytest.raises(InvalidApiKey, match="revoked"):
            await keyring.caller_of(KEY)


async def test_a_cached_key_needs_no_read_and_an_unchanged_store_is_not_reread(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with running(store, clock) as keyring:
        await keyring.caller_of(KEY)
        checks = store.checks

        for _ in range(1000):
            await keyring.caller_of(KEY)

        assert store.checks == checks
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(UNKNOWN)
        assert store.checks > checks
        assert store.reads == 1


async def test_a_cached_key_still_expires(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record(expires_at=1000.5))
    async with running(store, clock) as keyring:
        for _ in range(2):
            await keyring.caller_of(KEY)

        clock.pass_time(0.5)

        with pytest.raises(InvalidApiKey, match="expired"):
            await keyring.caller_of(KEY)


async def test_many_refusals_share_one_check(clock: ManualClock) -> None:
    store = Store()
    async with running(store, clock) as keyring:
        with pytest.raises(InvalidApiKey):
            await keyring.caller_of(UNKNOWN)
        before = store.checks

        refused = await asyncio.gather(*(keyring.caller_of(UNKNOWN) for _ in range(500)), return_exceptions=True)

        assert all(isinstance(one, InvalidApiKey) for one in refused)
        assert store.checks - before <= 2


async def test_a_malformed_key_is_refused_without_a_check(clock: ManualClock) -> None:
    store = Store()
    keyring = ApiKeyCache(store, clock, Pepper(""))

    with pytest.raises(InvalidApiKey):
        await keyring.caller_of("nonsense")

    assert store.checks == 0


async def test_the_cache_is_trusted_for_one_second_of_an_outage(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with running(store, clock, patience_sec=0.01) as keyring:
        while store.reads == 0:
            await store.next_check()
        await store.next_check()
        store.is_offline = True
        clock.pass_time(TRUST_SEC * 0.9)
        assert (await keyring.caller_of(KEY)).api_key_id == KEY_ID

        clock.pass_time(TRUST_SEC * 0.2)

        for key in (KEY, UNKNOWN):
            with pytest.raises(BrokerUnavailable, match="cannot be checked"):
                await keyring.caller_of(key)


async def test_the_trusted_second_starts_at_the_request_to_the_store(clock: ManualClock) -> None:
    class Slow(Store):
        async def position(self) -> StreamState:
            found = await super().position()
            clock.pass_time(TRUST_SEC * 0.6)
            return found

    store = Slow()
    await store.create(key_record())
    async with running(store, clock, patience_sec=0.01) as keyring:
        while store.reads == 0:
            await store.next_check()
    clock.pass_time(TRUST_SEC * 0.5)  # without any further check

    with pytest.raises(BrokerUnavailable):
        await keyring.caller_of(KEY)


async def test_a_failed_read_accepts_no_key_and_the_next_one_recovers(
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
    async with running(store, clock) as keyring:
        waiting = asyncio.create_task(keyring.caller_of(KEY))
        await store.next_check()
        await store.next_check()
        assert not waiting.done()

        store.broken = False

        assert (await waiting).api_key_id == KEY_ID
    assert caplog.text.count("API keys cannot be read") == 1


async def test_a_caller_waits_for_a_store_during_a_short_outage(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    store.is_offline = True
    async with running(store, clock) as keyring:
        waiting = asyncio.create_task(keyring.caller_of(KEY))
        await store.next_check()

        store.is_offline = False

        assert (await waiting).api_key_id == KEY_ID


async def test_an_admitted_key_is_rechecked_by_its_id(clock: ManualClock) -> None:
    store = Store()
    await store.create(key_record())
    async with running(store, clock) as keyring:
        await keyring.check_active(KEY_ID)
        checks = store.checks

        await keyring.check_active(KEY_ID)
        assert store.checks == checks  # a fresh cache accepts without a check
        await store.revoke(KEY_ID, 1.0)
        clock.pass_time(TRUST_SEC)

        for key_id in (KEY_ID, "f" * 16):
            with pytest.raises(InvalidApiKey):
                await keyring.check_active(key_id)
