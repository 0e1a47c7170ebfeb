"""Unbounded responses: backpressure, disconnects and errors, and lines of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import orjson
import pytest
from starlette.types import Message

from pyoco_server.errors import RequestTooLarge, WheelCorrupt, WheelNotFound
from pyoco_server.http_api.responses import streams
from pyoco_server.http_api.responses.streams import Download, EventStream

BOTH = pytest.mark.parametrize("kind", [EventStream, Download])
END = {"type": "http.response.body", "body": b""}


class Source:
    """Numbered chunks, then the end, an error, or (`waits`) nothing."""

    def __init__(self, count: int, error: Exception | None = None, *, waits: bool = False) -> None:
        self.given, self.closed = 0, False
        self._count, self._error, self._waits = count, error, waits

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(self._count):
                self.given += 1
                yield b"%d" % number
            if self._error is not None:
                raise self._error
            if self._waits:
                await asyncio.Event().wait()
        finally:
            self.closed = True


class Reader:
    """A client that disconnects or stops reading after some messages."""

    def __init__(self, *, leaves_after: int = 1000, stalls_after: int = 1000) -> None:
        self.sent: list[Message] = []
        self.has_read = asyncio.Event()
        self._leaves_after, self._stalls_after = leaves_after, stalls_after
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.has_read.set()
        if len(self.sent) >= self._leaves_after:
            self._gone.set()
        if len(self.sent) > self._stalls_after:
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def respond(kind: type[Download], source: Source, reader: Reader) -> None:
    if kind is EventStream:
        response = await EventStream.of(source.chunks())
    else:
        response = await Download.begun(source.chunks(), {"Content-Length": "10"})
    async with asyncio.timeout(5):
        await response({"type": "http"}, reader.receive, reader.send)


# --- both kinds -------------------------------------------------------------------------------------------------------


@BOTH
async def test_every_chunk_is_sent_in_order_and_then_the_end(kind: type[Download]) -> None:
    source, reader = Source(10), Reader()

    await respond(kind, source, reader)

    headers = dict(reader.sent[0]["headers"])
    assert (reader.sent[0]["status"], headers.get(b"content-length")) == (200, None if kind is EventStream else b"10")
    assert (reader.body, reader.sent[-1]) == (b"0123456789", END)
    assert source.closed


@BOTH
async def test_no_chunk_is_generated_after_a_disconnect(kind: type[Download]) -> None:
    source, reader = Source(1000, waits=True), Reader(leaves_after=5)

    await respond(kind, source, reader)

    assert source.given < 20
    assert source.closed


@BOTH
async def test_a_reader_that_stalls_is_disconnected(kind: type[Download], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALLED_SEC", 0.01)
    source, reader = Source(1000), Reader(stalls_after=3)

    await respond(kind, source, reader)

    assert (source.given < 20, reader.sent[-1] == END) == (True, False)
    assert source.closed


@BOTH
async def test_a_response_that_is_cancelled_closes_its_generator(kind: type[Download]) -> None:
    source, reader = Source(1, waits=True), Reader()
    responding = asyncio.create_task(respond(kind, source, reader))
    await reader.has_read.wait()

    responding.cancel()
    await asyncio.wait([responding])

    assert responding.cancelled()
    assert source.closed


# --- downloads --------------------------------------------------------------------------------------------------------


async def test_an_error_before_the_first_chunk_of_a_download_is_an_error_response() -> None:
    with pytest.raises(WheelNotFound):
        await Download.begun(Source(0, WheelNotFound()).chunks(), {})


async def test_a_later_error_aborts_a_download() -> None:
    reader = Reader()

    with pytest.raises(WheelCorrupt):
        await respond(Download, Source(3, WheelCorrupt()), reader)

    assert (reader.body, reader.sent[-1] == END) == (b"012", False)


# --- server-sent events -----------------------------------------------------------------------------------------------


async def test_a_stream_without_events_is_204() -> None:
    response = await EventStream.of(Source(0).chunks())

    assert (response.status_code, response.body) == (204, b"")


async def test_a_rejected_body_ends_a_stream_without_an_error() -> None:
    class Rejected(Reader):
        async def receive(self) -> Message:
            raise RequestTooLarge("too large")

    source, reader = Source(1, waits=True), Rejected()

    await respond(EventStream, source, reader)

    assert reader.sent[-1] == END
    assert source.closed


def test_an_event_ends_with_an_empty_line() -> None:
    assert streams.event("snapshot", b"{}", 7) == b"id: 7\nevent: snapshot\ndata: {}\n\n"
    assert streams.event("heartbeat", b"{}") == b"event: heartbeat\ndata: {}\n\n"
    assert streams.comment("nats is offline") == b": nats is offline\n"


def test_an_event_contains_no_unicode_line_separator() -> None:
    data = orjson.dumps({"text": "a\u2028b\u2029c\x85d"})

    written = streams.event("snapshot", data)

    lines = written.decode().splitlines()
    assert lines == ["event: snapshot", 'data: {"text":"a\\u2028b\\u2029c\\u0085d"}', ""]
    assert orjson.loads(lines[1].removeprefix("data: ")) == orjson.loads(data)
