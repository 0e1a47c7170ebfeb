"""The object store of wheels on a real nats-server: other clients, leftovers, corruption."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import nats
import orjson
import pytest
import pytest_asyncio
from nats.js.api import ObjectMeta
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.pieces import Pieces
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.adapters.jetstream.wheel_store import QUIET_SEC, JetStreamWheelStore
from pyoco_server.adapters.system import SystemClock
from pyoco_server.errors import WheelCorrupt
from support.broker import Broker
from support.stores import settings

BUCKET = "pyoco_wheels"
NAME = "demo-1.0-py3-none-any.whl"
LARGE = bytes(range(256)) * 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A broker, and the store of one gateway on it."""

    broker: Broker
    connection: Connection
    wheels: JetStreamWheelStore
    pieces: Pieces


@asynccontextmanager
async def opened(broker: Broker, *, quiet_sec: float = QUIET_SEC) -> AsyncIterator[Place]:
    config = settings(broker.url)
    async with await Connection.open(config) as connection:
        facts = await ensure_resources(connection, config)
        store = JetStreamWheelStore(connection, config, facts, SystemClock(), quiet_sec=quiet_sec)
        yield Place(broker=broker, connection=connection, wheels=store, pieces=Pieces(connection, BUCKET))


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with Broker(tmp_path) as broker:
        async with opened(broker) as found:
            yield found


@asynccontextmanager
async def another_client(broker: Broker) -> AsyncIterator[ObjectStore]:
    client = await nats.connect(broker.url)
    try:
        yield await client.jetstream().object_store(BUCKET)
    finally:
        await client.close()


async def pieces_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_another_nats_client_reads_our_objects(place: Place) -> None:
    wheel = await place.wheels.put(NAME, pieces_of(LARGE), tags=["gpu"])

    async with another_client(place.broker) as theirs:
        found = await theirs.get(NAME)

        assert found.data == LARGE
        assert found.info.nuid == wheel.nuid
        assert found.info.headers == {"Pyoco-Wheel-Tags": ["gpu"]}
        assert [info.name for info in await theirs.list()] == [NAME]


async def test_objects_of_another_nats_client_are_readable(place: Place) -> None:
    async with another_client(place.broker) as theirs:
        await theirs.put(NAME, LARGE, meta=ObjectMeta(headers={"Pyoco-Wheel-Tags": ["gpu,batch"]}))

    wheel = await place.wheels.get(NAME)

    assert wheel is not None
    assert wheel.tags == ("gpu", "batch")
    assert wheel.sha256_hex == hashlib.sha256(LARGE).hexdigest()
    assert b"".join([piece async for piece in place.wheels.read(wheel)]) == LARGE


async def test_deletions_are_visible_in_both_directions_to_another_client(place: Place) -> None:
    await place.wheels.put(NAME, pieces_of(LARGE), tags=())
    other = await place.wheels.put("other-1-py3-none-any.whl", pieces_of(LARGE), tags=())

    async with another_client(place.broker) as theirs:
        await theirs.delete(NAME)
        await place.wheels.delete(other)

        assert await place.wheels.all() == []
        with pytest.raises(NotFoundError):
            await theirs.get("other-1-py3-none-any.whl")
        assert await place.pieces.upload_ids() == frozenset()


@pytest.mark.parametrize("nuid", [">", "*", "a b", "a.b", "", 5.5])
async def test_an_object_with_an_invalid_upload_id_is_ignored(place: Place, nuid: object) -> None:
    wheel = await place.wheels.put(NAME, pieces_of(LARGE), tags=())
    stray = "stray-1-py3-none-any.whl"
    meta = {"name": stray, "nuid": nuid, "size": 5, "chunks": 1}
    await place.connection.request(subjects.object_meta(BUCKET, stray), orjson.dumps(meta))

    assert await place.wheels.get(stray) is None
    assert [one.name for one in await place.wheels.all()] == [NAME]
    replaced = await place.wheels.put(stray, pieces_of(b"mine"), tags=())
    assert await place.wheels.delete(replaced)
    assert b"".join([piece async for piece in place.wheels.read(wheel)]) == LARGE


async def test_changed_bytes_are_detected(place: Place) -> None:
    wheel = await place.wheels.put(NAME, pieces_of(LARGE), tags=())
    subject = subjects.object_piece(BUCKET, wheel.nuid)
    await place.connection.api(subjects.stream_purge(f"OBJ_{BUCKET}"), {"filter": subject})
    for _ in range(len(LARGE) // (128 * 1024)):
        await place.connection.request(subject, b"x" * 128 * 1024)
    seen = bytearray()

    async def read() -> None:
        async for piece in place.wheels.read(wheel):
            seen.extend(piece)

    with pytest.raises(WheelCorrupt):
        await read()
    assert len(seen) < wheel.size_bytes


async def test_a_wheel_with_missing_bytes_is_an_error(place: Place) -> None:
    wheel = await place.wheels.put(NAME, pieces_of(LARGE), tags=())
    await place.pieces.purge(wheel.nuid)

    with pytest.raises(WheelCorrupt):
        _ = [piece async for piece in place.wheels.read(wheel)]


async def test_a_failed_upload_leaves_no_chunk(place: Place) -> None:
    async def truncated() -> AsyncIterator[bytes]:
        yield LARGE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await place.wheels.put(NAME, truncated(), tags=())

    assert await place.pieces.upload_ids() == frozenset()


async def test_a_cancelled_upload_leaves_no_chunk(place: Place) -> None:
    came_so_far = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield LARGE
        came_so_far.set()
        await asyncio.Event().wait()
        yield b""

    upload = asyncio.create_task(place.wheels.put(NAME, endless(), tags=()))
    await came_so_far.wait()
    upload.cancel()
    await asyncio.wait([upload])

    assert await place.pieces.upload_ids() == frozenset()


async def test_chunks_of_a_killed_gateway_are_removed_by_the_next_upload(place: Place) -> None:
    await place.pieces.write("leftover", pieces_of(LARGE))

    async with opened(place.broker, quiet_sec=0.0) as later:
        wheel = await later.wheels.put(NAME, pieces_of(LARGE), tags=())

    assert await place.wheels.all() == [wheel]
    assert await place.pieces.upload_ids() == {wheel.nuid}


async def test_chunks_of_an_upload_in_progress_are_kept(place: Place) -> None:
    await place.pieces.write("going-on", pieces_of(LARGE))

    wheel = await place.wheels.put(NAME, pieces_of(LARGE), tags=())

    assert await place.pieces.upload_ids() == {wheel.nuid, "going-on"}


async def test_a_download_resumes_after_a_broker_restart(place: Place) -> None:
    wheel = await place.wheels.put(NAME, pieces_of(LARGE * 4), tags=())
    seen = bytearray()

    async with aclosing(place.wheels.read(wheel)) as pieces:
        async for piece in pieces:
            if not seen:
                place.broker.kill()
                place.broker.start()
            seen.extend(piece)

    assert bytes(seen) == LARGE * 4


async def test_an_upload_that_ends_during_a_sweep_is_no_error(place: Place) -> None:
    await place.pieces.write("leftover", pieces_of(LARGE))

    await place.pieces.purge_idle(["finished", "leftover"], quiet_sec=0.0)

    assert await place.pieces.upload_ids() == frozenset()
