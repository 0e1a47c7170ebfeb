"""What to do next, in the words of `/executions`."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.rejection import RejectionReason
from pyoco_server.errors import CommandRejected, PyocoError, RunNotFound, SnapshotTooLarge
from pyoco_server.http_api.responses.error_hints import GUARD_HINTS
from pyoco_server.http_api.responses.problems import EXECUTIONS


def told(error: PyocoError, language: str = "en") -> tuple[str, str]:
    body = EXECUTIONS.body(error, language, 409, "/executions")["error"]
    return body["message"], body["details"]["hint"]


def test_hints_belong_to_guards_that_there_are() -> None:
    assert set(GUARD_HINTS) <= set(RejectionReason.__members__)


@pytest.mark.parametrize("guard", sorted(GUARD_HINTS))
def test_a_guard_says_what_to_do_next_in_the_language_that_was_asked_for(guard: str) -> None:
    error = CommandRejected("no", guard=guard)

    english, japanese = told(error)[1], told(error, "ja")[1]

    assert (english, japanese) == GUARD_HINTS[guard]
    assert english.isascii() or "…" in english
    assert not japanese.isascii()


def test_other_errors_have_the_hint_of_the_catalogue() -> None:
    for error in (CommandRejected("no", guard=RejectionReason.TOO_MANY_TAGS.name), SnapshotTooLarge()):
        assert told(error) == (error.detail, error.hint)
        assert told(error, "ja") == (error.detail, error.hint_ja)


def test_what_is_not_there_is_called_an_execution_however_it_was_found_out() -> None:
    assert told(RunNotFound(run_id="abc"))[0] == "there is no execution abc"
    assert told(RunNotFound())[0] == "there is no execution"
    assert told(RunNotFound("there is no execution 1", run_id="1"))[0] == "there is no execution 1"
    assert "executionId" in told(RunNotFound(run_id="abc"))[1]
