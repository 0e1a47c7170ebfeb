"""Hears when uvicorn is asked to stop, before it waits for open responses; takes no signal away from anybody.

The end of the lifespan comes too late for streams: uvicorn first waits until every response has ended by itself, and a
stream ends with its run. Other servers, and `pyoco-server up`, have ways of their own.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn


@contextmanager
def on_shutdown_signal(stopping: Callable[[], None]) -> Iterator[None]:
    """Within the block, call `stopping` on the event loop when a signal tells uvicorn to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals, and their handlers, are the main thread's
        return
    loop = asyncio.get_running_loop()
    # Others' handlers stay untouched: one that was not set from Python could not even be put back.
    uvicorns = {
        number: handler
        for number in (signal.SIGTERM, signal.SIGINT)
        if callable(handler := signal.getsignal(number))
        and isinstance(getattr(handler, "__self__", None), uvicorn.Server)
    }
    for number, handler in uvicorns.items():
        signal.signal(number, _both(lambda: loop.call_soon_threadsafe(stopping), handler))
    try:
        yield
    finally:
        for number, handler in uvicorns.items():
            signal.signal(number, handler)


def _both(first: Callable[[], object], handler: Callable[[int, FrameType | None], Any]) -> Any:
    def handle(number: int, frame: FrameType | None) -> None:
        first()
        handler(number, frame)

    return handle
