"""News: any number of waiters is woken, a few per turn of the event loop, topic after topic."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.services.streaming.news import WOKEN_AT_ONCE, WOKEN_IN_A_ROW, News, Waker

MANY = 20 * WOKEN_AT_ONCE


async def started(*waits: asyncio.Task[None]) -> None:
    """Returns when all of these tasks wait."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits)


async def test_a_waiter_that_took_the_number_before_it_looked_misses_nothing() -> None:
    news = News(Waker())
    number = news.number

    news.notify()
    async with asyncio.timeout(10):
        await news.wait_newer(number)

    assert news.number > number


async def test_without_news_a_wait_ends_with_its_time() -> None:
    news = News(Waker())

    async with asyncio.timeout(10):
        await news.wait_newer(news.number, 0.01)
        await news.wait_newer(news.number, -1.0)

    assert not news._waiting


async def test_a_turn_of_the_loop_wakes_a_bounded_number_and_other_work_runs_in_between() -> None:
    news, woken, in_one_turn = News(Waker()), 0, []

    async def follower() -> None:
        nonlocal woken
        await news.wait_newer(0)
        woken += 1

    tasks = [asyncio.create_task(follower()) for _ in range(MANY)]
    await started(*tasks)
    news.notify()
    async with asyncio.timeout(10):
        while woken < MANY:
            before = woken
            await asyncio.sleep(0)
            in_one_turn.append(woken - before)

    assert max(in_one_turn) <= WOKEN_AT_ONCE
    await asyncio.gather(*tasks)


async def test_a_topic_with_many_followers_does_not_delay_another() -> None:
    waker = Waker()
    popular, quiet = News(waker), News(waker)
    order: list[str] = []

    async def follower(news: News, name: str) -> None:
        await news.wait_newer(0)
        order.append(name)

    tasks = [asyncio.create_task(follower(popular, "popular")) for _ in range(MANY)]
    tasks.append(asyncio.create_task(follower(quiet, "quiet")))
    await started(*tasks)
    popular.notify()
    quiet.notify()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks)

    assert order.index("quiet") <= WOKEN_IN_A_ROW
    assert len(order) == MANY + 1


async def test_a_waiter_that_leaves_is_forgotten() -> None:
    news = News(Waker())
    waiting = asyncio.create_task(news.wait_newer(0))
    await started(waiting)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    due = asyncio.create_task(news.wait_newer(0))
    await started(due)
    news.notify()
    due.cancel()
    await asyncio.wait([due])

    assert not news._waiting
    assert not news.is_due


async def test_a_waiter_that_is_late_queues_behind_those_that_are_due() -> None:
    news, order = News(Waker()), []

    async def follower(name: int) -> None:
        await news.wait_newer(0)
        order.append(name)

    tasks = [asyncio.create_task(follower(number)) for number in range(MANY)]
    await started(*tasks)
    news.notify()
    tasks.append(asyncio.create_task(follower(MANY)))
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks)

    assert order == sorted(order)
