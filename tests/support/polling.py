"""Waits for what no event announces: the state of another program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(look: Callable[[], Awaitable[T]], is_so: Callable[[T], bool], *, every_sec: float = 0.05) -> T:
    """Polls until the condition holds, and returns the last value. The caller bounds the time."""
    while True:
        if is_so(found := await look()):
            return found
        await asyncio.sleep(every_sec)
