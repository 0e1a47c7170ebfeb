"""Tickets: good once, for one thing, for a moment, in the name of whoever asked for them; and nowhere in clear."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidTicket
from pyoco_server.services.auth.tickets import TICKET_SEC, TicketService
from pyoco_server.stores import TicketStore
from pyoco_server.testing.broker import MemoryKeyValue
from support.clocks import ManualClock

CALLER = Caller(name="ann", tenant_id="team-a", api_key_id="0" * 16, scopes=frozenset({Scope.RUNS_READ}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tickets(clock: ManualClock) -> TicketService:
    return TicketService(store=TicketStore(MemoryKeyValue()), clock=clock, ids=SystemIds())


async def test_a_ticket_lets_its_holder_in_once_as_whoever_asked_for_it(
    tickets: TicketService, clock: ManualClock
) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    assert made.expires_at == clock.now() + TICKET_SEC
    assert await tickets.redeem(made.ticket, "job-1") == CALLER
    with pytest.raises(InvalidTicket):
        await tickets.redeem(made.ticket, "job-1")


async def test_of_two_who_come_with_one_ticket_one_gets_in(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    came = await asyncio.gather(*(tickets.redeem(made.ticket, "job-1") for _ in range(5)), return_exceptions=True)

    assert sum(one == CALLER for one in came) == 1
    assert sum(isinstance(one, InvalidTicket) for one in came) == 4


async def test_a_ticket_that_was_tried_at_another_door_is_used(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    for subject in ("job-2", "job-1"):
        with pytest.raises(InvalidTicket):
            await tickets.redeem(made.ticket, subject)


async def test_a_ticket_has_its_time(tickets: TicketService, clock: ManualClock) -> None:
    made = await tickets.hand_out(CALLER, "job-1")
    clock.pass_time(TICKET_SEC)

    with pytest.raises(InvalidTicket, match="expired"):
        await tickets.redeem(made.ticket, "job-1")


@pytest.mark.parametrize("text", ["", "x", "s" * 43, "\ud800" * 43, "s" * 100_000], ids=len)
async def test_what_is_no_ticket_lets_nobody_in(tickets: TicketService, text: str) -> None:
    with pytest.raises(InvalidTicket):
        await tickets.redeem(text, "job-1")


async def test_a_ticket_is_not_to_be_seen_where_it_is_kept_or_shown(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    assert len(made.ticket) == 43
    assert made.ticket not in repr(made)
    assert made.ticket not in repr(vars(tickets.store))
