"""The page for people: it tells of everything, needs nothing from elsewhere, and runs nothing."""

from __future__ import annotations

import re

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.openapi.docs_page import page

DOCUMENT = create_app(NatsBackendConfig()).openapi()


def test_every_path_and_every_shape_is_told_of() -> None:
    shown = page(DOCUMENT)

    for path, methods in DOCUMENT["paths"].items():
        for method in methods:
            assert f"<span class=verb>{method.upper()}</span>{path}</code>" in shown
    for name in DOCUMENT["components"]["schemas"]:
        assert f"<h3 id=shape-{name}>" in shown


def test_every_link_leads_somewhere_on_this_server() -> None:
    shown = page(DOCUMENT)

    targets = set(re.findall(r"<h3 id=([^>]+)>", shown))
    for link in re.findall(r"<a href=([^>]+)>", shown):
        assert link == "/openapi.json" or link.removeprefix("#") in targets
    assert not re.findall(r"<script|https?://|@import|url\(", shown)


def test_what_stands_in_backticks_is_shown_as_code() -> None:
    shown = page(DOCUMENT)

    assert "<code>X-Total-Count</code>" in shown
    assert "`" not in shown


def test_what_stands_in_the_document_is_shown_and_not_interpreted() -> None:
    hostile = {
        "info": {"title": "<b>t</b>", "version": "<i>", "description": "<script>alert(1)</script>"},
        "paths": {
            "/<x>": {"get": {"description": "<img>", "parameters": [{"name": "<p>", "in": "query"}], "responses": {}}}
        },
        "components": {"schemas": {"<S>": {"properties": {"<f>": {"enum": ["<e>"]}}, "description": "<d>"}}},
    }

    shown = page(hostile)

    assert not re.findall(r"<(script|img|b|i|x|S|f|e|d)>", shown)
    for text in ("&lt;script&gt;", "&lt;img&gt;", "&lt;x&gt;", "&lt;f&gt;", "&lt;e&gt;"):
        assert text in shown


def test_the_fields_of_a_body_are_told_with_what_may_be_left_out_and_an_example() -> None:
    body = page(DOCUMENT).partition("</span>/executions/{executionId}/nodes/{nodeId}/resume</code>")[2]
    body = body.partition("</details>")[0]

    for told in ("<td>Idempotency-Key</td>", "<td>X-Idempotency-Key ?</td>", "<td>resumeKey</td>", "<td>answer ?</td>"):
        assert told in body
    assert "&quot;resumeKey&quot;: &quot;approval-123&quot;" in body
