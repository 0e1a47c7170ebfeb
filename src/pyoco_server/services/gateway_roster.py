"""Which gateways are alive, and which of them does a piece of shared work."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b


@dataclass(slots=True, kw_only=True)
class GatewayRoster:
    """The gateways heard of lately, by instance id, this one included."""

    own_id: str
    heard_at: dict[str, float] = field(default_factory=dict)

    def live(self) -> tuple[str, ...]:
        """The ids of the live gateways, sorted; this one is always among them."""
        return tuple(sorted({self.own_id, *self.heard_at}))

    def owns(self, key: str) -> bool:
        """Whether this gateway does the work on `key`. After a change two gateways may, so the work must bear it."""
        return max(self.live(), key=lambda gateway: _weight(gateway, key)) == self.own_id


def _weight(gateway: str, key: str) -> bytes:
    return blake2b(f"{gateway} {key}".encode(), digest_size=8).digest()
