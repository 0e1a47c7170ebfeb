"""The wheel registry as a gateway offers it, on stores that fail when a test wants them to."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging

import pytest

from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.domain.wheels.wheel import Wheel, parse_wheel_name
from pyoco_server.errors import BrokerUnavailable, InvalidRequest, UploadsBusy, WheelNotFound, WheelVersionConflict
from pyoco_server.services.idempotency import LEASE_SEC, IdempotentAttempt
from pyoco_server.services.wheels import Trail, Upload, WheelService, upload_turn
from support.attempts import Work, once
from support.keyed import asked, killed
from support.wheels import NAME, wheel, wheel_name
from support.world import USER, World

TRAIL = Trail(source={"client": "10.0.0.7"}, actor={"kind": "anonymous"})


async def upload(world: World, name: str = NAME, data: bytes | None = None) -> Wheel:
    whole = wheel() if data is None else data
    return await WheelService(world.stores).upload(as_upload(whole, name), TRAIL, USER)


def as_upload(whole: bytes, name: str = NAME) -> Upload:
    return Upload(
        name=parse_wheel_name(name),
        file=io.BytesIO(whole),
        size=len(whole),
        sha256_hex=hashlib.sha256(whole).hexdigest(),
        tags=("gpu",),
    )


def turn() -> IdempotentAttempt:
    return IdempotentAttempt(USER, "")


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
        await WheelService(world.stores).delete(NAME, TRAIL, turn())

    assert registered.name == NAME
    assert await world.truth.wheels.all() == []
    assert [record.getMessage() for record in caplog.records] == ["wheel event not stored"] * 2


async def test_a_wheel_that_could_not_be_stored_is_not_remembered(world: World) -> None:
    world.faults.fail("wheels.put")

    with pytest.raises(BrokerUnavailable):
        await upload(world)

    assert await world.truth.wheel_history.recent(10) == []


async def test_a_deletion_is_remembered_and_of_two_at_once_one_is_told_that_there_is_nothing(world: World) -> None:
    await upload(world)

    async def somebody_else() -> None:
        await WheelService(world.stores).delete(NAME, TRAIL, turn())

    world.faults.before("wheels.delete", somebody_else)

    with pytest.raises(WheelNotFound):
        await WheelService(world.stores).delete(NAME, TRAIL, turn())
    with pytest.raises(WheelNotFound):
        await WheelService(world.stores).delete(wheel_name("other"), TRAIL, turn())
    assert [event.action for event in await world.truth.wheel_history.recent(10)] == ["delete", "upload"]


# --- with a key -------------------------------------------------------------------------------------------------------


def uploads(world: World, data: bytes | None = None) -> Work:
    async def work(turn: IdempotentAttempt) -> Answer:
        registered = await WheelService(world.stores).upload(as_upload(data or wheel()), TRAIL, turn.context)
        return Answer(status=200, body=registered.nuid.encode())

    return work


def deletes(world: World) -> Work:
    async def work(turn: IdempotentAttempt) -> Answer:
        await WheelService(world.stores).delete(NAME, TRAIL, turn)
        return Answer(status=200, body=b"deleted")

    return work


async def ask_in_vain(world: World, work: Work) -> None:
    """Killed on the way; then its lease ends, and the stores are there for others."""
    with pytest.raises(BrokerUnavailable):
        await once(world.stores, asked(), str, work)
    world.faults.away = False
    world.clock.pass_time(LEASE_SEC)


async def ask_again(world: World, work: Work) -> bytes:
    return (await once(world.stores, asked(), str, work)).answer.body


@pytest.mark.parametrize(
    ("where", "call"), [("before", "wheels.put"), ("after", "wheels.put"), ("after", "wheel_history.add")]
)
async def test_wherever_an_upload_is_killed_the_next_one_carries_on_to_one_wheel_and_one_event(
    world: World, where: str, call: str
) -> None:
    if call == "wheel_history.add":
        world.faults.after("wheel_history.add", killed(world))
        await once(world.stores, asked(), str, uploads(world))  # that it was not remembered ends no upload
        world.faults.away = False
        world.clock.pass_time(LEASE_SEC)
    else:
        (world.faults.before if where == "before" else world.faults.after)(call, killed(world))
        await ask_in_vain(world, uploads(world))

    answers = {await ask_again(world, uploads(world)) for _ in range(2)}

    (registered,) = await world.truth.wheels.all()
    assert answers == {registered.nuid.encode()}
    assert [event.nuid for event in await world.truth.wheel_history.recent(10)] == [registered.nuid]


async def test_an_upload_of_what_somebody_else_has_registered_is_refused_with_a_key_too(world: World) -> None:
    await upload(world)

    with pytest.raises(WheelVersionConflict):
        await once(world.stores, asked(), str, uploads(world))


async def test_an_upload_that_is_carried_on_is_refused_where_other_bytes_were_registered_meanwhile(
    world: World,
) -> None:
    world.faults.before("wheels.put", killed(world))
    await ask_in_vain(world, uploads(world))
    await upload(world, data=wheel(files={"other.py": b"pass"}))

    with pytest.raises(WheelVersionConflict):
        await ask_again(world, uploads(world))


@pytest.mark.parametrize(("where", "call"), [("before", "wheels.delete"), ("after", "wheels.delete")])
async def test_wherever_a_deletion_is_killed_the_next_one_carries_on(world: World, where: str, call: str) -> None:
    await upload(world)
    (world.faults.before if where == "before" else world.faults.after)(call, killed(world))
    await ask_in_vain(world, deletes(world))

    assert await ask_again(world, deletes(world)) == b"deleted"
    assert await world.truth.wheels.all() == []


async def test_a_deletion_that_is_carried_on_leaves_an_upload_alone_that_came_after_it(world: World) -> None:
    await upload(world)
    world.faults.after("wheels.delete", killed(world))
    await ask_in_vain(world, deletes(world))
    registered = await upload(world)

    assert await ask_again(world, deletes(world)) == b"deleted"
    assert await world.truth.wheels.all() == [registered]


async def test_a_deletion_with_a_key_of_what_is_not_there_is_told_so_each_time(world: World) -> None:
    for _ in range(2):
        with pytest.raises(WheelNotFound):
            await once(world.stores, asked(), str, deletes(world))


async def test_of_two_who_delete_with_one_key_at_once_both_have_deleted_it(world: World) -> None:
    await upload(world)

    async def twin() -> None:
        world.clock.pass_time(LEASE_SEC)
        await ask_again(world, deletes(world))

    world.faults.before("wheels.delete", twin)

    assert await ask_again(world, deletes(world)) == b"deleted"
    assert [event.action for event in await world.truth.wheel_history.recent(10)] == ["delete", "upload"]
