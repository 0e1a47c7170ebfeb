"""What every store of API keys promises."""

from __future__ import annotations

from dataclasses import replace

from pyoco_server.domain.auth.api_keys import KeyId
from support.callers import key_record
from support.stores import Ports


async def test_a_record_comes_back_as_it_was_created(ports: Ports) -> None:
    assert await ports.keys.all() == []

    assert await ports.keys.create(key_record())

    assert await ports.keys.all() == [key_record()]


async def test_a_key_id_is_taken_once(ports: Ports) -> None:
    await ports.keys.create(key_record())

    assert not await ports.keys.create(key_record(tenant_id="somebody-else"))

    assert await ports.keys.all() == [key_record()]


async def test_a_creation_that_is_repeated_because_its_answer_was_lost_is_the_same_creation(ports: Ports) -> None:
    await ports.keys.create(key_record())

    assert await ports.keys.create(key_record())


async def test_a_revoked_key_stays_with_the_time_of_its_first_revocation(ports: Ports) -> None:
    await ports.keys.create(key_record())

    first = await ports.keys.revoke(key_record().key_id, 200.0)
    second = await ports.keys.revoke(key_record().key_id, 300.0)

    assert first == second == replace(key_record(), revoked_at=200.0)
    assert await ports.keys.all() == [first]


async def test_a_key_that_nobody_made_cannot_be_revoked(ports: Ports) -> None:
    assert await ports.keys.revoke(KeyId("00000000000000ff"), 200.0) is None
    assert await ports.keys.all() == []


async def test_the_store_looks_the_same_as_long_as_it_holds_the_same(ports: Ports) -> None:
    seen = [await ports.keys.position()]
    await ports.keys.create(key_record())
    seen += [await ports.keys.position(), await ports.keys.position()]
    await ports.keys.revoke(key_record().key_id, 200.0)
    seen.append(await ports.keys.position())
    await ports.keys.revoke(key_record().key_id, 300.0)
    seen.append(await ports.keys.position())

    assert seen[1] == seen[2]
    assert seen[3] == seen[4]
    assert len(set(seen)) == 3


async def test_many_keys_are_listed_once_each(ports: Ports) -> None:
    ids = [KeyId(f"{number:016x}") for number in range(600)]
    for key_id in ids:
        await ports.keys.create(key_record(key_id=key_id))
    await ports.keys.revoke(ids[0], 200.0)

    assert sorted(record.key_id for record in await ports.keys.all()) == ids
