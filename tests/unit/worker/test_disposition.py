"""The disposition of each outcome: the table of the contract's appendix E."""

from __future__ import annotations

import pytest

from pyoco_server.worker.attempt.disposition import DISPOSITIONS, Disposition, OutcomeKind, QueueAction

CONTRACT = {
    OutcomeKind.FINISHED: Disposition(QueueAction.ACK),
    OutcomeKind.ALREADY_FINISHED: Disposition(QueueAction.ACK),
    OutcomeKind.INVALID: Disposition(QueueAction.TERM),
    OutcomeKind.GIVEN_UP: Disposition(QueueAction.TERM),
    OutcomeKind.UNAVAILABLE: Disposition(QueueAction.NAK, 2.0),
    OutcomeKind.RELEASED: Disposition(QueueAction.NAK, 0.0),
    OutcomeKind.FENCED: Disposition(QueueAction.NONE),
    OutcomeKind.HELD_ELSEWHERE: Disposition(QueueAction.NONE),
}


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_outcome_has_the_disposition_of_the_contract(kind: OutcomeKind) -> None:
    assert DISPOSITIONS[kind] == CONTRACT[kind]


def test_no_job_is_delayed_for_longer_than_five_seconds() -> None:
    assert max(disposition.delay_sec for disposition in DISPOSITIONS.values()) <= 5.0
