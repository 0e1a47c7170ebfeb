"""Runs a callback when a signal stops uvicorn, before it waits for open responses.

The end of the lifespan is too late for streams: uvicorn first waits for every response, and a stream ends with its run.
Other servers, and `pyoco-server up`, signal the shutdown themselves.
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
    """Within the block, call `stopping` on the event loop when a signal stops uvicorn."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has signal handlers
        return
    loop = asyncio.get_running_loop()
    # Only uvicorn's handlers: one that was not set from Python could not be restored.
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
