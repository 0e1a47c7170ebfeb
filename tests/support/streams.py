"""A gateway on a real socket, as streams require, and readers of its streams."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import uvicorn

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.protocol.connection_limits import SOCKETS, BoundedHttp, BoundedSocket
from pyoco_server.services.claims.claim_queue import ClaimQueue
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.stores import IdempotencyStore
from support.conformance import checked

PATIENCE_SEC = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A received event."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    event_id: str | None = None
    comments: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        return str(self.data["snapshot"]["status"])

    @property
    def version(self) -> int:
        return int(self.data["snapshot"]["version"])


class Gateway:
    """A gateway that listens."""

    def __init__(self, app: Any, server: uvicorn.Server, client: httpx.AsyncClient, port: int) -> None:
        self._app = app
        self._server = server
        self.client = client
        self.port = port

    @property
    def topics(self) -> RunTopics:
        topics: RunTopics = self._app.state.services.topics
        return topics

    def disconnect_all(self) -> None:
        """Ends the streams, as a stop does."""
        self._app.state.services.end_streams()

    @property
    def sockets(self) -> int:
        """The number of open WebSockets."""
        return sum(isinstance(one, BoundedSocket) for one in self._server.server_state.connections)

    @property
    def claims(self) -> ClaimQueue:
        claims: ClaimQueue = self._app.state.services.claims.queue
        return claims

    @property
    def records(self) -> IdempotencyStore:
        """The records of requests with a key."""
        records: IdempotencyStore = self._app.state.services.stores.idempotency
        return records


class _Server(uvicorn.Server):
    def __init__(self, app: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app, http=BoundedHttp, log_config=None, access_log=False, timeout_graceful_shutdown=10, **SOCKETS
            )
        )
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def listening(config: NatsBackendConfig, *, send_buffer: int | None = None) -> AsyncIterator[Gateway]:
    """A gateway on a free port; `send_buffer` bounds the bytes that the system buffers for a slow reader."""
    app = create_app(config)
    server = _Server(checked(app))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        port = listener.getsockname()[1]
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0, limits=limits) as client:
            try:
                yield Gateway(app, server, client, port)
            finally:
                app.state.services.end_streams()
                server.should_exit = True
                await serving


@asynccontextmanager
async def watching(
    client: httpx.AsyncClient,
    run_id: str,
    *,
    last_event_id: str | None = None,
    headers: Mapping[str, str] | None = None,
    **query: Any,
) -> AsyncIterator[AsyncGenerator[Event, None]]:
    """The events of a run's stream; leaving the block disconnects."""
    resume = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    sent = {**(headers or {}), **resume}
    async with client.stream("GET", f"/runs/{run_id}/watch", params=query, headers=sent) as response:
        assert response.status_code == 200, await response.aread()
        yield events_in(response.aiter_lines())


async def events_in(lines: AsyncIterator[str]) -> AsyncGenerator[Event, None]:
    """The events in these lines, read as a browser reads them."""
    fields: dict[str, str] = {}
    comments: list[str] = []
    async for line in lines:
        if line.startswith(":"):
            comments.append(line[1:].strip())
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "event" in fields:
                data = orjson.loads(fields["data"])
                yield Event(name=fields["event"], data=data, event_id=fields.get("id"), comments=tuple(comments))
            fields, comments = {}, []


async def until_status(events: AsyncIterator[Event], *statuses: str) -> list[Event]:
    """The events until the run has one of these statuses."""
    received = []
    async with asyncio.timeout(PATIENCE_SEC):
        async for event in events:
            received.append(event)
            if event.status in statuses:
                return received
    raise AssertionError(f"the stream ended before the run was {statuses}: {received}")


async def to_the_end(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(PATIENCE_SEC):
        return [event async for event in events]
