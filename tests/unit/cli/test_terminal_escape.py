"""Foreign text on a terminal: control characters have no effect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.cli.terminal_escape import escape_line, escape_lines, to_json

ANYTHING = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("日本語 flow", "日本語 flow"),
        ("👩‍💻", "👩‍💻"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("\x9b2J", "\ufffd2J"),
        ("bell\x07", "bell\ufffd"),
        ("two\r\nlines\tand tabs", "two lines and tabs"),
        ("\u202egpj.exe", "\ufffdgpj.exe"),
        ("half \ud83d", "half \ufffd"),
        (7, "7"),
    ],
)
def test_control_characters_in_a_line_are_replaced(text: object, expected: str) -> None:
    assert escape_line(text) == expected


@given(ANYTHING)
def test_an_escaped_line_is_one_encodable_line(text: str) -> None:
    escaped = escape_line(text)

    assert len(escaped.splitlines()) <= 1
    assert escaped.encode().decode() == escaped
    assert escape_line(escaped) == escaped


def test_lines_keep_their_breaks() -> None:
    assert escape_lines("a\n\tb\x1bc") == "a\n\tb\ufffdc"


@given(
    st.recursive(ANYTHING | st.integers() | st.none(), lambda below: st.lists(below) | st.dictionaries(ANYTHING, below))
)
def test_an_escaped_document_keeps_its_meaning(value: Any) -> None:
    written = to_json(value, indent=2)

    assert json.loads(written) == json.loads(json.dumps(value))
    assert escape_lines(written) == written
