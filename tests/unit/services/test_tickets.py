"""Tickets: valid once, for one subject, for a short time, for the caller that requested them; stored as hashes."""

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


async def test_a_ticket_authenticates_its_requester_once(tickets: TicketService, clock: ManualClock) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    assert made.expires_at == clock.now() + TICKET_SEC
    assert await tickets.redeem(made.ticket, "job-1") == CALLER
    with pytest.raises(InvalidTicket):
        await tickets.redeem(made.ticket, "job-1")


async def test_concurrent_uses_of_one_ticket_succeed_once(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    results = await asyncio.gather(*(tickets.redeem(made.ticket, "job-1") for _ in range(5)), return_exceptions=True)

    assert sum(one == CALLER for one in results) == 1
    assert sum(isinstance(one, InvalidTicket) for one in results) == 4


async def test_a_ticket_used_for_another_subject_is_consumed(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    for subject in ("job-2", "job-1"):
        with pytest.raises(InvalidTicket):
            await tickets.redeem(made.ticket, subject)


async def test_a_ticket_expires(tickets: TicketService, clock: ManualClock) -> None:
    made = await tickets.hand_out(CALLER, "job-1")
    clock.pass_time(TICKET_SEC)

    with pytest.raises(InvalidTicket, match="expired"):
        await tickets.redeem(made.ticket, "job-1")


@pytest.mark.parametrize("text", ["", "x", "s" * 43, "\ud800" * 43, "s" * 100_000], ids=len)
async def test_an_invalid_ticket_is_refused(tickets: TicketService, text: str) -> None:
    with pytest.raises(InvalidTicket):
        await tickets.redeem(text, "job-1")


async def test_a_ticket_is_neither_stored_nor_shown_in_clear(tickets: TicketService) -> None:
    made = await tickets.hand_out(CALLER, "job-1")

    assert len(made.ticket) == 43
    assert made.ticket not in repr(made)
    assert made.ticket not in repr(vars(tickets.store))
