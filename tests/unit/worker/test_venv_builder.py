"""What is told of a failed installation: pip's own words, without what is nobody's business."""

from __future__ import annotations

import pytest

from pyoco_server.worker.wheels.venv_builder import _reason


@pytest.mark.parametrize(
    "address",
    ["https://ann:secret@index.test/simple", "http://secret@proxy.test:8080", "git+ssh://ann:se/cr:secret@git.test/x"],
)
def test_passwords_in_addresses_are_not_told(address: str) -> None:
    told = _reason("", f"ERROR: cannot reach '{address}' today")

    assert "secret" not in told
    assert told.startswith("ERROR: cannot reach")
    assert ".test" in told


def test_nor_is_the_end_of_one_where_long_words_are_cut() -> None:
    told = _reason("", f"https://ann:{'secret' * 100}@index.test/simple")

    assert told == "https://***@index.test/simple"


def test_a_conflict_is_told_with_its_addresses_hidden() -> None:
    said = "Looking\nThe conflict is caused by:\n  a @ https://ann:secret@index.test/a.whl\n\nTo fix this"

    assert _reason(said, "ERROR") == "ERROR\nThe conflict is caused by:\n  a @ https://***@index.test/a.whl"
