"""The audit log of wheel changes, read backwards in windows; the broker expires old events."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import orjson

from pyoco_server.domain.wheels.history import WheelAction, WheelEvent, from_plain, to_plain
from pyoco_server.ports.broker import Entry, KeyValue

logger = logging.getLogger(__name__)

# Events that are read at a time when a filter is set.
WINDOW = 500


class WheelHistory:
    """Who changed which wheel, and when."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def add(self, event: WheelEvent) -> None:
        """Store the event; repeating it changes nothing."""
        await self._bucket.put(event.key, orjson.dumps(to_plain(event)), revision=0)

    async def recent(
        self,
        limit: int,
        *,
        wheel_name: str | None = None,
        action: WheelAction | None = None,
        tenant_filter: str | None = None,
    ) -> Sequence[WheelEvent]:
        """The last events that match, newest first; `tenant_filter` hides those of other tenants' wheels."""
        state = await self._bucket.state()
        first, upto = max(state.first_sequence, 1), state.last_sequence
        window = limit if (wheel_name, action, tenant_filter) == (None, None, None) else WINDOW
        found: list[WheelEvent] = []
        while len(found) < limit and upto >= first:
            after = max(upto - window, first - 1)
            entries = await self._bucket.read(after=after, upto=upto)
            events = [event for event in map(_decode, reversed(entries)) if event is not None]
            found += [event for event in events if event.fits(wheel_name, action, tenant_filter)]
            upto = after
        # Gateways may have stored their events in another order than that of their clocks.
        return sorted(found[:limit], key=lambda event: event.occurred_at, reverse=True)


def _decode(entry: Entry) -> WheelEvent | None:
    if not entry.value:
        return None  # removed by hand
    try:
        return from_plain(orjson.loads(entry.value))
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.warning("unreadable wheel event", extra={"revision": entry.revision})
        return None
