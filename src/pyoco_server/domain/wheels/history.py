"""What was done to a wheel, when, from where and by whom (contract: WheelHistoryEvent)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

WheelAction = Literal["upload", "delete"]
ACTIONS: tuple[WheelAction, ...] = get_args(WheelAction)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelEvent:
    """One upload or deletion. `source` is where it came from, `actor` who is answerable for it."""

    event_id: str
    occurred_at: float
    action: WheelAction
    wheel_name: str
    tags: tuple[str, ...]
    source: Mapping[str, Any]
    actor: Mapping[str, Any]
    size_bytes: int
    sha256_hex: str | None
    nuid: str

    @property
    def key(self) -> str:
        """What it is stored under: keys sort by time."""
        return f"{int(self.occurred_at * 1000)}_{self.event_id}"

    def fits(self, wheel_name: str | None, action: WheelAction | None) -> bool:
        """Whether it is one of those asked for."""
        return wheel_name in (None, self.wheel_name) and action in (None, self.action)


def to_plain(event: WheelEvent) -> dict[str, Any]:
    """The event as it is stored and shown."""
    return {
        "event_id": event.event_id,
        "occurred_at": event.occurred_at,
        "action": event.action,
        "wheel_name": event.wheel_name,
        "tags": list(event.tags),
        "source": dict(event.source),
        "actor": dict(event.actor),
        "size_bytes": event.size_bytes,
        "sha256_hex": event.sha256_hex,
        "nuid": event.nuid,
    }


def from_plain(plain: Mapping[str, Any]) -> WheelEvent:
    """The event that was stored; KeyError, TypeError or ValueError when it is none."""
    if plain["action"] not in ACTIONS:
        raise ValueError(f"{plain['action']!r} is nothing that is done to a wheel")
    return WheelEvent(
        event_id=str(plain["event_id"]),
        occurred_at=float(plain["occurred_at"]),
        action=plain["action"],
        wheel_name=str(plain["wheel_name"]),
        tags=tuple(plain.get("tags") or ()),
        source=dict(plain.get("source") or {}),
        actor=dict(plain.get("actor") or {}),
        size_bytes=int(plain.get("size_bytes") or 0),
        sha256_hex=plain.get("sha256_hex"),
        nuid=str(plain.get("nuid") or ""),
    )
