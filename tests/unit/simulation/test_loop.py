"""The seeded event loop: the guarantees of asyncio, a seeded order where none is guaranteed, and simulated time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from simulation.loop import NothingLeft, SeededLoop, TooManySteps


def order_of_replies(seed: int, requests: int = 5) -> list[int]:
    loop = SeededLoop.of(Random(seed))
    replies: list[int] = []

    async def request(number: int) -> None:
        await loop.turn()
        replies.append(number)

    async def run_all() -> None:
        await asyncio.gather(*(request(number) for number in range(requests)))

    loop.run_until_complete(run_all())
    return replies


def test_concurrent_requests_finish_in_an_order_chosen_by_the_seed() -> None:
    assert order_of_replies(7) == order_of_replies(7)
    assert len({tuple(order_of_replies(seed, requests=3)) for seed in range(100)}) == 6


def test_ready_callbacks_run_in_order_for_every_seed() -> None:
    for seed in range(20):
        loop = SeededLoop.of(Random(seed))
        done: list[int] = []
        for number in range(5):
            loop.call_soon(done.append, number)

        loop.run_until_complete(asyncio.sleep(0))

        assert done == [0, 1, 2, 3, 4]


def test_time_advances_when_nothing_else_is_ready() -> None:
    loop = SeededLoop.of(Random(1), began_at=100.0)

    async def sleep_during_requests() -> tuple[float, float]:
        sleeping = asyncio.create_task(asyncio.sleep(3600))
        for _ in range(50):
            await loop.turn()
        before = loop.time()
        await sleeping
        return before, loop.time()

    assert loop.run_until_complete(sleep_during_requests()) == (100.0, 3700.0)


def test_time_may_advance_during_a_request() -> None:
    loop = SeededLoop.of(Random(1), slowness=1.0, began_at=100.0)

    async def request() -> float:
        sleeping = asyncio.create_task(asyncio.sleep(5))
        await asyncio.sleep(0)
        await loop.turn()
        await sleeping
        return loop.time()

    assert loop.run_until_complete(request()) == 105.0


def test_only_an_exceeded_timeout_cancels() -> None:
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


def test_work_for_a_thread_runs_in_the_loop() -> None:
    loop = SeededLoop.of(Random(1))

    async def run_in_thread() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, max, 2, 3)

    assert loop.run_until_complete(run_in_thread()) == 3


def test_a_wait_that_cannot_end_is_an_error() -> None:
    loop = SeededLoop.of(Random(1))
    waiting = loop.create_task(asyncio.Event().wait())

    with pytest.raises(NothingLeft):
        loop.run_until_complete(waiting)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)


def test_an_endless_simulation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.MOST_STEPS", 100)
    loop = SeededLoop.of(Random(1))

    async def for_ever() -> None:
        while True:
            await loop.turn()

    endless = loop.create_task(for_ever())
    with pytest.raises(TooManySteps):
        loop.run_until_complete(endless)

    loop.steps = 0
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(endless)


def test_unhandled_exceptions_are_recorded() -> None:
    loop, error = SeededLoop.of(Random(1)), ValueError("lost")

    loop.call_exception_handler({"exception": error, "message": "never retrieved"})

    assert loop.troubles == [error]
