"""The loop does what asyncio promises, in an order that the seed chooses where nothing is promised, in made-up time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from simulation.loop import NothingLeft, SeededLoop, TooManySteps


def order_of_arrival(seed: int, travellers: int = 5) -> list[int]:
    loop = SeededLoop.of(Random(seed))
    arrived: list[int] = []

    async def travel(number: int) -> None:
        await loop.turn()
        arrived.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(travel(number) for number in range(travellers)))

    loop.run_until_complete(all_of_them())
    return arrived


def test_whoever_is_on_the_way_arrives_in_an_order_that_the_seed_chooses() -> None:
    assert order_of_arrival(7) == order_of_arrival(7)
    assert len({tuple(order_of_arrival(seed, travellers=3)) for seed in range(100)}) == 6


def test_what_is_ready_is_done_first_come_first_served_whatever_the_seed() -> None:
    for seed in range(20):
        loop = SeededLoop.of(Random(seed))
        done: list[int] = []
        for number in range(5):
            loop.call_soon(done.append, number)

        loop.run_until_complete(asyncio.sleep(0))

        assert done == [0, 1, 2, 3, 4]


def test_time_passes_when_nothing_else_is_left_to_do() -> None:
    loop = SeededLoop.of(Random(1), began_at=100.0)

    async def sleep_and_travel() -> tuple[float, float]:
        sleeping = asyncio.create_task(asyncio.sleep(3600))
        for _ in range(50):
            await loop.turn()
        before = loop.time()
        await sleeping
        return before, loop.time()

    assert loop.run_until_complete(sleep_and_travel()) == (100.0, 3700.0)


def test_time_may_pass_while_an_answer_is_on_its_way() -> None:
    loop = SeededLoop.of(Random(1), slowness=1.0, began_at=100.0)

    async def travel() -> float:
        sleeping = asyncio.create_task(asyncio.sleep(5))
        await asyncio.sleep(0)
        await loop.turn()
        await sleeping
        return loop.time()

    assert loop.run_until_complete(travel()) == 105.0


def test_a_timeout_ends_what_takes_too_long_and_nothing_else() -> None:
    loop = SeededLoop.of(Random(1))

    async def wait() -> str:
        async with asyncio.timeout(1):
            await loop.turn()
        try:
            async with asyncio.timeout(1):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too long"
        return "never"

    assert loop.run_until_complete(wait()) == "too long"


def test_work_that_is_given_to_a_thread_is_done_without_one() -> None:
    loop = SeededLoop.of(Random(1))

    async def ask_aside() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, max, 2, 3)

    assert loop.run_until_complete(ask_aside()) == 3


def test_those_who_wait_for_what_cannot_happen_are_told_so() -> None:
    loop = SeededLoop.of(Random(1))
    waiting = loop.create_task(asyncio.Event().wait())

    with pytest.raises(NothingLeft):
        loop.run_until_complete(waiting)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)


def test_what_goes_round_in_circles_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.MOST_STEPS", 100)
    loop = SeededLoop.of(Random(1))

    async def for_ever() -> None:
        while True:
            await loop.turn()

    circling = loop.create_task(for_ever())
    with pytest.raises(TooManySteps):
        loop.run_until_complete(circling)

    loop.steps = 0
    circling.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(circling)


def test_what_nobody_catches_is_kept() -> None:
    loop, error = SeededLoop.of(Random(1)), ValueError("lost")

    loop.call_exception_handler({"exception": error, "message": "never retrieved"})

    assert loop.troubles == [error]
