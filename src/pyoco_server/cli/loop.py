"""The event loop of the long-running programs: uvloop where there is one, for its cheaper socket calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(program)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
