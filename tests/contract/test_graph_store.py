"""What every store of graphs promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pyoco_server.domain.graphs.document import of_tasks
from pyoco_server.domain.graphs.parser import read_document
from pyoco_server.ports import StoredGraph
from support.stores import Ports

RELEASE = StoredGraph(
    graph_id="release",
    version=1,
    document=read_document(
        {
            "title": "Release",
            "nodes": ["build", {"id": "承認", "type": "wait", "prompt": {"b": 1, "a": [None, 1.5]}, "timeoutSec": 60}],
            "edges": [["build", "承認"]],
        }
    ),
    updated_at=1_700_000_000.5,
    updated_by="ann",
)


async def put(ports: Ports, graph: StoredGraph, tenant_id: str | None = "team-a") -> StoredGraph:
    stored = await ports.graphs.put(tenant_id, graph)
    assert stored is not None
    return stored


async def test_a_graph_comes_back_as_it_was_put(ports: Ports) -> None:
    assert await ports.graphs.get("team-a", "release") is None

    stored = await put(ports, RELEASE)

    assert stored == replace(RELEASE, revision=stored.revision)
    assert await ports.graphs.get("team-a", "release") == stored
    assert await ports.graphs.all("team-a") == [stored]


async def test_a_graph_replaces_the_one_whose_revision_it_names_and_no_other(ports: Ports) -> None:
    first = await put(ports, RELEASE)
    changed = replace(first, version=2, document=of_tasks(["build"], []))

    second = await put(ports, changed)

    assert second.revision > first.revision
    assert await ports.graphs.put("team-a", replace(changed, version=3)) is None
    assert await ports.graphs.put("team-a", replace(RELEASE, version=3)) is None
    assert await ports.graphs.get("team-a", "release") == second


async def test_a_put_that_is_repeated_because_its_answer_was_lost_is_the_same_put(ports: Ports) -> None:
    first = await put(ports, RELEASE)

    assert await ports.graphs.put("team-a", RELEASE) == first


async def test_of_many_who_put_at_once_one_succeeds(ports: Ports) -> None:
    wishes = [replace(RELEASE, document=of_tasks([f"n{number}"], [])) for number in range(8)]

    stored = await asyncio.gather(*(ports.graphs.put("team-a", wish) for wish in wishes))

    (winner,) = [graph for graph in stored if graph is not None]
    assert await ports.graphs.get("team-a", "release") == winner


async def test_tenants_have_graphs_of_their_own_and_nobody_has_too(ports: Ports) -> None:
    theirs = replace(RELEASE, updated_by="bob")
    stored = {tenant: await put(ports, theirs, tenant) for tenant in ("team-a", "team-b", "-", None)}

    for tenant, graph in stored.items():
        assert await ports.graphs.get(tenant, "release") == graph
        assert await ports.graphs.all(tenant) == [graph]
    assert await ports.graphs.all("team-c") == []
    assert await ports.graphs.get("team-c", "release") is None


@pytest.mark.parametrize("graph_id", ["a.b", "*", ">", "a b", "日本語", "x" * 128, "語" * 128, "-", "=", "A", "a"])
async def test_a_graph_may_be_called_by_any_signs(ports: Ports, graph_id: str) -> None:
    stored = await put(ports, replace(RELEASE, graph_id=graph_id))

    assert await ports.graphs.get("team-a", graph_id) == stored
    assert await ports.graphs.all("team-a") == [stored]


async def test_graphs_are_listed_by_id_however_many_there_are(ports: Ports) -> None:
    names = [f"g{number:03}" for number in range(600)]
    for name in reversed(names):
        await put(ports, replace(RELEASE, graph_id=name))
    changed = await ports.graphs.get("team-a", "g300")
    assert changed is not None
    await put(ports, replace(changed, version=2))

    listed = await ports.graphs.all("team-a")

    assert [graph.graph_id for graph in listed] == names
    assert [graph.graph_id for graph in listed if graph.version == 2] == ["g300"]


async def test_the_largest_graph_fits(ports: Ports) -> None:
    params = {"text": "x" * 16_000}
    nodes = [{"id": f"n{number}", "params": params} for number in range(16)]
    large = replace(RELEASE, document=read_document({"nodes": nodes}))

    stored = await put(ports, large)

    assert await ports.graphs.get("team-a", "release") == stored
