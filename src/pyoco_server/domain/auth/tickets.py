"""Tickets: a secret that lets whoever shows it in once, for one thing and a moment, in somebody's name.

For those who cannot send a header: a browser opens a WebSocket with nothing but an address. Of a ticket only a digest
is stored; it has 256 random bits, so one hash is enough.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NewType

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import in_words, known_scopes

TicketKey = NewType("TicketKey", str)

# 256 bits as base64url.
_TICKET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What is stored of a ticket: for whom it speaks, what it is for, and until when."""

    subject: str
    caller: Caller
    expires_at: float


def looks_like_one(text: str) -> bool:
    """Whether it could be a ticket; nobody is asked about anything else."""
    return _TICKET.fullmatch(text) is not None


def key_of(text: str) -> TicketKey:
    """The name under which a ticket is stored; it does not tell the ticket."""
    return TicketKey(hashlib.sha256(text.encode()).hexdigest())


def to_plain(ticket: Ticket) -> dict[str, Any]:
    caller = ticket.caller
    return {
        "subject": ticket.subject,
        "expires_at": ticket.expires_at,
        "name": caller.name,
        "tenant_id": caller.tenant_id,
        "api_key_id": caller.api_key_id,
        "scopes": in_words(caller.scopes),
    }


def from_plain(plain: Mapping[str, Any]) -> Ticket:
    """The ticket as stored; a scope of a later version gives nothing here."""
    caller = Caller(
        name=plain["name"],
        tenant_id=plain["tenant_id"],
        api_key_id=plain["api_key_id"],
        scopes=known_scopes(plain["scopes"]),
    )
    return Ticket(subject=plain["subject"], caller=caller, expires_at=plain["expires_at"])
