"""Outcome of an attempt → what to tell the queue: a pure function, following the contract's table (appendix E).

What is somebody else's now gets no answer at all: a stale ack or term would delete the message under its new holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pyoco_server.ports import DeadLetter

# The contract's default pause before a job that met broker trouble is tried again.
RETRY_DELAY_SEC = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run reached its end, and the end is stored."""

    status: str
    letter: DeadLetter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyFinished:
    """The run had its end before we came (or never truly began: its submit was undone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The message is not a job; it will not become one by being delivered again."""

    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """The run was tried as often as allowed; FAILED is stored."""

    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The broker did not answer before the run had begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """This worker is stopping; another one may begin at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Another attempt has taken over; the message is its holder's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldElsewhere:
    """A living worker is on it; the message was delivered to us by mistake of time."""


Outcome = Finished | AlreadyFinished | Invalid | GivenUp | Unavailable | HandedBack | Fenced | HeldElsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Done: take it out of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nak:
    """Deliver it again, after the delay."""

    delay_sec: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Never deliver it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Say nothing."""


Answer = Ack | Nak | Term | Nothing


def settle(outcome: Outcome) -> Answer:
    """What the queue is told about a delivery that ended so."""
    match outcome:
        case Finished() | AlreadyFinished():
            return Ack()
        case Invalid() | GivenUp():
            return Term()
        case Unavailable():
            return Nak(delay_sec=RETRY_DELAY_SEC)
        case HandedBack():
            return Nak(delay_sec=0.0)
        case Fenced() | HeldElsewhere():
            return Nothing()
        case _:
            assert_never(outcome)


def letter_of(outcome: Outcome) -> DeadLetter | None:
    """The dead letter that goes with an outcome."""
    match outcome:
        case Finished(letter=letter):
            return letter
        case Invalid(letter=letter) | GivenUp(letter=letter):
            return letter
        case _:
            return None
