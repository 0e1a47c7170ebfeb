"""What gateways tell each other about their presence."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from pyoco_server.domain.ids import InstanceId


class PresenceNews(Enum):
    """`ARRIVED` asks the others to show that they are there, `PRESENT` is a heartbeat, `LEFT` a clean stop."""

    ARRIVED = "arrived"
    PRESENT = "present"
    LEFT = "left"


class Presence(Protocol):
    """Best-effort messages to all gateways of an installation; lost where one does not listen."""

    def announce(self, gateway: InstanceId, news: PresenceNews) -> None:
        """Send now or not at all."""

    async def listen(self, notify: Callable[[InstanceId, PresenceNews], None]) -> None:
        """Call `notify` for every announcement, also for our own, across reconnects."""
