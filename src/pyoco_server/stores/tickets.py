"""Single-use tickets, stored by digest; the broker expires them. Compare-and-set makes each redeemable once."""

from __future__ import annotations

import orjson

from pyoco_server.domain.auth.tickets import Ticket, TicketKey, from_plain, to_plain
from pyoco_server.errors import InternalError
from pyoco_server.ports.broker import KeyValue


class TicketStore:
    """Tickets that were issued and not used yet, by the digest of their secret."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def add(self, key: TicketKey, ticket: Ticket) -> None:
        """Store a new ticket. The key is unique, so a refusal means that an earlier attempt was stored."""
        await self._bucket.put(key, orjson.dumps(to_plain(ticket)), revision=0)

    async def take(self, key: TicketKey) -> Ticket | None:
        """Return a ticket and remove it: of all callers with the same key, at most one gets it.

        A ticket whose removal was not acknowledged is lost; the alternative would be two holders.
        """
        entry = await self._bucket.get(key)
        if entry is None or entry.value is None or await self._bucket.purge(key, revision=entry.revision) is None:
            return None
        try:
            return from_plain(orjson.loads(entry.value))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise InternalError("the stored ticket cannot be read") from error
