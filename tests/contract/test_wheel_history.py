"""What every history of wheels promises."""

from __future__ import annotations

from dataclasses import replace

from pyoco_server.domain.wheels.history import WheelEvent
from support.stores import Ports

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


async def test_an_event_comes_back_as_it_was_added(ports: Ports) -> None:
    assert await ports.wheel_history.recent(10) == []

    await ports.wheel_history.add(EVENT)

    assert await ports.wheel_history.recent(10) == [EVENT]


async def test_the_newest_come_first_and_no_more_than_asked_for(ports: Ports) -> None:
    for number in range(5):
        await ports.wheel_history.add(event(number))

    assert await ports.wheel_history.recent(3) == [event(4), event(3), event(2)]


async def test_an_event_that_is_added_twice_is_there_once(ports: Ports) -> None:
    await ports.wheel_history.add(EVENT)
    await ports.wheel_history.add(EVENT)

    assert await ports.wheel_history.recent(10) == [EVENT]


async def test_only_the_events_that_fit_are_shown(ports: Ports) -> None:
    other = "other-1.0-py3-none-any.whl"
    await ports.wheel_history.add(event(0))
    await ports.wheel_history.add(event(1, action="delete"))
    await ports.wheel_history.add(event(2, wheel_name=other))

    assert await ports.wheel_history.recent(10, action="delete") == [event(1, action="delete")]
    assert await ports.wheel_history.recent(10, wheel_name=other) == [event(2, wheel_name=other)]
    assert await ports.wheel_history.recent(10, wheel_name=other, action="delete") == []
    assert await ports.wheel_history.recent(1, wheel_name=EVENT.wheel_name, action="upload") == [event(0)]


async def test_a_rare_event_is_found_behind_very_many_others(ports: Ports) -> None:
    await ports.wheel_history.add(event(0, action="delete"))
    for number in range(1, 1200):
        await ports.wheel_history.add(event(number))

    assert await ports.wheel_history.recent(5, action="delete") == [event(0, action="delete")]
    assert await ports.wheel_history.recent(500) == [event(number) for number in range(1199, 699, -1)]
