"""Tickets in a bucket whose entries expire by themselves; one is taken by compare-and-set, so nobody takes it twice."""

from __future__ import annotations

import orjson

from pyoco_server.adapters.jetstream.bucket import Bucket, is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.tickets import Ticket, TicketKey, from_plain, to_plain
from pyoco_server.errors import InternalError


class JetStreamTickets:
    """TicketStore. A ticket whose removal was not acknowledged is lost: better that than two who come with it."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts) -> None:
        self._subjects = Subjects(config)
        self._bucket = Bucket(connection, self._subjects.tickets_stream, facts)

    async def add(self, key: TicketKey, ticket: Ticket) -> None:
        # A first try may have been stored although its answer was lost; the key is nobody else's.
        await self._bucket.put(self._subjects.ticket(key), orjson.dumps(to_plain(ticket)), revision=0)

    async def take(self, key: TicketKey) -> Ticket | None:
        subject = self._subjects.ticket(key)
        message = await self._bucket.get(subject)
        if message is None or is_marker(message):
            return None
        if await self._bucket.purge(subject, revision=message.sequence) is None:
            return None
        try:
            return from_plain(orjson.loads(message.data))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise InternalError("what is kept of a ticket cannot be read") from error
