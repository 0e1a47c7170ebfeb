"""What the queue is told: the table of the contract's appendix E, and what is said about a message of somebody else."""

from __future__ import annotations

from typing import get_args

import pytest

from pyoco_server.ports import DeadLetter
from pyoco_server.worker.settle import (
    Ack,
    AlreadyFinished,
    Answer,
    Fenced,
    Finished,
    GivenUp,
    HandedBack,
    HeldElsewhere,
    Invalid,
    Nak,
    Nothing,
    Outcome,
    Term,
    Unavailable,
    letter_of,
    settle,
)

LETTER = DeadLetter(timestamp=1.0, reason="execution_error")

TABLE: list[tuple[Outcome, Answer, DeadLetter | None]] = [
    (Finished(status="COMPLETED"), Ack(), None),
    (Finished(status="FAILED", letter=LETTER), Ack(), LETTER),
    (Finished(status="CANCELLED"), Ack(), None),
    (AlreadyFinished(), Ack(), None),
    (Invalid(letter=LETTER), Term(), LETTER),
    (GivenUp(letter=LETTER), Term(), LETTER),
    (Unavailable(), Nak(delay_sec=2.0), None),
    (HandedBack(), Nak(delay_sec=0.0), None),
    (Fenced(), Nothing(), None),
    (HeldElsewhere(), Nothing(), None),
]


@pytest.mark.parametrize(("outcome", "answer", "letter"), TABLE, ids=lambda value: repr(value)[:60])
def test_an_outcome_is_answered_as_the_contract_says(
    outcome: Outcome, answer: Answer, letter: DeadLetter | None
) -> None:
    assert settle(outcome) == answer
    assert letter_of(outcome) == letter


def test_the_table_names_every_outcome() -> None:
    assert {type(outcome) for outcome, _, _ in TABLE} == set(get_args(Outcome))


def test_no_job_is_kept_away_from_the_queue_for_longer_than_five_seconds() -> None:
    delays = [answer.delay_sec for _, answer, _ in TABLE if isinstance(answer, Nak)]

    assert delays
    assert max(delays) <= 5.0
