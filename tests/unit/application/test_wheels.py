"""The wheel registry as a gateway offers it, on stores that fail when a test wants them to."""

from __future__ import annotations

import asyncio
import io
import logging

import pytest

from pyoco_server.application.wheels import Trail, Wheels, upload_turn
from pyoco_server.errors import InvalidRequest, NatsUnavailable, UploadsBusy, WheelNotFound, WheelVersionConflict
from pyoco_server.wheelhouse.names import parse_wheel_name
from pyoco_server.wheelhouse.wheel import Wheel
from support.wheels import NAME, wheel, wheel_name
from support.world import World

TRAIL = Trail(source={"client": "10.0.0.7"}, actor={"kind": "anonymous"})


@pytest.fixture
def world() -> World:
    return World()


async def upload(world: World, name: str = NAME, data: bytes | None = None) -> Wheel:
    whole = wheel() if data is None else data
    return await Wheels(world.stores).upload(parse_wheel_name(name), io.BytesIO(whole), len(whole), ("gpu",), TRAIL)


async def test_an_upload_is_stored_whole_and_remembered(world: World) -> None:
    registered = await upload(world)

    assert b"".join([piece async for piece in world.truth.wheels.read(registered)]) == wheel()
    (event,) = await world.truth.wheel_history.recent(10)
    assert (event.action, event.wheel_name, event.tags, event.nuid) == ("upload", NAME, ("gpu",), registered.nuid)
    assert (event.source, event.actor) == (TRAIL.source, TRAIL.actor)


async def test_of_many_uploads_at_a_time_the_last_is_told_to_come_again() -> None:
    uploads = asyncio.Semaphore(1)

    async with upload_turn(uploads):
        with pytest.raises(UploadsBusy):
            async with upload_turn(uploads, wait_sec=0.01):
                pytest.fail("there was no turn")
    async with upload_turn(uploads, wait_sec=0.01):
        assert uploads.locked()


async def test_what_is_no_wheel_is_not_stored(world: World) -> None:
    with pytest.raises(InvalidRequest):
        await upload(world, data=b"no zip")

    assert "wheels.put" not in world.faults.calls


async def test_an_older_version_is_refused_before_its_bytes_are_stored(world: World) -> None:
    await upload(world)
    world.faults.calls.clear()

    with pytest.raises(WheelVersionConflict):
        await upload(world)

    assert "wheels.put" not in world.faults.calls


async def test_a_version_that_somebody_registers_meanwhile_is_refused_in_the_end(world: World) -> None:
    async def somebody_else() -> None:
        await upload(world)

    world.faults.before("wheels.put", somebody_else)

    with pytest.raises(WheelVersionConflict):
        await upload(world)
    assert len(await world.truth.wheels.all()) == 1
    assert len(await world.truth.wheel_history.recent(10)) == 1


async def test_a_change_stands_when_its_event_cannot_be_stored_and_the_log_tells_of_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.faults.fail("wheel_history.add", times=2)

    with caplog.at_level(logging.ERROR):
        registered = await upload(world)
        await Wheels(world.stores).delete(NAME, TRAIL)

    assert registered.name == NAME
    assert await world.truth.wheels.all() == []
    assert [record.getMessage() for record in caplog.records] == ["wheel event was not remembered"] * 2


async def test_a_wheel_that_could_not_be_stored_is_not_remembered(world: World) -> None:
    world.faults.fail("wheels.put")

    with pytest.raises(NatsUnavailable):
        await upload(world)

    assert await world.truth.wheel_history.recent(10) == []


async def test_a_deletion_is_remembered_and_of_two_at_once_one_is_told_that_there_is_nothing(world: World) -> None:
    await upload(world)

    async def somebody_else() -> None:
        await Wheels(world.stores).delete(NAME, TRAIL)

    world.faults.before("wheels.delete", somebody_else)

    with pytest.raises(WheelNotFound):
        await Wheels(world.stores).delete(NAME, TRAIL)
    with pytest.raises(WheelNotFound):
        await Wheels(world.stores).delete(wheel_name("other"), TRAIL)
    assert [event.action for event in await world.truth.wheel_history.recent(10)] == ["delete", "upload"]
