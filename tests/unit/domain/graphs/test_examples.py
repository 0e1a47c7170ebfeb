"""What the documentation and the examples show is accepted, and what the documentation promises is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyoco_server.domain import ids
from pyoco_server.domain.execution import graph, state
from pyoco_server.domain.graphs import parser
from pyoco_server.domain.graphs.document import is_same
from pyoco_server.domain.graphs.parser import read_document, read_yaml_document
from pyoco_server.http_api.api.graph_models import GRAPH_SCHEMA, YAML_TYPES

ROOT = Path(__file__).parents[4]
DOCUMENT = (ROOT / "docs" / "reference" / "graphs.md").read_text("utf-8")
KIB = 1024


def test_the_graph_that_is_shown_is_the_one_of_the_examples() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)

    example = read_yaml_document((ROOT / "examples" / "release.yaml").read_bytes())

    assert is_same(read_yaml_document(shown.encode()), example)


def test_the_graph_in_the_openapi_document_is_accepted() -> None:
    assert read_document(GRAPH_SCHEMA["example"]).edges


@pytest.mark.parametrize("kind", YAML_TYPES)
def test_every_content_type_of_yaml_is_text(kind: str) -> None:
    assert f"`{kind}`" in DOCUMENT


def test_the_limits_are_those_that_are_text() -> None:
    text = DOCUMENT.replace(",", "").replace("\n", " ")

    assert f"At most {state.MAX_NODES} nodes {graph.MAX_EDGES} edges and {parser.MAX_DOCUMENT_BYTES // KIB} KiB" in text
    assert f"1 to {ids.MAX_NODE_ID_CHARS} printable characters without `/`" in text
    assert f"1 to {parser.MAX_TITLE_CHARS} printable characters" in text
    assert f"1 to {parser.MAX_WAIT_KEY_CHARS} printable characters" in text
    assert f"1 to {parser.MAX_ATTEMPTS} " in text
    assert f"up to {parser.MAX_CONTENT_BYTES // KIB} KiB" in text
    assert f"at most {parser.MAX_WAIT_SEC / 86_400:.0f} days" in text
