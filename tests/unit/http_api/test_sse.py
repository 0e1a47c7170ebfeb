"""The lines of server-sent events, and a stream that outlives neither its source nor its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
import pytest

from pyoco_server.http_api.responses import streams

Message = MutableMapping[str, Any]
SCOPE: Message = {"type": "http"}


class Script:
    """A source with these events; then it waits for the end, or has ended."""

    def __init__(self, *events: bytes, ends: bool) -> None:
        self._events = list(events)
        self._ended = asyncio.Event()
        self.closed = asyncio.Event()
        if ends:
            self._ended.set()

    async def next(self) -> bytes | None:
        if self._events:
            return self._events.pop(0)
        await self._ended.wait()
        return None

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        self.closed.set()


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


async def test_a_stream_ends_with_its_source() -> None:
    source = Script(b"one", b"two", ends=True)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await streams.EventStream(source)(SCOPE, never, send)

    assert b"content-length" not in dict(sent[0]["headers"])
    assert [message.get("body") for message in sent[1:]] == [streams.RETRY, b"one", b"two", b""]
    assert sent[-1].get("more_body", False) is False
    assert source.closed.is_set()


async def test_a_stream_ends_when_its_reader_hangs_up() -> None:
    source, told = Script(b"one", ends=False), asyncio.Event()

    async def send(message: Message) -> None:
        if message.get("body") == b"one":
            told.set()

    async with asyncio.timeout(5):
        await streams.EventStream(source)(SCOPE, hangs_up_after(told), send)

    assert source.closed.is_set()


async def test_a_body_that_is_refused_ends_the_stream_and_is_nobodys_fault() -> None:
    source = Script(ends=False)

    async def receive() -> Message:
        raise RuntimeError("too large")

    async def send(message: Message) -> None:
        pass

    async with asyncio.timeout(5):
        await streams.EventStream(source)(SCOPE, receive, send)

    assert source.closed.is_set()


async def test_a_reader_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALLED_SEC", 0.01)
    source = Script(b"one", ends=False)

    async def send(message: Message) -> None:
        if message.get("body") == b"one":
            await never()

    async with asyncio.timeout(5):
        await streams.EventStream(source)(SCOPE, never, send)

    assert source.closed.is_set()


async def test_a_stream_that_is_cancelled_frees_its_source() -> None:
    source, begun = Script(ends=False), asyncio.Event()

    async def send(message: Message) -> None:
        begun.set()

    task = asyncio.create_task(streams.EventStream(source)(SCOPE, never, send))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert source.closed.is_set()
