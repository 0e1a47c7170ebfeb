"""Both clients behind one interface. Most tests use the async one: the blocking one is generated from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, closing
from typing import Any, Literal

import pytest

from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient, Timing
from support.clocks import ManualClock

Kind = Literal["sync", "async"]
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


class Pauses:
    """A clock that only sleeping advances; records every sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._clock = ManualClock()

    def timing(self) -> Timing:
        clock = self._clock
        return Timing(
            monotonic=clock.monotonic, now=clock.now, sleep=self._sleep, sleep_async=self._sleep_async, luck=lambda: 1.0
        )

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._clock.pass_time(seconds)

    async def _sleep_async(self, seconds: float) -> None:
        self._sleep(seconds)


class Twin:
    """One of the two clients; each call uses a new one."""

    def __init__(self, url: str, kind: Kind = "async", **options: Any) -> None:
        self.kind = kind
        self._options = {"base_url": url, **options}

    def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """The result of the method."""
        if self.kind == "sync":
            with PyocoHttpClient(**self._options) as client:
                return getattr(client, method)(*arguments, **named)
        return asyncio.run(self._ask(method, *arguments, **named))

    def take(self, method: str, *arguments: Any, until: Callable[[Any], bool] | None = None, **named: Any) -> list[Any]:
        """The items of the method, to its end or to the first for which `until` is true."""
        if self.kind == "async":
            return asyncio.run(self._take(method, arguments, named, until))
        taken: list[Any] = []
        with PyocoHttpClient(**self._options) as client, closing(getattr(client, method)(*arguments, **named)) as items:
            for item in items:
                taken.append(item)
                if until is not None and until(item):
                    break
        return taken

    async def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        async with AsyncPyocoHttpClient(**self._options) as client:
            return await getattr(client, method)(*arguments, **named)

    async def _take(
        self, method: str, arguments: tuple[Any, ...], named: dict[str, Any], until: Callable[[Any], bool] | None
    ) -> list[Any]:
        taken: list[Any] = []
        async with (
            AsyncPyocoHttpClient(**self._options) as client,
            aclosing(getattr(client, method)(*arguments, **named)) as items,
        ):
            async for item in items:
                taken.append(item)
                if until is not None and until(item):
                    break
        return taken
