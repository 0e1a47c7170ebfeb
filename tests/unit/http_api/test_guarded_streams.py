"""Answers that go on for long: they end when their caller is not let in any more, and no sooner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import Pepper
from pyoco_server.errors import InvalidToken
from pyoco_server.http_api.middleware.authentication import Guard, Reader
from pyoco_server.http_api.middleware.rejection_log import RefusalLog
from pyoco_server.services.auth.api_key_cache import ApiKeyCache
from pyoco_server.services.auth.authenticator import Authenticator, Credentials
from pyoco_server.testing.key_store import MemoryKeyStore
from support.callers import KEY, KEY_ID, key_record
from support.clocks import ManualClock

CONFIG = NatsBackendConfig(http_auth_mode="api_key")


class Request:
    """A request as an ASGI server hands it over: a body of two parts, then silence until the reader hangs up."""

    def __init__(self, keyring: ApiKeyCache) -> None:
        self._messages = [{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.request"}]
        self.hung_up = asyncio.Event()
        self.silent = asyncio.Event()
        app = SimpleNamespace(
            state=SimpleNamespace(services=SimpleNamespace(authenticator=Authenticator(keyring=keyring)))
        )
        self.scope = {"type": "http", "app": app, "headers": [(b"x-api-key", KEY.encode())]}

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        self.silent.set()
        await self.hung_up.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def store() -> MemoryKeyStore:
    return MemoryKeyStore()


@pytest_asyncio.fixture
async def request_(store: MemoryKeyStore) -> AsyncIterator[Request]:
    await store.create(key_record())
    keyring = ApiKeyCache(store, ManualClock(), Pepper(""))
    task = asyncio.create_task(keyring.run())
    yield Request(keyring)
    task.cancel()
    await asyncio.wait([task])


def answering(request: Request) -> asyncio.Task[list[str]]:
    """The kinds of messages that a stream behind the guard receives until its end."""
    heard: list[str] = []

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    async def nowhere(message: Any) -> None: ...

    async def answer() -> list[str]:
        guard = Guard(stream, "/runs", frozenset(), Reader(CONFIG), RefusalLog(ManualClock()))
        await guard(request.scope, request.receive, nowhere)
        return heard

    return asyncio.create_task(answer())


async def test_a_stream_ends_when_its_key_is_revoked_although_its_reader_stays(
    request_: Request, store: MemoryKeyStore
) -> None:
    answer = answering(request_)
    await request_.silent.wait()

    await store.revoke(KEY_ID, 1.0)

    async with asyncio.timeout(10):
        assert await answer == ["http.request", "http.request", "http.disconnect"]


async def test_a_change_of_other_keys_ends_no_stream(request_: Request, store: MemoryKeyStore) -> None:
    answer = answering(request_)
    await request_.silent.wait()
    door = request_.scope["app"].state.services.authenticator  # type: ignore[attr-defined]

    await store.create(key_record(key_id="f" * 16))
    await door.keyring.news(10)
    await asyncio.sleep(0)

    assert not answer.done()
    request_.hung_up.set()
    assert (await answer)[-1] == "http.disconnect"


async def test_a_stream_whose_token_expires_ends() -> None:
    looks = 0

    def read(token: str) -> Any:
        nonlocal looks
        looks += 1
        if looks > 2:
            raise InvalidToken("the token has expired")

    refusal = await Authenticator(read_token=read).until_out(Credentials(token="t"), again_sec=0.001)

    assert isinstance(refusal, InvalidToken)
    assert looks == 3
