"""Long responses: they end when their caller loses access, and no sooner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import Pepper
from pyoco_server.errors import InvalidToken
from pyoco_server.http_api.middleware.authentication import Access, CredentialsReader, Guard
from pyoco_server.http_api.middleware.rejection_log import RejectionLog
from pyoco_server.http_api.responses.streams import EventStream
from pyoco_server.services.auth.api_key_cache import ApiKeyCache
from pyoco_server.services.auth.authenticator import Authenticator, Credentials
from pyoco_server.stores import KeyStore
from pyoco_server.testing.broker import MemoryKeyValue
from support.callers import KEY, KEY_ID, key_record
from support.clocks import ManualClock

CONFIG = NatsBackendConfig(http_auth_mode="api_key")


class Request:
    """A request as an ASGI server delivers it: a body of two parts, then nothing until the disconnect."""

    def __init__(self, keyring: ApiKeyCache) -> None:
        self._messages = [{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.request"}]
        self.disconnected = asyncio.Event()
        self.silent = asyncio.Event()
        app = SimpleNamespace(
            state=SimpleNamespace(
                services=SimpleNamespace(authenticator=Authenticator(keyring=keyring)),
                rejections=RejectionLog(ManualClock()),
            )
        )
        self.scope = {"type": "http", "app": app, "headers": [(b"x-api-key", KEY.encode())]}

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        self.silent.set()
        await self.disconnected.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def store() -> KeyStore:
    return KeyStore(MemoryKeyValue())


@pytest_asyncio.fixture
async def request_(store: KeyStore) -> AsyncIterator[Request]:
    await store.create(key_record())
    keyring = ApiKeyCache(store, ManualClock(), Pepper(""))
    task = asyncio.create_task(keyring.run())
    yield Request(keyring)
    task.cancel()
    await asyncio.wait([task])


async def silent() -> AsyncGenerator[bytes, None]:
    """One event, then none."""
    yield b"first"
    await asyncio.Event().wait()


async def guarded(request: Request, app: ASGIApp) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await Guard(app, "/runs", Access(frozenset()), CredentialsReader(CONFIG))(request.scope, request.receive, send)
    return sent


def start_stream(request: Request) -> asyncio.Task[list[Message]]:
    """The messages of a guarded stream until its end."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await EventStream.of(silent()))(scope, receive, send)

    return asyncio.create_task(guarded(request, app))


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_guarded_route_sees_the_disconnect_of_its_client(request_: Request, is_gone: bool) -> None:
    seen: list[bool] = []

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        await request.body()
        seen.append(await request.is_disconnected())

    if is_gone:
        request_.disconnected.set()
    await guarded(request_, route)

    assert seen == [is_gone]


async def test_a_stream_ends_when_its_key_is_revoked(request_: Request, store: KeyStore) -> None:
    stream = start_stream(request_)
    await request_.silent.wait()

    await store.revoke(KEY_ID, 1.0)

    async with asyncio.timeout(10):
        sent = await stream
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_change_of_other_keys_ends_no_stream(request_: Request, store: KeyStore) -> None:
    stream = start_stream(request_)
    await request_.silent.wait()
    authenticator = request_.scope["app"].state.services.authenticator  # type: ignore[attr-defined]

    await store.create(key_record(key_id="f" * 16))
    await authenticator.keyring.news(10)
    await asyncio.sleep(0)

    assert not stream.done()
    request_.disconnected.set()
    assert (await stream)[-1] == {"type": "http.response.body", "body": b""}


async def test_a_stream_ends_when_its_token_expires() -> None:
    reads = 0

    def read(token: str) -> Any:
        nonlocal reads
        reads += 1
        if reads > 2:
            raise InvalidToken("the token has expired")

    refusal = await Authenticator(read_token=read).until_out(Credentials(token="t"), again_sec=0.001)

    assert isinstance(refusal, InvalidToken)
    assert reads == 3
