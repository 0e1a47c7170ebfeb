"""The wheels' history in a bucket whose entries expire by themselves; read from its end, a window at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.bucket import Bucket
from pyoco_server.adapters.jetstream.connect import REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.follower import Followed, read_present
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.wheels.history import WheelAction, WheelEvent, from_plain, to_plain

logger = logging.getLogger(__name__)

# What is looked at in one go where not everything fits.
WINDOW = 500


class JetStreamWheelHistory:
    """WheelHistory."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._connection = connection
        self._subjects = Subjects(config)
        self._stream = self._subjects.wheel_history_stream
        self._bucket = Bucket(connection, self._stream, facts)

    async def add(self, event: WheelEvent) -> None:
        # Refused when it is there already, by a try whose answer was lost.
        await self._bucket.put(self._subjects.wheel_event_key(event.key), orjson.dumps(to_plain(event)), revision=0)

    async def recent(
        self, limit: int, *, wheel_name: str | None = None, action: WheelAction | None = None
    ) -> Sequence[WheelEvent]:
        info = await self._connection.api(subjects.stream_info(self._stream), timeout_sec=REQUEST_SEC)
        first, upto = max(info["state"]["first_seq"], 1), info["state"]["last_seq"]
        window = limit if wheel_name is None and action is None else WINDOW
        found: list[WheelEvent] = []
        while len(found) < limit and upto >= first:
            after = max(upto - window, first - 1)
            part = await read_present(self._connection, self._stream, after=after, upto=upto)
            events = [event for event in map(_decode, reversed(part)) if event is not None]
            found += [event for event in events if event.fits(wheel_name, action)]
            upto = after
        # Two gateways may have stored theirs in another order than that of their clocks.
        return sorted(found[:limit], key=lambda event: event.occurred_at, reverse=True)


def _decode(item: Followed) -> WheelEvent | None:
    if not item.message.data:
        return None  # somebody removed it by hand
    try:
        return from_plain(orjson.loads(item.message.data))
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.warning("wheel event cannot be read", extra={"sequence": item.sequence})
        return None
