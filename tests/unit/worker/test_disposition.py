"""The disposition of each outcome: the table of the contract's appendix E."""

from __future__ import annotations

import pytest

from pyoco_server.worker.attempt.disposition import DISPOSITIONS, NAK_DELAY_SEC, OutcomeKind

CONTRACT = {
    OutcomeKind.FINISHED: ("ack", None),
    OutcomeKind.ALREADY_FINISHED: ("ack", None),
    OutcomeKind.INVALID: ("term", None),
    OutcomeKind.GIVEN_UP: ("term", None),
    OutcomeKind.UNAVAILABLE: ("nak", 2.0),
    OutcomeKind.RELEASED: ("nak", 0.0),
    OutcomeKind.FENCED: ("none", None),
    OutcomeKind.HELD_ELSEWHERE: ("none", None),
}


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_outcome_has_the_disposition_of_the_contract(kind: OutcomeKind) -> None:
    assert (DISPOSITIONS[kind], NAK_DELAY_SEC.get(kind)) == CONTRACT[kind]


def test_no_job_is_delayed_for_longer_than_five_seconds() -> None:
    assert max(NAK_DELAY_SEC.values()) <= 5.0
