"""Who wants a log as plain text, by what their request says that it accepts."""

from __future__ import annotations

import pytest

from pyoco_server.http_api.responses.negotiation import MAX_ACCEPT_CHARS, wants_text


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/plain", True),
        ("text/plain;q=0.5, application/json;q=0.4", True),
        ("text/html, Text/Plain; q=0.1", True),
        ("application/json, text/plain", False),
        ("text/plain;q=nan", False),
        ("*/*", False),
        ("", False),
        ("text/plain" + "," * MAX_ACCEPT_CHARS, False),
    ],
)
def test_text_is_for_those_who_name_it_and_do_not_want_json_more(accept: str, wanted: bool) -> None:
    assert wants_text(accept) is wanted
