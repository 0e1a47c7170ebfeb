"""What every store of dead letters promises."""

from __future__ import annotations

from pyoco_server.ports import DeadLetter, StoredDeadLetter
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


async def every_letter(ports: Ports, tag: str | None = None) -> list[StoredDeadLetter]:
    """All stretches, from the newest letter to the oldest."""
    found: list[StoredDeadLetter] = []
    before: int | None = None
    while True:
        stretch = await ports.dead_letters.stretch(before=before, tag=tag)
        found += stretch.letters
        if stretch.before is None:
            return found
        before = stretch.before


async def test_letters_are_found_by_their_number_newest_first_in_stretches(ports: Ports) -> None:
    letters = [DeadLetter(timestamp=float(number), reason="execution_error", tag="a") for number in range(1, 1101)]
    for letter in letters:
        await ports.dead_letters.publish(letter)

    found = await every_letter(ports)
    newest = await ports.dead_letters.stretch()

    assert [filed.letter for filed in found] == letters[::-1]
    assert len(newest.letters) < len(letters)
    assert newest.before == newest.letters[-1].seq
    assert await ports.dead_letters.get(found[3].seq) == found[3].letter


async def test_letters_of_one_tag_are_found_and_no_others(ports: Ports) -> None:
    for number in range(6):
        await ports.dead_letters.publish(
            DeadLetter(timestamp=float(number), reason="invalid_job", tag=("gpu", "cpu")[number % 2])
        )
    await ports.dead_letters.publish(DeadLetter(timestamp=6.0, reason="invalid_job"))

    assert [filed.letter.timestamp for filed in await every_letter(ports, "gpu")] == [4.0, 2.0, 0.0]
    assert [filed.letter.timestamp for filed in await every_letter(ports, "default")] == [6.0]
    assert await every_letter(ports, "nobody") == []


async def test_there_is_no_letter_under_a_number_that_was_never_given(ports: Ports) -> None:
    assert await every_letter(ports) == []
    assert await ports.dead_letters.get(7) is None
    assert (await ports.dead_letters.stretch(before=7)).letters == ()
