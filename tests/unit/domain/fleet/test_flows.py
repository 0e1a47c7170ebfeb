"""Announced flows: bounded by size, and read from any record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.fleet.flows import (
    MAX_BYTES,
    MAX_FLOWS,
    MAX_NAME_CHARS,
    MAX_NODES,
    MAX_REASONS,
    AnnouncedFlow,
    bounded,
    flows_from_plain,
    flows_to_plain,
)

PIPELINE = AnnouncedFlow(
    name="pipeline",
    nodes=("load", "save"),
    edges=(("load", "save"),),
    params=(("path", True), ("mode", False)),
    takes_others=False,
)
BARE = AnnouncedFlow(name="bare")

texts = st.text(max_size=300)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "nodes", "edges", "params", "takes_others"]), inner)
    ),
    max_leaves=20,
)
flows = st.builds(
    AnnouncedFlow,
    name=texts,
    nodes=st.lists(texts, max_size=5).map(tuple),
    edges=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    params=st.none() | st.dictionaries(texts, st.booleans(), max_size=3).map(lambda known: tuple(known.items())),
)


def chain(name: str, length: int, width: int = 8) -> AnnouncedFlow:
    nodes = tuple(f"{place:0{width}}" for place in range(length))
    return AnnouncedFlow(name=name, nodes=nodes, edges=tuple(pairwise(nodes)))


def stored_bytes(kept: tuple[AnnouncedFlow, ...]) -> int:
    return len(orjson.dumps(flows_to_plain(kept)))


def test_flows_survive_storage() -> None:
    assert flows_from_plain(orjson.loads(orjson.dumps(flows_to_plain([PIPELINE, BARE])))) == (PIPELINE, BARE)


def test_equal_stored_forms_give_the_same_value() -> None:
    assert flows_from_plain(flows_to_plain([PIPELINE])) is flows_from_plain(flows_to_plain([PIPELINE]))


def test_flows_within_the_limit_are_announced_unchanged() -> None:
    announcement = bounded([PIPELINE, BARE])

    assert (announcement.flows, announcement.left_out) == ((PIPELINE, BARE), ())


def test_a_name_is_announced_once_and_has_bounded_length() -> None:
    longest = "x" * MAX_NAME_CHARS
    odd = [AnnouncedFlow(name=name) for name in ("a", "a", "", longest, longest + "x", "\ud800")]

    announcement = bounded(odd)

    assert [flow.name for flow in announcement.flows] == ["a", longest]
    assert len(announcement.left_out) == 1


def test_flows_beyond_the_limit_are_left_out() -> None:
    announcement = bounded([AnnouncedFlow(name=str(n)) for n in range(MAX_FLOWS + 1)])

    assert len(announcement.flows) == MAX_FLOWS
    assert announcement.left_out[0].startswith(f"flows: {MAX_FLOWS}")


def test_a_flow_with_too_many_nodes_is_announced_by_its_name() -> None:
    most, more = chain("most", MAX_NODES), chain("more", MAX_NODES + 1)

    announcement = bounded([most, more])

    assert announcement.flows == (most, AnnouncedFlow(name="more"))
    assert announcement.left_out[0].startswith("graphs of flows")


def test_all_graphs_are_left_out_before_any_flow() -> None:
    large = [chain(f"large-{n}", MAX_NODES, width=40) for n in range(3)]

    announcement = bounded([*large, PIPELINE])

    assert announcement.flows == tuple(replace(flow, nodes=(), edges=()) for flow in [*large, PIPELINE])
    assert announcement.left_out[0].startswith("graphs of flows")
    assert stored_bytes(announcement.flows) <= MAX_BYTES


def test_names_are_left_out_last() -> None:
    announcement = bounded([AnnouncedFlow(name=f"{n:03}" + "夜" * (MAX_NAME_CHARS - 3)) for n in range(MAX_FLOWS)])

    assert 300 < len(announcement.flows) < MAX_FLOWS
    assert stored_bytes(announcement.flows) <= MAX_BYTES + 1
    assert len(announcement.left_out) == 1


def test_reasons_are_few_and_short() -> None:
    announcement = bounded([], ["no " * 1000] * 100)

    assert len(announcement.left_out) == MAX_REASONS
    assert len(announcement.left_out[0]) < 1000


@given(st.lists(flows, max_size=5))
def test_bounded_flows_can_be_stored_and_bounding_is_idempotent(given_flows: list[AnnouncedFlow]) -> None:
    kept = bounded(given_flows).flows

    assert flows_from_plain(orjson.loads(orjson.dumps(flows_to_plain(kept)))) == kept
    assert bounded(kept) == bounded(kept, [])
    assert bounded(kept).flows == kept


@given(anything)
def test_the_valid_part_of_any_json_is_read(plain: Any) -> None:
    for flow in flows_from_plain(plain):
        assert flow.name
        assert {node for edge in flow.edges for node in edge} <= set(flow.nodes)


@pytest.mark.parametrize(
    ("plain", "read"),
    [
        (None, ()),
        ("hello", ()),
        (object(), ()),
        ([7, None, {}, {"name": 7}, {"name": ""}], ()),
        ([{"name": "a"}, {"name": "a", "nodes": ["x"]}], (AnnouncedFlow(name="a"),)),
        ([{"name": "a", "nodes": ["x", 7]}], (AnnouncedFlow(name="a"),)),
        ([{"name": "a", "nodes": ["x", "x"]}], (AnnouncedFlow(name="a"),)),
        ([{"name": "a", "nodes": ["x"], "edges": [["x", "y"]]}], (AnnouncedFlow(name="a"),)),
        ([{"name": "a", "nodes": ["x"], "edges": [["x"]]}], (AnnouncedFlow(name="a"),)),
        ([{"name": "a", "nodes": ["x"], "edges": "x", "mood": "good"}], (AnnouncedFlow(name="a", nodes=("x",)),)),
    ],
)
def test_an_incomplete_graph_is_none(plain: object, read: tuple[AnnouncedFlow, ...]) -> None:
    assert flows_from_plain(plain) == read
