"""Log lines are stored once and in order, and all lines of the completing attempt are present."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from chaos.evidence import Evidence, Printed
from chaos.invariants import violations
from chaos.side_effects import SideEffect

from support.histories import CREATE, RUN, evidence_of, finish, journal_of, play, start

BROKEN = "log lines lost, repeated or reordered"
TAKEN_OVER = play(CREATE, start(), start(attempt=2, worker="worker-2"), finish(attempt=2, worker="worker-2"))
SIDE_EFFECTS = [
    SideEffect(at=3.0, run_id=RUN, pid=7, what="begin"),
    SideEffect(at=4.0, run_id=RUN, pid=8, what="begin"),
    SideEffect(at=4.9, run_id=RUN, pid=8, what="end", detail="3"),
]


def printed(*lines: tuple[int, str], stream: str = "stdout") -> list[Printed]:
    return [Printed(attempt=attempt, stream=stream, text=text) for attempt, text in lines]


def evidence(lines: Sequence[Printed]) -> Evidence:
    return replace(evidence_of(TAKEN_OVER), side_effects={RUN: SIDE_EFFECTS}, printed={RUN: lines})


def broken(lines: Sequence[Printed]) -> set[str]:
    return {violation.broken for violation in violations(evidence(lines), journal_of())}


def test_all_lines_of_the_last_attempt_after_some_of_the_first_are_valid() -> None:
    lines = printed((1, "line 7 1"), (1, "line 7 2"), (2, "line 8 1"), (2, "line 8 2"), (2, "line 8 3"))

    assert broken(lines) == set()


def test_lines_of_the_server_itself_are_not_counted() -> None:
    lines = printed((2, "line 8 1"), (2, "line 8 2"), (2, "line 8 3"))

    assert broken([*lines, *printed((2, "something"), stream="pyoco")]) == set()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="no lines"),
        pytest.param([(2, "line 8 1"), (2, "line 8 2")], id="the last is missing"),
        pytest.param([(2, "line 8 2"), (2, "line 8 3")], id="the first is missing"),
        pytest.param([(2, "line 8 1"), (2, "line 8 2"), (2, "line 8 2"), (2, "line 8 3")], id="a duplicate"),
        pytest.param([(2, "line 8 1"), (2, "line 8 3"), (2, "line 8 2")], id="out of order"),
        pytest.param([(2, "line 7 1"), (2, "line 7 2"), (2, "line 7 3")], id="from another process"),
        pytest.param([(1, "line 7 1"), (1, "line 7 3"), (2, "line 8 1"), (2, "line 8 2"), (2, "line 8 3")], id="a gap"),
        pytest.param([(2, "line 8 1"), (2, "line 8 2"), (2, "line 8 3"), (1, "line 7 1")], id="a zombie wrote"),
    ],
)
def test_lines_that_differ_from_the_printed_ones_are_found(lines: list[tuple[int, str]]) -> None:
    assert broken(printed(*lines)) == {BROKEN}
