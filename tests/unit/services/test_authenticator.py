"""Authentication with both methods, one of them, or no credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pyoco_server.domain.auth.api_keys import Pepper
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.errors import CredentialsMissing, InvalidApiKey, InvalidTicket, InvalidToken
from pyoco_server.services.auth.api_key_cache import ApiKeyCache
from pyoco_server.services.auth.authenticator import Authenticator, Credentials
from pyoco_server.stores import KeyStore
from pyoco_server.testing.broker import MemoryKeyValue
from support.callers import KEY, KEY_ID, SECRET, key_record
from support.clocks import ManualClock

BOB = Caller(name="bob", tenant_id="team-b", scopes=frozenset())


@pytest_asyncio.fixture
async def keyring() -> AsyncIterator[ApiKeyCache]:
    store = KeyStore(MemoryKeyValue())
    await store.create(key_record())
    made = ApiKeyCache(store, ManualClock(), Pepper(""))
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_each_credential_is_checked_by_its_method(keyring: ApiKeyCache) -> None:
    authenticator = Authenticator(keyring=keyring, read_token=lambda _: BOB)

    assert (await authenticator.admit(Credentials(api_key=KEY))).name == KEY_ID
    assert (await authenticator.admit(Credentials(token="t"))).name == "bob"


async def test_two_credentials_are_refused(keyring: ApiKeyCache) -> None:
    authenticator = Authenticator(keyring=keyring, read_token=lambda _: BOB)

    with pytest.raises(InvalidToken, match="not both"):
        await authenticator.admit(Credentials(api_key=KEY, token="t"))


async def test_missing_credentials_are_refused(keyring: ApiKeyCache) -> None:
    for authenticator in (Authenticator(keyring=keyring), Authenticator(read_token=lambda _: BOB)):
        with pytest.raises(CredentialsMissing):
            await authenticator.admit(Credentials())


def test_credentials_have_no_secret_in_their_repr() -> None:
    assert SECRET not in repr(Credentials(api_key=KEY, token=SECRET))


async def test_a_caller_admitted_before_the_revocation_of_its_key_loses_access() -> None:
    store = KeyStore(MemoryKeyValue())
    await store.create(key_record(revoked_at=1.0))
    keyring = ApiKeyCache(store, ManualClock(), Pepper(""))
    task = asyncio.create_task(keyring.run())
    await keyring.news(10)

    async with asyncio.timeout(10):
        refusal = await Authenticator(keyring=keyring).until_out(Credentials(api_key=KEY), again_sec=3600)

    assert isinstance(refusal, InvalidApiKey)
    task.cancel()
    await asyncio.wait([task])


async def test_a_ticket_loses_access_with_its_revoked_key() -> None:
    store = KeyStore(MemoryKeyValue())
    await store.create(key_record())
    keyring = ApiKeyCache(store, ManualClock(), Pepper(""))
    looking = asyncio.create_task(keyring.run())
    try:
        caller = await keyring.caller_of(KEY)
        out = asyncio.create_task(Authenticator(keyring=keyring).until_caller_out(caller))

        await store.revoke(KEY_ID, 1.0)

        async with asyncio.timeout(10):
            assert isinstance(await out, InvalidApiKey)
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def test_a_ticket_of_a_token_has_limited_access_time(keyring: ApiKeyCache) -> None:
    refusal = await Authenticator(keyring=keyring, read_token=lambda _: BOB).until_caller_out(BOB, stay_sec=0.001)

    assert isinstance(refusal, InvalidTicket)
