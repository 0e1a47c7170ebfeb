"""Which gateways are alive, and which of them does a piece of shared work.

    heard of ──▶ live ── says that it leaves ──────────────────────▶ forgotten
                  └───── silent for SILENT_SEC, by our clock ──────▶ forgotten

Silence is not measured while this gateway is disconnected itself: until it is back it keeps its view of the others.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from hashlib import blake2b

from pyoco_server.domain.ids import InstanceId
from pyoco_server.ports import Broker, Clock, Presence, PresenceNews

logger = logging.getLogger(__name__)

HEARTBEAT_SEC = 1.0
TICK_SEC = 0.5
# Three heartbeats missed. With a tick it stays below the five seconds after which a share has to be given back.
SILENT_SEC = 3.5
# A tick that is later: this process stood still or was disconnected, and could not have heard the others.
AWAY_AFTER_SEC = 1.5
# More are not gateways of ours.
MAX_GATEWAYS = 1000


@dataclass(slots=True, kw_only=True)
class GatewayRoster:
    """The gateways heard of lately, by instance id, this one included."""

    own_id: str
    heard_at: dict[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of live gateways; at least one."""
        return len(self.heard_at) + (self.own_id not in self.heard_at)

    def live(self) -> tuple[str, ...]:
        """The ids of the live gateways, sorted; this one is always among them."""
        return tuple(sorted({self.own_id, *self.heard_at}))

    def owns(self, key: str) -> bool:
        """Whether this gateway does the work on `key`. After a change two gateways may, so the work must bear it."""
        return max(self.live(), key=lambda gateway: _weight(gateway, key)) == self.own_id


class RosterKeeper:
    """Keeps the roster of this gateway up to date, and tells the other gateways that this one is alive."""

    def __init__(self, roster: GatewayRoster, presence: Presence, broker: Broker, clock: Clock) -> None:
        self.roster = roster
        self._own_id = InstanceId(roster.own_id)
        self._presence = presence
        self._broker = broker
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._has_left = False

    async def open(self) -> None:
        """Listen, and ask the others to show themselves: a new gateway does not wait for their next heartbeat."""
        await self._presence.listen(self._on_news)
        self.arrive()

    async def run(self) -> None:
        """Send heartbeats and forget silent gateways, until cancelled."""
        beat_at = 0.0
        while True:
            now = self._clock.monotonic()
            if now >= beat_at and not self._has_left:
                self._presence.announce(self._own_id, PresenceNews.PRESENT)
                beat_at = now + HEARTBEAT_SEC
            self.forget_silent()
            await asyncio.sleep(TICK_SEC)

    def arrive(self) -> None:
        """Announce this gateway, at its start and after each reconnect."""
        if not self._has_left:
            self._presence.announce(self._own_id, PresenceNews.ARRIVED)

    def leave(self) -> None:
        """Say goodbye before a clean stop: the others take over at once."""
        self._has_left = True
        self._presence.announce(self._own_id, PresenceNews.LEFT)

    def forget_silent(self) -> None:
        """Forget gateways that were silent for too long while this one could have heard them."""
        if not self._broker.connected:
            return
        now, heard_at = self._clock.monotonic(), self.roster.heard_at
        if now - self._looked_at > AWAY_AFTER_SEC:
            heard_at.update(dict.fromkeys(heard_at, now))
        self._looked_at = now
        for gateway in [gateway for gateway, at in heard_at.items() if now - at > SILENT_SEC]:
            self._forget(gateway, "silent")

    def _on_news(self, gateway: InstanceId, news: PresenceNews) -> None:
        if gateway == self._own_id:
            return
        if news is PresenceNews.LEFT:
            self._forget(gateway, "stopped")
            return
        heard_at = self.roster.heard_at
        if gateway not in heard_at:
            if len(heard_at) >= MAX_GATEWAYS:
                return
            logger.info("gateway joined", extra={"gateway": gateway, "gateways": self.roster.size + 1})
        heard_at[gateway] = self._clock.monotonic()
        if news is PresenceNews.ARRIVED and not self._has_left:
            self._presence.announce(self._own_id, PresenceNews.PRESENT)

    def _forget(self, gateway: str, reason: str) -> None:
        if self.roster.heard_at.pop(gateway, None) is not None:
            extra = {"gateway": gateway, "reason": reason, "gateways": self.roster.size}
            logger.info("gateway left", extra=extra)


def _weight(gateway: str, key: str) -> bytes:
    return blake2b(f"{gateway} {key}".encode(), digest_size=8).digest()
