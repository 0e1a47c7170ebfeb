"""What every store of tickets promises."""

from __future__ import annotations

import asyncio

from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.auth.tickets import Ticket, key_of
from support.stores import Ports

SECRET, OTHER = "s" * 43, "o" * 43
CALLER = Caller(name="ann", tenant_id="team-a", api_key_id="0" * 16, scopes=frozenset({Scope.RUNS_READ}))
TICKET = Ticket(subject="job-1", caller=CALLER, expires_at=130.0)


async def test_a_ticket_comes_back_as_it_was_added_and_once(ports: Ports) -> None:
    await ports.tickets.add(key_of(SECRET), TICKET)

    assert await ports.tickets.take(key_of(OTHER)) is None
    assert await ports.tickets.take(key_of(SECRET)) == TICKET
    assert await ports.tickets.take(key_of(SECRET)) is None


async def test_of_many_who_take_a_ticket_at_once_one_gets_it(ports: Ports) -> None:
    await ports.tickets.add(key_of(SECRET), TICKET)

    taken = await asyncio.gather(*(ports.tickets.take(key_of(SECRET)) for _ in range(16)))

    assert [ticket for ticket in taken if ticket is not None] == [TICKET]


async def test_a_ticket_of_somebody_without_a_name_is_kept_too(ports: Ports) -> None:
    ticket = Ticket(subject="job-1", caller=ANYONE, expires_at=130.0)

    await ports.tickets.add(key_of(SECRET), ticket)

    assert await ports.tickets.take(key_of(SECRET)) == ticket
