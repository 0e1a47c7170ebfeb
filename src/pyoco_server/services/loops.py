"""Helpers for background tasks: periodic work, bounded waits, and error handling that keeps a loop alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyoco_server.errors import BrokerUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")


@contextmanager
def log_and_continue(work: str) -> Iterator[None]:
    """Log a failure of the block and continue; the next iteration retries the work."""
    try:
        yield
    except BrokerUnavailable as error:
        logger.info("broker unavailable, work postponed", extra={"work": work, "reason": error.detail})
    except Exception:
        # An outermost loop: one bad run or job must not stop the work for all others.
        logger.exception("background work failed", extra={"work": work})


async def wait_event(event: asyncio.Event, timeout_sec: float | None) -> bool:
    """Whether the event was set within the time; None means no limit."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(timeout_sec):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def first_result(*waits: Awaitable[T]) -> T:
    """The result of the first to finish, of several the foremost; the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Periodic:
    """A job that runs again and again, with a pause before each run; `wake` cuts a pause short."""

    name: str
    every_sec: float
    work: Callable[[], Awaitable[object]]
    wake: asyncio.Event | None = None

    async def run(self) -> None:
        """Run until cancelled; a failed run is logged."""
        while True:
            if self.wake is None:
                await asyncio.sleep(self.every_sec)
            elif await wait_event(self.wake, self.every_sec):
                self.wake.clear()
            with log_and_continue(self.name):
                await self.work()
