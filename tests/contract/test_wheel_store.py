"""The guarantees of every WheelStore."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from pyoco_server.domain.wheels.wheel import Wheel
from pyoco_server.errors import InvalidRequest, WheelNotFound, WheelVersionConflict
from support.stores import Ports

NAME = "demo-1.0-py3-none-any.whl"
# Several chunks, the last of which is incomplete.
LARGE = bytes(range(256)) * 4096 + b"the end"


async def pieces_of(data: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def put(ports: Ports, name: str = NAME, data: bytes = b"bytes", tags: Sequence[str] = ()) -> Wheel:
    return await ports.wheels.put(name, pieces_of(data), tags=tags)


async def read(ports: Ports, wheel: Wheel) -> bytes:
    return b"".join([piece async for piece in ports.wheels.read(wheel)])


async def test_a_stored_wheel_is_listed_and_read_unchanged(ports: Ports) -> None:
    assert await ports.wheels.all() == []
    assert await ports.wheels.get(NAME) is None

    wheel = await put(ports, data=LARGE, tags=["gpu", "batch"])

    assert wheel.name == NAME
    assert wheel.size_bytes == len(LARGE)
    assert wheel.sha256_hex == hashlib.sha256(LARGE).hexdigest()
    assert wheel.tags == ("gpu", "batch")
    assert wheel.modified > 0
    assert await ports.wheels.all() == [wheel]
    assert await ports.wheels.get(NAME) == wheel
    assert await read(ports, wheel) == LARGE


async def test_wheels_of_two_owners_have_the_same_name(ports: Ports) -> None:
    shared, theirs = await put(ports, data=b"shared"), await put(ports, f"team-a/{NAME}", b"theirs")

    assert (shared.name, shared.tenant_id) == (NAME, None)
    assert (theirs.name, theirs.tenant_id) == (NAME, "team-a")
    assert await ports.wheels.all() == [shared, theirs]
    assert await ports.wheels.get(theirs.object_name) == theirs
    assert await read(ports, theirs) == b"theirs"
    assert await ports.wheels.delete(theirs)
    assert await ports.wheels.all() == [shared]


@pytest.mark.parametrize("data", [b"", b"x", b"x" * (128 * 1024), b"x" * (128 * 1024 + 1)])
async def test_a_wheel_of_any_size_is_stored(ports: Ports, data: bytes) -> None:
    wheel = await put(ports, data=data)

    assert await read(ports, wheel) == data


async def test_a_second_upload_replaces_the_first(ports: Ports) -> None:
    first = await put(ports, data=b"first")

    second = await put(ports, data=b"second")

    assert second.nuid != first.nuid
    assert await ports.wheels.all() == [second]
    assert await read(ports, second) == b"second"
    with pytest.raises(WheelNotFound):
        await read(ports, first)


async def test_a_reader_never_sees_bytes_of_two_uploads(ports: Ports) -> None:
    ours, theirs = b"a" * 8_000_000, b"b" * 8_000_000
    wheel = await put(ports, data=ours)
    seen = bytearray()

    async def read_while_it_is_replaced() -> None:
        async with aclosing(ports.wheels.read(wheel)) as pieces:
            async for piece in pieces:
                if not seen:
                    await put(ports, data=theirs)
                seen.extend(piece)

    with pytest.raises(WheelNotFound):
        await read_while_it_is_replaced()
    assert ours.startswith(bytes(seen))


async def test_an_incomplete_upload_keeps_the_stored_wheel(ports: Ports) -> None:
    first = await put(ports, data=b"first")

    async def cut_short() -> AsyncIterator[bytes]:
        yield LARGE
        raise InvalidRequest("the body ended before its time")

    with pytest.raises(InvalidRequest):
        await ports.wheels.put(NAME, cut_short(), tags=())

    assert await ports.wheels.all() == [first]
    assert await read(ports, first) == b"first"


async def test_a_deleted_wheel_is_removed_and_may_be_uploaded_again(ports: Ports) -> None:
    wheel = await put(ports)

    assert await ports.wheels.delete(wheel)

    assert await ports.wheels.all() == []
    assert await ports.wheels.get(NAME) is None
    assert not await ports.wheels.delete(wheel)
    with pytest.raises(WheelNotFound):
        await read(ports, wheel)
    again = await put(ports, data=b"again")
    assert await ports.wheels.all() == [again]
    assert await read(ports, again) == b"again"


async def test_a_delete_removes_only_the_named_upload(ports: Ports) -> None:
    first = await put(ports, data=b"first")
    second = await put(ports, data=b"second")

    assert not await ports.wheels.delete(first)

    assert await ports.wheels.all() == [second]


async def test_a_rejected_upload_changes_nothing(ports: Ports) -> None:
    first = await put(ports, data=b"first")
    lists: list[Sequence[Wheel]] = []

    def refuse(present: Sequence[Wheel]) -> None:
        lists.append(present)
        raise WheelVersionConflict

    with pytest.raises(WheelVersionConflict):
        await ports.wheels.put(NAME, pieces_of(b"second"), tags=(), admit=refuse)

    assert lists == [[first]]
    assert await ports.wheels.all() == [first]


async def test_concurrent_uploads_are_admitted_by_the_current_list(ports: Ports) -> None:
    def only_the_first(present: Sequence[Wheel]) -> None:
        if present:
            raise WheelVersionConflict

    names = [f"demo-1.0-py3{minor}-none-any.whl" for minor in range(8)]
    uploads = [ports.wheels.put(name, pieces_of(LARGE), tags=(), admit=only_the_first) for name in names]
    results = await asyncio.gather(*uploads, return_exceptions=True)

    won = [result for result in results if isinstance(result, Wheel)]
    lost = [result for result in results if isinstance(result, WheelVersionConflict)]
    assert (len(won), len(lost)) == (1, 7)
    assert await ports.wheels.all() == won


async def test_uploads_without_conflict_succeed_and_are_listed_by_name(ports: Ports) -> None:
    names = [f"demo{number}-1.0-py3-none-any.whl" for number in reversed(range(8))]

    stored = await asyncio.gather(*(put(ports, name) for name in names))

    assert await ports.wheels.all() == stored[::-1]
