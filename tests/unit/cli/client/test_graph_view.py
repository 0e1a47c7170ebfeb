"""Graphs as text and as Mermaid, with names that are anything."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.cli.client.graph_view import about_flow, as_mermaid, as_text, drawing_of

DIAMOND = {"nodes": ["load", "a", "b", "save"], "edges": [["load", "a"], ["load", "b"], ["a", "save"], ["b", "save"]]}
STORED = {
    "nodes": [{"id": "ask", "type": "wait"}, {"id": "ship", "type": "task"}],
    "edges": [{"from": "ask", "to": "ship", "when": ["yes", "maybe"]}],
}
names = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True)


def test_a_graph_as_text_has_a_line_per_task_with_the_tasks_before_it() -> None:
    assert list(as_text(drawing_of(DIAMOND))) == ["  load", "  a     <- load", "  b     <- load", "  save  <- a, b"]


def test_choices_of_edges_are_shown() -> None:
    assert list(as_text(drawing_of(STORED))) == ["  ask", "  ship  <- ask if yes or maybe"]
    assert '    n0 -->|"yes / maybe"| n1' in as_mermaid(drawing_of(STORED))


def test_a_graph_as_mermaid_has_numbered_nodes_with_their_names() -> None:
    assert list(as_mermaid(drawing_of(DIAMOND)))[:6] == [
        "flowchart TD",
        '    n0["load"]',
        '    n1["a"]',
        '    n2["b"]',
        '    n3["save"]',
        "    n0 --> n1",
    ]


@given(names)
def test_no_name_can_break_out_of_its_line_or_its_quotes(nodes: list[str]) -> None:
    drawing = drawing_of({"nodes": nodes, "edges": [[nodes[0], nodes[-1]]]})

    lines = list(as_mermaid(drawing))

    assert len(lines) == 2 + len(nodes)
    assert all(re.fullmatch(r'    n\d+\["[^"\n`<>]+"\]', line) for line in lines[1 : 1 + len(nodes)])
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for line in as_text(drawing) for one in line)


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ({"params": None, "takes_others": True}, "parameters: unknown"),
        ({"params": [], "takes_others": False}, "parameters: none"),
        (
            {"params": [{"name": "path", "required": True}, {"name": "mode", "required": False}], "takes_others": True},
            "parameters: path*, mode, …",
        ),
    ],
)
def test_required_parameters_have_a_star(version: dict[str, Any], line: str) -> None:
    assert list(about_flow({"name": "etl"}, {"tags": ["gpu"], "workers": 2, **version})) == [
        "etl  tags: gpu  workers: 2",
        line,
    ]
