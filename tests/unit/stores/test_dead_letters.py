"""The store of dead letters."""

from __future__ import annotations

from pyoco_server.stores import DeadLetter, StoredDeadLetter
from support.stores import Ports


async def test_dead_letters_are_listed_newest_first(ports: Ports) -> None:
    letters = [DeadLetter(timestamp=float(number), reason="execution_error", tag="a") for number in range(5)]
    for letter in letters:
        await ports.dead_letters.publish(letter)

    assert await ports.dead_letters.recent() == letters[::-1]
    assert await ports.dead_letters.recent(2) == [letters[4], letters[3]]


async def every_letter(ports: Ports, tag: str | None = None) -> list[StoredDeadLetter]:
    """All batches, from the newest dead letter to the oldest."""
    found: list[StoredDeadLetter] = []
    before: int | None = None
    while True:
        stretch = await ports.dead_letters.stretch(before=before, tag=tag)
        found += stretch.letters
        if stretch.before is None:
            return found
        before = stretch.before


async def test_dead_letters_are_read_newest_first_in_batches_and_by_sequence(ports: Ports) -> None:
    letters = [DeadLetter(timestamp=float(number), reason="execution_error", tag="a") for number in range(1, 1101)]
    for letter in letters:
        await ports.dead_letters.publish(letter)

    found = await every_letter(ports)
    newest = await ports.dead_letters.stretch()

    assert [filed.letter for filed in found] == letters[::-1]
    assert len(newest.letters) < len(letters)
    assert newest.before == newest.letters[-1].seq
    assert await ports.dead_letters.get(found[3].seq) == found[3].letter


async def test_dead_letters_are_filtered_by_tag(ports: Ports) -> None:
    for number in range(6):
        await ports.dead_letters.publish(
            DeadLetter(timestamp=float(number), reason="invalid_job", tag=("gpu", "cpu")[number % 2])
        )
    await ports.dead_letters.publish(DeadLetter(timestamp=6.0, reason="invalid_job"))

    assert [filed.letter.timestamp for filed in await every_letter(ports, "gpu")] == [4.0, 2.0, 0.0]
    assert [filed.letter.timestamp for filed in await every_letter(ports, "default")] == [6.0]
    assert await every_letter(ports, "unused") == []


async def test_an_unknown_sequence_has_no_dead_letter(ports: Ports) -> None:
    assert await every_letter(ports) == []
    assert await ports.dead_letters.recent() == []
    assert await ports.dead_letters.count() == 0
    assert await ports.dead_letters.get(7) is None
    assert (await ports.dead_letters.stretch(before=7)).letters == ()
