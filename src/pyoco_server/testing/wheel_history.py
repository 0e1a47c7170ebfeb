"""The wheels' history in memory; nothing expires."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.domain.wheels.history import WheelAction, WheelEvent


class MemoryWheelHistory:
    """WheelHistory."""

    def __init__(self) -> None:
        self._events: dict[str, WheelEvent] = {}

    async def add(self, event: WheelEvent) -> None:
        self._events.setdefault(event.key, event)

    async def recent(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        found = [event for event in reversed(self._events.values()) if event.fits(wheel_name, action)]
        return sorted(found[:limit], key=lambda event: event.occurred_at, reverse=True)
