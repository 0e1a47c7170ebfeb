"""Hints of errors in the format of `/executions`."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.rejection import RejectionReason
from pyoco_server.errors import CommandRejected, PyocoError, RunNotFound, SnapshotTooLarge
from pyoco_server.http_api.responses.error_hints import GUARD_HINTS
from pyoco_server.http_api.responses.problems import EXECUTIONS


def message_and_hint(error: PyocoError, language: str = "en") -> tuple[str, str]:
    body = EXECUTIONS.body(error, language, 409, "/executions")["error"]
    return body["message"], body["details"]["hint"]


def test_every_hint_belongs_to_a_rejection_reason() -> None:
    assert set(GUARD_HINTS) <= set(RejectionReason.__members__)


@pytest.mark.parametrize("guard", sorted(GUARD_HINTS))
def test_a_rejection_has_a_hint_in_the_requested_language(guard: str) -> None:
    error = CommandRejected("no", guard=guard)

    english, japanese = message_and_hint(error)[1], message_and_hint(error, "ja")[1]

    assert (english, japanese) == GUARD_HINTS[guard]
    assert english.isascii() or "…" in english
    assert not japanese.isascii()


def test_other_errors_have_the_hint_of_the_catalogue() -> None:
    for error in (CommandRejected("no", guard=RejectionReason.TOO_MANY_TAGS.name), SnapshotTooLarge()):
        assert message_and_hint(error) == (error.detail, error.hint)
        assert message_and_hint(error, "ja") == (error.detail_in("ja"), error.hint_ja)


def test_a_missing_execution_is_called_an_execution() -> None:
    assert message_and_hint(RunNotFound(run_id="abc"))[0] == "there is no execution abc"
    assert message_and_hint(RunNotFound())[0] == "there is no execution"
    assert message_and_hint(RunNotFound("there is no execution 1", run_id="1"))[0] == "there is no execution 1"
    assert "executionId" in message_and_hint(RunNotFound(run_id="abc"))[1]
