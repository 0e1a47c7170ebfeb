"""The history of the wheel registry: uploads and deletions (contract: WheelHistoryEvent)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

WheelAction = Literal["upload", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelEvent:
    """One upload or deletion. `source` is where it came from, `actor` who did it."""

    event_id: str
    occurred_at: float
    action: WheelAction
    wheel_name: str
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    actor: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0
    sha256_hex: str | None = None
    nuid: str = ""
    tenant_id: str | None = None  # of the wheel; None for a shared one

    @property
    def key(self) -> str:
        """The key in the store: keys sort by time."""
        return f"{int(self.occurred_at * 1000)}_{self.event_id}"

    def fits(self, wheel_name: str | None, action: WheelAction | None, tenant_filter: str | None) -> bool:
        is_visible = tenant_filter is None or self.tenant_id in (None, tenant_filter)
        return is_visible and wheel_name in (None, self.wheel_name) and action in (None, self.action)


def to_plain(event: WheelEvent) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(event)
    return plain


def from_plain(plain: Mapping[str, Any]) -> WheelEvent:
    """The stored event; `ValueError` when it is not one."""
    return msgspec.convert({name: value for name, value in plain.items() if value is not None}, WheelEvent)
