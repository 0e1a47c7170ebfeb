"""A client of a gateway's WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.streams import PATIENCE_SEC, Gateway

Frame = dict[str, Any]


@asynccontextmanager
async def joined(
    gateway: Gateway, run_id: str, *, headers: Mapping[str, str] | None = None, origin: str | None = None, **query: Any
) -> AsyncIterator[ClientConnection]:
    """A connection about a job; leaving the block disconnects."""
    address = f"ws://127.0.0.1:{gateway.port}/jobs/{run_id}/ws?{urlencode(query, doseq=True)}"
    async with connect(address, additional_headers=headers, origin=origin, proxy=None) as socket:  # type: ignore[arg-type]
        yield socket


async def next_frame(socket: ClientConnection, kind: str) -> Frame:
    """The next frame of this kind."""
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            frame: Frame = orjson.loads(await socket.recv())
            if frame["type"] == kind:
                return frame


async def to_the_close(socket: ClientConnection) -> tuple[list[Frame], int]:
    """All remaining frames, and the close code."""
    frames: list[Frame] = []
    async with asyncio.timeout(PATIENCE_SEC):
        try:
            while True:
                frames.append(orjson.loads(await socket.recv()))
        except ConnectionClosed as closed:
            return frames, closed.rcvd.code if closed.rcvd is not None else 1006


async def send(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(orjson.dumps(frame).decode())


def messages(frames: list[Frame]) -> list[str]:
    return [entry["message"] for frame in frames if frame["type"] == "log" for entry in frame["entries"]]
