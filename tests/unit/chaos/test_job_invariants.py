"""Each check of jobs finds its violation, and nothing in valid evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.evidence import Evidence, ExcerptAgain, Labelled, Printed
from chaos.invariants import violations
from chaos.journal import Excerpt, Followed, Journal

from pyoco_server.domain.execution.commands import ArchiveExecution, CreateExecution
from pyoco_server.domain.execution.state import Request
from support.histories import RUN, evidence_of, finish, play, start

CREATE = CreateExecution(at=1.0, request=Request(flow_name="instant", tag="default"), labels=("urgent",))
LOG = play(CREATE, start(), finish())
TEXTS = ("line 1 1", "line 1 2")
LINES = tuple((number, 1, text) for number, text in enumerate(TEXTS, start=1))
EXCERPT = Excerpt(job_id=RUN, first_lines=1, token="t", part="e 1 1")
FOLLOWED = Followed(job_id=RUN, by="sdk", lines=LINES, status="completed", how="ended")
LISTED = Labelled(gateway="gateway-1", label="urgent", job_ids=[RUN], count=1)
AGAIN = ExcerptAgain(gateway="gateway-1", excerpt=EXCERPT, part="e 1 1", following=2)


def journal() -> Journal:
    return Journal(followed=[FOLLOWED], labels={RUN: ["urgent"]}, excerpts=[EXCERPT])


def evidence() -> Evidence:
    printed = [Printed(attempt=1, stream="stdout", text=text) for text in TEXTS]
    lines = ((3.0, "begin"), (4.9, "end"))
    return replace(evidence_of(LOG, side_effects=lines), printed={RUN: printed}, labels=[LISTED], excerpts=[AGAIN])


def broken(evidence: Evidence, journal: Journal) -> set[str]:
    unrelated = {"log lines lost, repeated or reordered"}  # the flow's records do not count log lines
    return {violation.broken for violation in violations(evidence, journal)} - unrelated


def test_a_job_that_was_followed_and_labelled_has_no_violations() -> None:
    assert broken(evidence(), journal()) == set()


def test_an_incomplete_follower_has_the_first_lines() -> None:
    gave_up = replace(FOLLOWED, lines=LINES[:1], status="", how="gave up")

    assert broken(evidence(), replace(journal(), followed=[gave_up])) == set()


@pytest.mark.parametrize(
    "followed",
    [
        replace(FOLLOWED, lines=LINES[:1]),
        replace(FOLLOWED, lines=(*LINES, LINES[1])),
        replace(FOLLOWED, lines=LINES[::-1], how="gave up"),
        replace(FOLLOWED, status="failed"),
        replace(FOLLOWED, status="", how="hung"),
    ],
    ids=["lost", "repeated", "reordered", "other status", "hung"],
)
def test_a_follower_that_received_another_log_is_found(followed: Followed) -> None:
    assert broken(evidence(), replace(journal(), followed=[followed])) == {"logs followed with other content"}


def test_a_label_that_was_lost_is_found() -> None:
    assert broken(evidence(), replace(journal(), labels={RUN: ["urgent", "seen"]})) == {
        "labels that differ from the changes"
    }


@pytest.mark.parametrize("listed", [replace(LISTED, job_ids=[]), replace(LISTED, count=2)], ids=["list", "count"])
def test_a_list_or_a_count_that_differs_from_the_labels_is_found(listed: Labelled) -> None:
    assert broken(replace(evidence(), labels=[listed]), journal()) == {"labels that differ from the changes"}


def test_a_deleted_job_that_ended_otherwise_and_is_not_archived_is_found() -> None:
    deleted = replace(journal(), deleted={RUN})
    archived = play(CREATE, start(), finish(), ArchiveExecution(at=6.0))

    assert broken(evidence(), deleted) == {"deletions without effect"}
    assert "deletions without effect" not in broken(evidence_of(archived), deleted)


@pytest.mark.parametrize("again", [replace(AGAIN, part="x"), replace(AGAIN, following=1)], ids=["range", "token"])
def test_an_excerpt_that_changed_is_found(again: ExcerptAgain) -> None:
    assert broken(replace(evidence(), excerpts=[again]), journal()) == {"excerpts of logs that changed"}
