"""What every store of requests with a key promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.idempotency.record import Answer, Record
from pyoco_server.domain.ids import CommitId
from support.stores import Ports

KEY = RecordKey("0" * 64)
OTHER = RecordKey("1" * 64)
FIRST = Record(
    idempotency_key="k-1",
    endpoint="POST /runs",
    request_hash="sha256:00",
    holder="h-1",
    lease_until=5.0,
    commit_id=CommitId("c-1"),
    resource_id="r-1",
)
SECOND = replace(FIRST, holder="h-2", commit_id=CommitId("c-2"))
DONE = replace(FIRST, answer=Answer(status=200, body=b'{"run_id":"r-1"}', media_type="application/json"))


async def test_a_record_comes_back_as_it_was_created(ports: Ports) -> None:
    assert await ports.idempotency.get(KEY) is None

    created = await ports.idempotency.create(KEY, FIRST)

    assert created is not None
    assert created.record == FIRST
    assert await ports.idempotency.get(KEY) == created
    assert await ports.idempotency.get(OTHER) is None


async def test_of_many_who_create_at_once_one_does(ports: Ports) -> None:
    rivals = [replace(FIRST, holder=f"h-{number}") for number in range(8)]

    created = await asyncio.gather(*(ports.idempotency.create(KEY, rival) for rival in rivals))

    (winner,) = [one for one in created if one is not None]
    assert await ports.idempotency.get(KEY) == winner


async def test_a_creation_that_is_repeated_because_its_answer_was_lost_is_the_same_creation(ports: Ports) -> None:
    created = await ports.idempotency.create(KEY, FIRST)

    assert await ports.idempotency.create(KEY, FIRST) == created
    assert await ports.idempotency.create(KEY, SECOND) is None


async def test_a_record_is_replaced_by_whoever_knows_its_revision(ports: Ports) -> None:
    created = await ports.idempotency.create(KEY, FIRST)
    assert created is not None

    replaced = await ports.idempotency.replace(KEY, DONE, revision=created.revision)

    assert replaced is not None
    assert replaced.revision > created.revision
    assert await ports.idempotency.get(KEY) == replaced
    assert await ports.idempotency.replace(KEY, SECOND, revision=created.revision) is None
    assert await ports.idempotency.get(KEY) == replaced


async def test_a_replacement_that_is_repeated_because_its_answer_was_lost_is_the_same_one(ports: Ports) -> None:
    created = await ports.idempotency.create(KEY, FIRST)
    assert created is not None
    replaced = await ports.idempotency.replace(KEY, DONE, revision=created.revision)

    assert await ports.idempotency.replace(KEY, DONE, revision=created.revision) == replaced


async def test_of_many_who_take_over_at_once_one_does(ports: Ports) -> None:
    created = await ports.idempotency.create(KEY, FIRST)
    assert created is not None
    rivals = [replace(FIRST, holder=f"h-{number}") for number in range(2, 10)]

    taken = await asyncio.gather(
        *(ports.idempotency.replace(KEY, rival, revision=created.revision) for rival in rivals)
    )

    (winner,) = [one for one in taken if one is not None]
    assert await ports.idempotency.get(KEY) == winner


async def test_what_was_never_there_cannot_be_replaced(ports: Ports) -> None:
    assert await ports.idempotency.replace(KEY, FIRST, revision=7) is None
    assert await ports.idempotency.get(KEY) is None


async def test_a_removed_record_is_gone_and_its_key_can_be_used_again(ports: Ports) -> None:
    created = await ports.idempotency.create(KEY, FIRST)
    assert created is not None
    assert not await ports.idempotency.remove(KEY, revision=created.revision + 1)

    assert await ports.idempotency.remove(KEY, revision=created.revision)

    assert await ports.idempotency.get(KEY) is None
    assert not await ports.idempotency.remove(KEY, revision=created.revision)
    assert await ports.idempotency.replace(KEY, DONE, revision=created.revision) is None
    again = await ports.idempotency.create(KEY, SECOND)
    assert again is not None
    assert await ports.idempotency.get(KEY) == again
