"""Stored graphs of tenants."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyoco_server.domain.graphs import GraphSummary, of_tasks, summary_of
from pyoco_server.http_api.api.graph_models import read_document
from pyoco_server.ports import Entry, StoredGraph
from pyoco_server.stores.graphs import graph_key
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


async def listed(ports: Ports, tenant_id: str | None) -> list[GraphSummary]:
    revisions = await ports.graphs.revisions(tenant_id)
    return list((await ports.graphs.summaries(tenant_id, revisions)).values())


async def test_a_graph_is_read_as_it_was_put(ports: Ports) -> None:
    assert await ports.graphs.get("team-a", "release") is None

    stored = await put(ports, RELEASE)

    assert stored == replace(RELEASE, revision=stored.revision)
    assert await ports.graphs.get("team-a", "release") == stored
    assert await listed(ports, "team-a") == [summary_of(stored)]


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
        assert await listed(ports, tenant) == [summary_of(graph)]
    assert await listed(ports, "team-c") == []
    assert await ports.graphs.get("team-c", "release") is None


@pytest.mark.parametrize("graph_id", ["a.b", "*", ">", "a b", "日本語", "x" * 128, "語" * 128, "-", "=", "A", "a"])
async def test_a_graph_id_may_contain_any_characters(ports: Ports, graph_id: str) -> None:
    stored = await put(ports, replace(RELEASE, graph_id=graph_id))

    assert await ports.graphs.get("team-a", graph_id) == stored
    assert await listed(ports, "team-a") == [summary_of(stored)]


async def test_a_list_reads_each_revision_of_a_graph_once(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await put(ports, RELEASE)
    await listed(ports, "team-a")
    reads: list[str] = []
    get = ports.graphs._bucket.get

    async def counted(key: str) -> Entry | None:
        reads.append(key)
        return await get(key)

    monkeypatch.setattr(ports.graphs._bucket, "get", counted)

    await listed(ports, "team-a")
    unchanged = len(reads)
    second = await put(ports, replace(first, version=2, document=of_tasks(["build"], [])))
    after_a_change = await listed(ports, "team-a")

    assert unchanged == 0
    assert after_a_change == [summary_of(second)]
    assert reads == [graph_key("team-a", "release")]
