"""Stored graphs of tenants."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.domain.graphs import of_tasks
from pyoco_server.http_api.api.graph_models import read_document
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


async def test_a_graph_is_read_as_it_was_put(ports: Ports) -> None:
    assert await ports.graphs.get("team-a", "release") is None

    stored = await put(ports, RELEASE)

    assert stored == replace(RELEASE, revision=stored.revision)
    assert await ports.graphs.get("team-a", "release") == stored
    assert await ports.graphs.all("team-a") == [stored]


async def test_a_put_replaces_only_the_graph_of_the_expected_revision(ports: Ports) -> None:
    first = await put(ports, RELEASE)
    changed = replace(first, version=2, document=of_tasks(["build"], []))

    second = await put(ports, changed)

    assert second.revision > first.revision
    assert await ports.graphs.put("team-a", replace(changed, version=3)) is None
    assert await ports.graphs.put("team-a", replace(RELEASE, version=3)) is None
    assert await ports.graphs.get("team-a", "release") == second


async def test_a_repeated_put_succeeds(ports: Ports) -> None:
    first = await put(ports, RELEASE)

    assert await ports.graphs.put("team-a", RELEASE) == first


async def test_each_tenant_has_its_own_graphs(ports: Ports) -> None:
    theirs = replace(RELEASE, updated_by="bob")
    stored = {tenant: await put(ports, theirs, tenant) for tenant in ("team-a", "team-b", "-", None)}

    for tenant, graph in stored.items():
        assert await ports.graphs.get(tenant, "release") == graph
        assert await ports.graphs.all(tenant) == [graph]
    assert await ports.graphs.all("team-c") == []
    assert await ports.graphs.get("team-c", "release") is None


@pytest.mark.parametrize("graph_id", ["a.b", "*", ">", "a b", "日本語", "x" * 128, "語" * 128, "-", "=", "A", "a"])
async def test_a_graph_id_may_contain_any_characters(ports: Ports, graph_id: str) -> None:
    stored = await put(ports, replace(RELEASE, graph_id=graph_id))

    assert await ports.graphs.get("team-a", graph_id) == stored
    assert await ports.graphs.all("team-a") == [stored]
