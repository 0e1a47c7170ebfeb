"""The wheel registry of a gateway, on stores with planned faults."""

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
from support.keyed import crash, keyed_request
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


async def test_an_upload_is_stored_and_recorded_in_the_history(world: World) -> None:
    registered = await upload(world)

    assert b"".join([piece async for piece in world.truth.wheels.read(registered)]) == wheel()
    (event,) = await world.truth.wheel_history.recent(10)
    assert (event.action, event.wheel_name, event.tags, event.nuid) == ("upload", NAME, ("gpu",), registered.nuid)
    assert (event.source, event.actor) == (TRAIL.source, TRAIL.actor)


async def test_uploads_above_the_limit_are_rejected_with_retry_after() -> None:
    uploads = asyncio.Semaphore(1)

    async with upload_turn(uploads):
        with pytest.raises(UploadsBusy):
            async with upload_turn(uploads, wait_sec=0.01):
                pytest.fail("there was no turn")
    async with upload_turn(uploads, wait_sec=0.01):
        assert uploads.locked()


async def test_an_invalid_wheel_is_not_stored(world: World) -> None:
    with pytest.raises(InvalidRequest):
        await upload(world, data=b"no zip")

    assert "wheels.put" not in world.faults.calls


async def test_an_older_version_is_refused_before_its_bytes_are_stored(world: World) -> None:
    await upload(world)
    world.faults.calls.clear()

    with pytest.raises(WheelVersionConflict):
        await upload(world)

    assert "wheels.put" not in world.faults.calls


async def test_a_version_registered_concurrently_is_refused(world: World) -> None:
    async def change_concurrently() -> None:
        await upload(world)

    world.faults.before("wheels.put", change_concurrently)

    with pytest.raises(WheelVersionConflict):
        await upload(world)
    assert len(await world.truth.wheels.all()) == 1
    assert len(await world.truth.wheel_history.recent(10)) == 1


async def test_a_change_without_a_history_entry_is_kept_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.faults.fail("wheel_history.add", times=2)

    with caplog.at_level(logging.ERROR):
        registered = await upload(world)
        await WheelService(world.stores).delete(NAME, None, TRAIL, turn())

    assert registered.name == NAME
    assert await world.truth.wheels.all() == []
    assert [record.getMessage() for record in caplog.records] == ["wheel event not stored"] * 2


async def test_a_wheel_that_cannot_be_stored_has_no_history_entry(world: World) -> None:
    world.faults.fail("wheels.put")

    with pytest.raises(BrokerUnavailable):
        await upload(world)

    assert await world.truth.wheel_history.recent(10) == []


async def test_a_deletion_is_recorded_and_a_concurrent_one_is_not_found(world: World) -> None:
    await upload(world)

    async def change_concurrently() -> None:
        await WheelService(world.stores).delete(NAME, None, TRAIL, turn())

    world.faults.before("wheels.delete", change_concurrently)

    with pytest.raises(WheelNotFound):
        await WheelService(world.stores).delete(NAME, None, TRAIL, turn())
    with pytest.raises(WheelNotFound):
        await WheelService(world.stores).delete(wheel_name("other"), None, TRAIL, turn())
    assert [event.action for event in await world.truth.wheel_history.recent(10)] == ["delete", "upload"]


# --- with a key -------------------------------------------------------------------------------------------------------


def uploads(world: World, data: bytes | None = None) -> Work:
    async def work(turn: IdempotentAttempt) -> Answer:
        registered = await WheelService(world.stores).upload(as_upload(data or wheel()), TRAIL, turn.context)
        return Answer(status=200, body=registered.nuid.encode())

    return work


def deletes(world: World) -> Work:
    async def work(turn: IdempotentAttempt) -> Answer:
        await WheelService(world.stores).delete(NAME, None, TRAIL, turn)
        return Answer(status=200, body=b"deleted")

    return work


async def crash_during(world: World, work: Work) -> None:
    """Crashes during the work; then its lease ends and the stores are back."""
    with pytest.raises(BrokerUnavailable):
        await once(world.stores, keyed_request(), str, work)
    world.faults.is_offline = False
    world.clock.pass_time(LEASE_SEC)


async def repeat_request(world: World, work: Work) -> bytes:
    return (await once(world.stores, keyed_request(), str, work)).answer.body


@pytest.mark.parametrize(
    ("where", "call"), [("before", "wheels.put"), ("after", "wheels.put"), ("after", "wheel_history.add")]
)
async def test_after_a_crash_at_any_call_an_upload_resumes_to_one_wheel_and_one_event(
    world: World, where: str, call: str
) -> None:
    if call == "wheel_history.add":
        world.faults.after("wheel_history.add", crash(world))
        await once(world.stores, keyed_request(), str, uploads(world))  # a missing history entry fails no upload
        world.faults.is_offline = False
        world.clock.pass_time(LEASE_SEC)
    else:
        (world.faults.before if where == "before" else world.faults.after)(call, crash(world))
        await crash_during(world, uploads(world))

    answers = {await repeat_request(world, uploads(world)) for _ in range(2)}

    (registered,) = await world.truth.wheels.all()
    assert answers == {registered.nuid.encode()}
    assert [event.nuid for event in await world.truth.wheel_history.recent(10)] == [registered.nuid]


async def test_with_a_key_an_upload_of_a_registered_version_is_refused(world: World) -> None:
    await upload(world)

    with pytest.raises(WheelVersionConflict):
        await once(world.stores, keyed_request(), str, uploads(world))


async def test_a_resumed_upload_is_refused_if_other_bytes_were_registered(
    world: World,
) -> None:
    world.faults.before("wheels.put", crash(world))
    await crash_during(world, uploads(world))
    await upload(world, data=wheel(files={"other.py": b"pass"}))

    with pytest.raises(WheelVersionConflict):
        await repeat_request(world, uploads(world))


@pytest.mark.parametrize(("where", "call"), [("before", "wheels.delete"), ("after", "wheels.delete")])
async def test_after_a_crash_at_any_call_a_deletion_resumes(world: World, where: str, call: str) -> None:
    await upload(world)
    (world.faults.before if where == "before" else world.faults.after)(call, crash(world))
    await crash_during(world, deletes(world))

    assert await repeat_request(world, deletes(world)) == b"deleted"
    assert await world.truth.wheels.all() == []


async def test_a_resumed_deletion_keeps_a_later_upload(world: World) -> None:
    await upload(world)
    world.faults.after("wheels.delete", crash(world))
    await crash_during(world, deletes(world))
    registered = await upload(world)

    assert await repeat_request(world, deletes(world)) == b"deleted"
    assert await world.truth.wheels.all() == [registered]


async def test_a_repeated_deletion_of_an_unknown_wheel_is_not_found_each_time(world: World) -> None:
    for _ in range(2):
        with pytest.raises(WheelNotFound):
            await once(world.stores, keyed_request(), str, deletes(world))


async def test_concurrent_deletions_with_one_key_both_succeed(world: World) -> None:
    await upload(world)

    async def twin() -> None:
        world.clock.pass_time(LEASE_SEC)
        await repeat_request(world, deletes(world))

    world.faults.before("wheels.delete", twin)

    assert await repeat_request(world, deletes(world)) == b"deleted"
    assert [event.action for event in await world.truth.wheel_history.recent(10)] == ["delete", "upload"]
