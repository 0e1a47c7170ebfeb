"""The reason of a failed installation: pip's messages without passwords."""

from __future__ import annotations

import pytest

from pyoco_server.worker.wheels.venv_builder import _reason


@pytest.mark.parametrize(
    "address",
    ["https://ann:secret@index.test/simple", "http://secret@proxy.test:8080", "git+ssh://ann:se/cr:secret@git.test/x"],
)
def test_passwords_in_addresses_are_hidden(address: str) -> None:
    reason = _reason("", f"ERROR: cannot reach '{address}' today")

    assert "secret" not in reason
    assert reason.startswith("ERROR: cannot reach")
    assert ".test" in reason


def test_the_end_of_a_password_is_hidden_in_a_shortened_text() -> None:
    reason = _reason("", f"https://ann:{'secret' * 100}@index.test/simple")

    assert reason == "https://***@index.test/simple"


def test_a_conflict_is_reported_with_its_addresses_hidden() -> None:
    output = "Looking\nThe conflict is caused by:\n  a @ https://ann:secret@index.test/a.whl\n\nTo fix this"

    assert _reason(output, "ERROR") == "ERROR\nThe conflict is caused by:\n  a @ https://***@index.test/a.whl"
