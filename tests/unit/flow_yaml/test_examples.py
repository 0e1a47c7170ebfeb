"""What the documentation and the examples show is accepted, and what the documentation promises is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyoco.dsl.graph import MAX_PIPE_EXPANDED_TERMS

from pyoco_server.adapters import flow_graph
from pyoco_server.adapters.flow_graph import read_flow_file, read_graph
from pyoco_server.domain import strict_yaml
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "flow-yaml.md").read_text()
SHOWN = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("text", [*SHOWN, (ROOT / "examples" / "flow.yaml").read_text()])
def test_every_file_that_is_shown_is_accepted(text: str) -> None:
    assert read_flow_file(text.encode()).graph.nodes


@pytest.mark.parametrize("term", re.findall(r"^\| `(.*?)` \| ", DOCUMENT.partition("## Callables")[0], re.MULTILINE))
def test_every_term_that_is_shown_is_a_graph(term: str) -> None:
    assert read_graph(term.replace("…", "a"), {"p": "a"}, ["a", "b"]).nodes


def test_the_limits_are_those_that_are_text() -> None:
    text = DOCUMENT.replace(",", "").replace("\n", " ")

    assert f"more than {MAX_NODES} nodes or {MAX_PIPE_EXPANDED_TERMS} terms" in text
    assert f"{flow_graph.MAX_GRAPH_CHARS} characters or {flow_graph.MAX_TOKENS} words and marks" in text
    assert f"names of more than {MAX_NODE_ID_CHARS} characters" in text
    assert f"nested deeper than {flow_graph.MAX_NESTING}" in text
    assert f"more than {strict_yaml.MAX_ALIASES} aliases or {strict_yaml.MAX_ALIASED_CHARS // 1024} KiB" in text
    assert f"more than {strict_yaml.MAX_DEPTH} levels or {strict_yaml.MAX_VALUES} values" in text
    assert f"at most {flow_graph.MAX_EXPRESSION_CHARS} characters" in text
