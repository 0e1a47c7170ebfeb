"""Presence in memory."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.domain.ids import InstanceId
from pyoco_server.ports import PresenceNews


class MemoryPresence:
    """Presence, for gateways that share this object."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[InstanceId, PresenceNews], None]] = []

    def announce(self, gateway: InstanceId, news: PresenceNews) -> None:
        for notify in list(self._listeners):
            notify(gateway, news)

    async def listen(self, notify: Callable[[InstanceId, PresenceNews], None]) -> None:
        self._listeners.append(notify)
