"""What every store of dead letters promises."""

from __future__ import annotations

from pyoco_server.application.ports import DeadLetter
from support.stores import Ports


async def test_letters_come_back_newest_first(ports: Ports) -> None:
    letters = [DeadLetter(timestamp=float(number), reason="execution_error", tag="a") for number in range(5)]
    for letter in letters:
        await ports.dead_letters.publish(letter)

    assert await ports.dead_letters.recent() == letters[::-1]
    assert await ports.dead_letters.recent(2) == [letters[4], letters[3]]


async def test_a_letter_comes_back_as_it_was_written(ports: Ports) -> None:
    full = DeadLetter(
        timestamp=1.5,
        reason="invalid_job",
        error="no flow_name",
        run_id="r",
        flow_name="main",
        tag="gpu",
        tags=("a", "b"),
        worker_id="w",
        num_delivered=3,
        subject="pyoco.work.gpu",
    )
    bare = DeadLetter(timestamp=2.5, reason="invalid_job")

    await ports.dead_letters.publish(full)
    await ports.dead_letters.publish(bare)

    assert await ports.dead_letters.recent() == [bare, full]


async def test_without_letters_there_are_none(ports: Ports) -> None:
    assert await ports.dead_letters.recent() == []
    assert await ports.dead_letters.count() == 0


async def test_letters_are_counted(ports: Ports) -> None:
    for reason in ("invalid_job", "execution_error", "invalid_job"):
        await ports.dead_letters.publish(DeadLetter(timestamp=1.0, reason=reason))

    assert await ports.dead_letters.count() == 3
