"""Files as answers: at the reader's pace, and no further than somebody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from pyoco_server.errors import WheelCorrupt, WheelNotFound
from pyoco_server.http_api.responses import streams
from pyoco_server.http_api.responses.streams import Download


class Reader:
    """Whoever asked: takes what is sent, goes after so many messages, or stops taking."""

    def __init__(self, *, goes_after: int = 1000, stalls_after: int = 1000) -> None:
        self.sent: list[Message] = []
        self._goes_after, self._stalls_after = goes_after, stalls_after
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if len(self.sent) >= self._goes_after:
            self._gone.set()
        if len(self.sent) > self._stalls_after:
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        return self.sent[-1] == {"type": "http.response.body", "body": b""}


class Source:
    """Pieces, and a note of how many were asked for and whether it was closed."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.given, self.closed = 0, False
        self._count, self._error = count, error

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(self._count):
                self.given += 1
                yield b"%d" % number
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


async def download(source: Source, reader: Reader) -> None:
    answer = await Download.begun(source.pieces(), {"Content-Length": "10"})
    await answer({"type": "http"}, reader.receive, reader.send)


async def test_every_piece_is_sent_in_order_and_then_the_end() -> None:
    source, reader = Source(10), Reader()

    await download(source, reader)

    assert reader.sent[0]["status"] == 200
    assert (b"content-length", b"10") in reader.sent[0]["headers"]
    assert reader.body == b"0123456789"
    assert reader.ended
    assert source.closed


async def test_an_error_before_the_first_piece_is_told_as_one() -> None:
    with pytest.raises(WheelNotFound):
        await Download.begun(Source(0, WheelNotFound()).pieces(), {})


async def test_an_error_on_the_way_leaves_the_answer_without_an_end() -> None:
    source, reader = Source(3, WheelCorrupt()), Reader()

    with pytest.raises(WheelCorrupt):
        await download(source, reader)

    assert reader.body == b"012"
    assert not reader.ended


async def test_for_a_reader_who_has_gone_nothing_more_is_fetched() -> None:
    source, reader = Source(1000), Reader(goes_after=5)

    await download(source, reader)

    assert source.given < 20
    assert source.closed


async def test_a_reader_who_takes_nothing_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALLED_SEC", 0.01)
    source, reader = Source(1000), Reader(stalls_after=3)

    await download(source, reader)

    assert source.given < 20
    assert source.closed
