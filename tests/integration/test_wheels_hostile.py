"""Failing uploads, and a gateway that dies during one: only complete wheels are listed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.pieces import Pieces
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.adapters.jetstream.wheel_store import JetStreamWheelStore
from pyoco_server.adapters.system import SystemClock
from support.broker import Broker
from support.gateways import gateway_settings
from support.programs import Program, address_of, up
from support.served import served
from support.wheels import NAME, large_wheel, wheel, wheel_name

BOUNDARY = "cut-here"
PATIENCE_SEC = 30.0


@pytest.fixture
def address(broker: Broker, tmp_path: Path) -> Iterator[str]:
    with served(gateway_settings(broker.url, tmp_path)) as found:
        yield found


def gateway(broker: Broker, folder: Path) -> Program:
    """A gateway in a process of its own."""
    return up(folder, "--nats-url", broker.url)


def form(data: bytes, name: str = NAME) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="wheel"; filename="{name}"\r\n\r\n'
    return head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def head(length: int) -> bytes:
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return f"POST /wheels HTTP/1.1\r\nHost: [::1]\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode()


def connected_to(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE_SEC)


async def stored(broker: Broker, folder: Path) -> tuple[int, frozenset[str]]:
    """The number of registered wheels, and the uploads that have chunks."""
    config = gateway_settings(broker.url, folder)
    async with await Connection.open(config) as connection:
        store = JetStreamWheelStore(connection, config, await ensure_resources(connection, config), SystemClock())
        return len(await store.all()), await Pieces(connection, config.wheel_object_store_bucket).upload_ids()


async def wait_until_no_chunks(broker: Broker, folder: Path) -> None:
    """Waits until no upload has chunks."""
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            if await stored(broker, folder) == (0, frozenset()):
                return
            await asyncio.sleep(0.02)


async def wait_until_chunks(broker: Broker, folder: Path) -> None:
    """Waits until an upload has chunks."""
    config = gateway_settings(broker.url, folder)
    async with asyncio.timeout(PATIENCE_SEC), await Connection.open(config) as connection:
        pieces = Pieces(connection, config.wheel_object_store_bucket)
        while True:
            if await pieces.upload_ids():
                return


async def test_a_truncated_body_leaves_nothing(address: str, broker: Broker, tmp_path: Path) -> None:
    body = form(wheel(files={"demo/data.bin": os.urandom(3_000_000)}))
    for sent in (10, 1000, len(body) // 2, len(body) - 5):
        with connected_to(address) as connection:
            connection.sendall(head(len(body)) + body[:sent])

    async with httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("/wheels")).json() == []
    await wait_until_no_chunks(broker, tmp_path)


# Starlette leaves the file of a part without an end to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("claimed", "response"), [(-40, b" 422 "), (10**9, b" 413 ")])
async def test_a_wrong_content_length_is_rejected(
    address: str, broker: Broker, tmp_path: Path, claimed: int, response: bytes
) -> None:
    body = form(wheel())
    with connected_to(address) as connection:
        connection.sendall(head(len(body) + claimed) + body[: len(body) + min(claimed, 0)])
        received = connection.recv(200)

    assert response in received.splitlines()[0]
    assert await stored(broker, tmp_path) == (0, frozenset())


async def test_a_gateway_killed_during_an_upload_leaves_no_wheel_and_the_next_upload_cleans_up(
    broker: Broker, tmp_path: Path
) -> None:
    path = large_wheel(tmp_path / NAME, 60_000_000)
    config = gateway_settings(broker.url, tmp_path)
    with gateway(broker, tmp_path) as program:
        there = address_of(program)
        sending = asyncio.create_task(_upload(there, path))
        await wait_until_chunks(broker, tmp_path)
        os.kill(program.pid, signal.SIGKILL)
        with suppress(httpx.TransportError):
            await sending

    registered, left = await stored(broker, tmp_path)
    assert registered == 0
    assert len(left) == 1

    async with await Connection.open(config) as connection:
        facts = await ensure_resources(connection, config)
        later = JetStreamWheelStore(connection, config, facts, SystemClock(), quiet_sec=0.0)
        await later.put(wheel_name("other"), _pieces(b"other"), tags=())
    assert (await stored(broker, tmp_path))[0] == 1
    assert left.isdisjoint((await stored(broker, tmp_path))[1])


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
async def test_a_large_wheel_needs_little_memory(broker: Broker, tmp_path: Path) -> None:
    path = large_wheel(tmp_path / NAME, 100_000_000)
    with gateway(broker, tmp_path) as program:
        there = address_of(program)
        async with httpx.AsyncClient(base_url=there, timeout=PATIENCE_SEC) as client:
            await client.get("/wheels")
            before = peak_mb(program.pid)
            response = await _upload(there, path)
            received = 0
            async with client.stream("GET", f"/wheels/{NAME}") as download:
                async for piece in download.aiter_bytes():
                    received += len(piece)

        assert response.status_code == 200, response.text
        assert received == path.stat().st_size
        assert peak_mb(program.pid) - before < 32


def peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM"))


async def _upload(address: str, path: Path) -> httpx.Response:
    def send() -> httpx.Response:
        with httpx.Client(base_url=address, timeout=PATIENCE_SEC) as client, path.open("rb") as file:
            return client.post("/wheels", files={"wheel": (path.name, file)})

    return await asyncio.to_thread(send)


async def _pieces(data: bytes) -> Any:
    yield data
