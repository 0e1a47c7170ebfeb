"""Issues and redeems single-use tickets; does not know their resources."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.tickets import Ticket, key_of, looks_like_one
from pyoco_server.errors import InvalidTicket
from pyoco_server.ports import Clock, Ids
from pyoco_server.stores import TicketStore

# Long enough to open a connection at once.
TICKET_SEC = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTicket:
    """A new ticket; only its digest is stored."""

    ticket: str = field(repr=False)
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketService:
    """Tickets, shared by all gateways."""

    store: TicketStore
    clock: Clock
    ids: Ids

    async def hand_out(self, caller: Caller, subject: str) -> IssuedTicket:
        """A ticket that authenticates its bearer as this caller, once, for this resource."""
        text, expires_at = self.ids.key_secret(), self.clock.now() + TICKET_SEC
        await self.store.add(key_of(text), Ticket(subject=subject, caller=caller, expires_at=expires_at))
        return IssuedTicket(ticket=text, expires_at=expires_at)

    async def redeem(self, text: str, subject: str) -> Caller:
        """The caller of this ticket; `InvalidTicket` when it is unknown, for another resource, or expired.

        Each attempt uses the ticket up, also a failed one.
        """
        ticket = await self.store.take(key_of(text)) if looks_like_one(text) else None
        if ticket is None:
            raise InvalidTicket(reason="unknown or used")
        if ticket.subject != subject:
            raise InvalidTicket("this ticket is for another job", reason="for another job")
        if ticket.expires_at <= self.clock.now():
            raise InvalidTicket("this ticket has expired", reason="expired")
        return ticket.caller
