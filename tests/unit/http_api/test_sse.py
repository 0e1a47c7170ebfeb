"""The lines of server-sent events, and a stream that outlives neither its generator nor its reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any

import orjson
import pytest
from starlette.types import Receive, Send

from pyoco_server.errors import RequestTooLarge
from pyoco_server.http_api.responses import streams

Message = MutableMapping[str, Any]
SCOPE: Message = {"type": "http"}


class Script:
    """A generator of these events; then it waits, or has ended."""

    def __init__(self, *events: bytes, ends: bool) -> None:
        self._events = events
        self._ends = ends
        self.is_closed = False

    async def events(self) -> AsyncGenerator[bytes, None]:
        try:
            for event in self._events:
                yield event
            if not self._ends:
                await asyncio.Event().wait()
        finally:
            self.is_closed = True


async def answer(source: Script, receive: Receive, send: Send) -> None:
    response = await streams.EventStream.of(source.events())
    await response(SCOPE, receive, send)


def hangs_up_after(sent: asyncio.Event) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        await sent.wait()
        return {"type": "http.disconnect"}

    return receive


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("it never comes")


def test_an_event_is_its_lines_and_an_empty_one() -> None:
    assert streams.event("snapshot", b"{}", 7) == b"id: 7\nevent: snapshot\ndata: {}\n\n"
    assert streams.event("heartbeat", b"{}") == b"event: heartbeat\ndata: {}\n\n"
    assert streams.comment("nats is away") == b": nats is away\n"


def test_an_event_has_no_character_that_a_reader_may_take_for_a_line_break() -> None:
    data = orjson.dumps({"text": "a\u2028b\u2029c\x85d"})

    written = streams.event("snapshot", data)

    lines = written.decode().splitlines()
    assert lines == ["event: snapshot", 'data: {"text":"a\\u2028b\\u2029c\\u0085d"}', ""]
    assert orjson.loads(lines[1].removeprefix("data: ")) == orjson.loads(data)


async def test_a_stream_ends_with_its_generator() -> None:
    source = Script(b"one", b"two", ends=True)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await answer(source, never, send)

    assert b"content-length" not in dict(sent[0]["headers"])
    assert [message.get("body") for message in sent[1:]] == [b"one", b"two", b""]
    assert sent[-1].get("more_body", False) is False
    assert source.is_closed


async def test_a_stream_without_events_is_no_content() -> None:
    response = await streams.EventStream.of(Script(ends=True).events())

    assert (response.status_code, response.body) == (204, b"")


async def test_a_stream_ends_when_its_reader_hangs_up() -> None:
    source, told = Script(b"one", ends=False), asyncio.Event()

    async def send(message: Message) -> None:
        if message.get("body") == b"one":
            told.set()

    async with asyncio.timeout(5):
        await answer(source, hangs_up_after(told), send)

    assert source.is_closed


async def test_a_rejected_body_ends_the_stream_without_an_error() -> None:
    source = Script(b"one", ends=False)

    async def receive() -> Message:
        raise RequestTooLarge("too large")

    async def send(message: Message) -> None:
        pass

    async with asyncio.timeout(5):
        await answer(source, receive, send)

    assert source.is_closed


async def test_a_reader_that_stalls_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALLED_SEC", 0.01)
    source = Script(b"one", ends=False)

    async def send(message: Message) -> None:
        if message.get("body") == b"one":
            await never()

    async with asyncio.timeout(5):
        await answer(source, never, send)

    assert source.is_closed


async def test_a_stream_that_is_cancelled_closes_its_generator() -> None:
    source, begun = Script(b"one", ends=False), asyncio.Event()

    async def send(message: Message) -> None:
        begun.set()

    task = asyncio.create_task(answer(source, never, send))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert source.is_closed
