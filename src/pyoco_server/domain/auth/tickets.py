"""Tickets: single-use, short-lived secrets that authenticate a caller for one resource.

Browsers cannot send headers when they open a WebSocket, so they pass a ticket in the URL. Only a digest of it is
stored; a ticket has 256 random bits, so a fast hash suffices.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NewType

import msgspec
from msgspec.structs import asdict

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import known_scopes, scope_names

TicketKey = NewType("TicketKey", str)

# 256 bits as base64url.
_TICKET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of a ticket: the caller, the resource and the expiry."""

    subject: str
    caller: Caller
    expires_at: float


def looks_like_one(text: str) -> bool:
    """Whether the text has the format of a ticket; anything else is not looked up."""
    return _TICKET.fullmatch(text) is not None


def key_of(text: str) -> TicketKey:
    """The key under which a ticket is stored; it does not reveal the ticket."""
    return TicketKey(hashlib.sha256(text.encode()).hexdigest())


def to_plain(ticket: Ticket) -> dict[str, Any]:
    audiences = ticket.caller.audiences
    lists = {
        "scopes": scope_names(ticket.caller.scopes),
        "audiences": None if audiences is None else sorted(audiences),
    }
    caller = asdict(ticket.caller) | lists
    return {"subject": ticket.subject, "expires_at": ticket.expires_at, **caller}


def from_plain(plain: Mapping[str, Any]) -> Ticket:
    """The stored ticket; unknown scopes of later versions are ignored."""
    caller = msgspec.convert({**plain, "scopes": scope_names(known_scopes(plain["scopes"]))}, Caller)
    return Ticket(subject=plain["subject"], caller=caller, expires_at=plain["expires_at"])
