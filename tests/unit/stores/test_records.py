"""API keys, idempotency records, tickets and the history of wheels."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.auth.tickets import Ticket, key_of
from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.domain.wheels.history import WheelEvent
from support.callers import key_record
from support.samples import IDEMPOTENCY_KEY, IDEMPOTENCY_RECORD
from support.stores import Ports

SECRET = "s" * 43
CALLER = Caller(
    name="ann", tenant_id="team-a", api_key_id="0" * 16, scopes=frozenset({Scope.RUNS_READ}), valid_until=9.0
)
OTHERS = structs.replace(IDEMPOTENCY_RECORD, holder="h-2")
EVENT = WheelEvent(
    event_id="e0",
    occurred_at=1_000_000.0,
    action="upload",
    wheel_name="demo-1.0-py3-none-any.whl",
    tags=("gpu",),
    source={"client": "127.0.0.1", "user_agent": "curl", "request_id": "r1"},
    actor={"tenant_id": "team", "api_key_id": "k1"},
    size_bytes=5,
    sha256_hex="00" * 32,
    nuid="n1",
)


def event(number: int, **changed: object) -> WheelEvent:
    values: dict[str, object] = {"event_id": f"e{number}", "occurred_at": 1_000_000.0 + number}
    return replace(EVENT, **values | changed)  # type: ignore[arg-type]


async def test_a_key_id_is_used_once_and_its_creation_can_be_repeated(ports: Ports) -> None:
    assert await ports.keys.create(key_record())
    assert await ports.keys.create(key_record())
    assert not await ports.keys.create(key_record(tenant_id="another"))

    assert await ports.keys.all() == [key_record()]


async def test_a_revoked_key_keeps_the_time_of_its_first_revocation(ports: Ports) -> None:
    await ports.keys.create(key_record())

    first = await ports.keys.revoke(key_record().key_id, 200.0)
    position = await ports.keys.position()
    second = await ports.keys.revoke(key_record().key_id, 300.0)

    assert first == second == replace(key_record(), revoked_at=200.0)
    assert await ports.keys.all() == [first]
    assert await ports.keys.position() == position
    assert await ports.keys.revoke(KeyId("00000000000000ff"), 200.0) is None


async def test_an_unreadable_key_record_is_ignored(ports: Ports) -> None:
    await ports.keys._bucket.put(key_record().key_id, b'{"key_id": "another"}', revision=0)

    assert await ports.keys.all() == []
    assert await ports.keys.revoke(key_record().key_id, 200.0) is None


async def test_an_idempotency_record_is_created_once_and_its_creation_can_be_repeated(ports: Ports) -> None:
    assert await ports.idempotency.get(IDEMPOTENCY_KEY) is None
    created = await ports.idempotency.create(IDEMPOTENCY_KEY, IDEMPOTENCY_RECORD)

    assert created is not None
    assert created.record == IDEMPOTENCY_RECORD
    assert await ports.idempotency.create(IDEMPOTENCY_KEY, IDEMPOTENCY_RECORD) == created
    assert await ports.idempotency.create(IDEMPOTENCY_KEY, OTHERS) is None
    assert await ports.idempotency.get(IDEMPOTENCY_KEY) == created


async def test_an_idempotency_record_is_replaced_by_its_revision(ports: Ports) -> None:
    created = await ports.idempotency.create(IDEMPOTENCY_KEY, IDEMPOTENCY_RECORD)
    assert created is not None
    answered = structs.replace(IDEMPOTENCY_RECORD, answer=Answer(status=200, body=b"{}", media_type="application/json"))

    replaced = await ports.idempotency.replace(IDEMPOTENCY_KEY, answered, revision=created.revision)

    assert replaced is not None
    assert replaced.revision > created.revision
    assert await ports.idempotency.replace(IDEMPOTENCY_KEY, answered, revision=created.revision) == replaced
    assert await ports.idempotency.replace(IDEMPOTENCY_KEY, OTHERS, revision=created.revision) is None
    assert await ports.idempotency.get(IDEMPOTENCY_KEY) == replaced


async def test_the_key_of_a_removed_record_or_graph_can_be_used_again(ports: Ports) -> None:
    await ports.idempotency.create(IDEMPOTENCY_KEY, IDEMPOTENCY_RECORD)
    await ports.idempotency._bucket.purge(IDEMPOTENCY_KEY)

    again = await ports.idempotency.create(IDEMPOTENCY_KEY, OTHERS)

    assert again is not None
    assert await ports.idempotency.get(IDEMPOTENCY_KEY) == again


async def test_a_ticket_is_taken_once(ports: Ports) -> None:
    for number, caller in enumerate((CALLER, ANYONE)):
        ticket, key = Ticket(subject="job-1", caller=caller, expires_at=130.0), key_of(SECRET[:-1] + str(number))
        await ports.tickets.add(key, ticket)

        assert await ports.tickets.take(key_of("o" * 43)) is None
        assert await ports.tickets.take(key) == ticket
        assert await ports.tickets.take(key) is None


async def test_wheel_events_are_listed_once_each_newest_first(ports: Ports) -> None:
    assert await ports.wheel_history.recent(10) == []
    for number in (0, 1, 2, 2):
        await ports.wheel_history.add(event(number))

    assert await ports.wheel_history.recent(10) == [event(2), event(1), event(0)]
    assert await ports.wheel_history.recent(2) == [event(2), event(1)]


async def test_wheel_events_are_filtered_across_windows(ports: Ports) -> None:
    other = "other-1.0-py3-none-any.whl"
    await ports.wheel_history.add(event(0, action="delete"))
    for number in range(1, 1200):
        await ports.wheel_history.add(event(number))
    await ports.wheel_history.add(event(1200, wheel_name=other))

    assert await ports.wheel_history.recent(5, action="delete") == [event(0, action="delete")]
    assert await ports.wheel_history.recent(5, wheel_name=other) == [event(1200, wheel_name=other)]
    assert await ports.wheel_history.recent(5, wheel_name=other, action="delete") == []
    assert len(await ports.wheel_history.recent(500)) == 500
