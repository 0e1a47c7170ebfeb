"""Waiting for what other processes do, of which no event tells us: by asking again and again, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

POLL_SEC = 0.1


async def comes_true(is_so: Callable[[], Awaitable[bool]], *, within_sec: float, every_sec: float = POLL_SEC) -> bool:
    """Wait until it is so; False when that took too long."""
    try:
        async with asyncio.timeout(within_sec):
            while not await is_so():  # noqa: ASYNC110 - it is another process that changes, and it tells nobody
                await asyncio.sleep(every_sec)
    except TimeoutError:
        return False
    return True
