"""Tickets in memory; nothing expires."""

from __future__ import annotations

import orjson

from pyoco_server.domain.auth.tickets import Ticket, TicketKey, from_plain, to_plain


class MemoryTickets:
    """TicketStore. Tickets are kept as bytes, so that what cannot be stored cannot be stored here either."""

    def __init__(self) -> None:
        self._kept: dict[TicketKey, bytes] = {}

    async def add(self, key: TicketKey, ticket: Ticket) -> None:
        self._kept[key] = orjson.dumps(to_plain(ticket))

    async def take(self, key: TicketKey) -> Ticket | None:
        value = self._kept.pop(key, None)
        return None if value is None else from_plain(orjson.loads(value))
