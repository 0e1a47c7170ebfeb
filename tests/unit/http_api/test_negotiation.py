"""Negotiation of plain-text logs by the Accept header."""

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
def test_plain_text_is_sent_if_it_is_named_and_not_ranked_below_json(accept: str, wanted: bool) -> None:
    assert wants_text(accept) is wanted
