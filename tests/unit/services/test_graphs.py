"""Stored graphs: versions, conditions, races, pages, and announced flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.graphs import GraphDocument, GraphSummary, of_tasks, summary_of
from pyoco_server.domain.ids import CommitId
from pyoco_server.domain.queries.page_token import seal
from pyoco_server.errors import AppendConflict, BrokerUnavailable, GraphNotFound, GraphVersionConflict, InvalidRequest
from pyoco_server.ports import StoredGraph
from pyoco_server.services.context import CommandContext
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.graphs import MAX_RACES, GraphPage, GraphService, ListedGraph, PutGraph
from support.world import World

ETL = AnnouncedFlow(name="etl", nodes=("load", "save"), edges=(("load", "save"),), tags=("cpu", "gpu"))
ANN, BOB = (CommandContext(actor=Actor(kind="user", id=name)) for name in ("ann", "bob"))
ANN_AGAIN = CommandContext(actor=ANN.actor, commit_id=CommitId("c1"), resumed=True)
ONE, TWO, THREE = (of_tasks([name], []) for name in ("one", "two", "three"))


class Fleet(FleetView):
    """A fleet whose workers announce these flows."""

    def __init__(self, world: World, *flows: AnnouncedFlow) -> None:
        super().__init__(world.stores.registry, world.stores.broker, world.stores.clock, world.config)
        self._caught_up.set()
        self._present_flows = {flow.name: flow for flow in flows}

    def announced_flows(self) -> Mapping[str, AnnouncedFlow]:
        return self._present_flows


def graphs(world: World, *flows: AnnouncedFlow) -> GraphService:
    return GraphService(stores=world.stores, fleet=Fleet(world, *flows))


async def put(world: World, document: GraphDocument, graph_id: str = "release", **named: Any) -> PutGraph:
    return await graphs(world).put("team-a", graph_id, document, context=named.pop("context", ANN), **named)


def overtaken(world: World, document: GraphDocument) -> None:
    """Another client puts this document just before the next put."""
    others = GraphService(stores=world.truth, fleet=Fleet(world))
    world.faults.before("graphs.put", lambda: others.put("team-a", "release", document, context=BOB))


async def test_a_change_is_a_new_version_and_an_equal_graph_is_none() -> None:
    world = World()

    first = await put(world, ONE)
    world.clock.pass_time(60)
    again = await graphs(world).put("team-a", "release", ONE, context=BOB)
    second = await put(world, TWO)
    third = await put(world, ONE)

    assert (first.created, first.graph.version) == (True, 1)
    assert again == PutGraph(graph=first.graph, created=False)
    assert (second.created, second.graph.version) == (False, 2)
    assert (third.created, third.graph.version) == (False, 3)
    assert await graphs(world).get("team-a", "release") == third.graph
    assert (third.graph.updated_by, third.graph.updated_at) == ("ann", world.now())


async def test_an_expected_version_must_be_the_current_one() -> None:
    world = World()

    await put(world, ONE, expected_version=0)
    await put(world, TWO, expected_version=1)
    for wrong in (0, 1, 3):
        with pytest.raises(GraphVersionConflict) as caught:
            await put(world, THREE, expected_version=wrong)
        assert caught.value.facts["version"] == 2

    with pytest.raises(GraphVersionConflict, match="no such graph yet"):
        await put(world, ONE, "another", expected_version=1)
    present = await graphs(world).get("team-a", "release")
    assert isinstance(present, StoredGraph)
    assert present.document == TWO


@pytest.mark.parametrize("expected_version", [None, 0])
async def test_a_resumed_put_that_was_applied_returns_the_first_result(expected_version: int | None) -> None:
    world = World()
    first = await put(world, ONE, expected_version=expected_version)

    assert await put(world, ONE, expected_version=expected_version, context=ANN_AGAIN) == first


async def test_a_resumed_put_that_was_not_applied_has_the_same_condition() -> None:
    world = World()
    await put(world, ONE)

    with pytest.raises(GraphVersionConflict):
        await put(world, TWO, expected_version=0, context=ANN_AGAIN)
    with pytest.raises(GraphVersionConflict):
        await put(world, ONE, expected_version=3, context=ANN_AGAIN)
    done = await put(world, TWO, expected_version=1, context=ANN_AGAIN)

    assert (done.graph.version, done.created) == (2, False)


async def test_concurrent_puts_get_different_versions_and_equal_ones_share_one() -> None:
    world, same = World(), World()
    overtaken(world, TWO)
    overtaken(same, ONE)

    ours, shared = await put(world, ONE), await put(same, ONE)

    assert (ours.graph.version, ours.created, ours.graph.document) == (2, False, ONE)
    assert (shared.graph.version, shared.created, shared.graph.updated_by) == (1, False, "bob")


async def test_an_overtaken_put_with_an_expected_version_is_refused() -> None:
    world = World()
    await put(world, ONE)
    overtaken(world, TWO)

    with pytest.raises(GraphVersionConflict):
        await put(world, THREE, expected_version=1)


async def test_a_put_that_is_overtaken_too_often_is_refused() -> None:
    world = World()
    for number in range(MAX_RACES):
        overtaken(world, of_tasks([f"n{number}"], []))

    with pytest.raises(AppendConflict):
        await put(world, ONE)


async def test_a_put_with_a_lost_response_can_be_repeated() -> None:
    world = World()
    world.faults.lose_answer("graphs.put")

    with pytest.raises(BrokerUnavailable):
        await put(world, ONE)
    again = await put(world, ONE)

    assert (again.graph.version, again.created) == (1, False)


async def test_a_graph_of_another_tenant_does_not_exist() -> None:
    world = World()
    await put(world, ONE)

    for tenant in ("team-b", None):
        with pytest.raises(GraphNotFound):
            await graphs(world).get(tenant, "release")
        assert (await graphs(world).page(tenant)).items == []


async def test_an_announced_flow_is_a_graph_of_every_tenant_unless_one_is_stored_under_its_name() -> None:
    world = World()
    await put(world, ONE, "etl", expected_version=0)

    graph = await graphs(world, ETL).get("team-a", "etl")
    listed = await graphs(world, ETL).page("team-a")
    others = await graphs(world, ETL).get("team-b", "etl")

    assert isinstance(graph, StoredGraph)
    assert graph.document == ONE
    assert listed.items == [summary_of(graph)]
    assert others == ETL


def name_of(graph: ListedGraph) -> str:
    return graph.graph_id if isinstance(graph, GraphSummary) else graph.name


async def pages(found: GraphService, **query: Any) -> list[list[str]]:
    ids, cursor = [], ""
    while True:
        page: GraphPage = await found.page("team-a", cursor=cursor, **query)
        ids.append([name_of(graph) for graph in page.items])
        if page.next_cursor is None:
            return ids
        cursor = page.next_cursor


async def test_graphs_and_flows_are_listed_by_id_page_by_page() -> None:
    world = World()
    for name in ("release", "backup", "報告", "rotate"):
        await put(world, ONE, name)

    assert await pages(graphs(world, ETL), limit=2) == [["backup", "etl"], ["release", "rotate"], ["報告"]]
    assert await pages(graphs(world, ETL), limit=5) == [["backup", "etl", "release", "rotate", "報告"]]
    assert await pages(graphs(world, ETL), limit=1, prefix="r") == [["release"], ["rotate"]]
    assert await pages(graphs(world, ETL), prefix="x") == [[]]


async def test_changes_between_two_pages_hide_no_other_graph() -> None:
    world = World()
    for name in ("b", "d", "f"):
        await put(world, ONE, name)
    first = await graphs(world).page("team-a", limit=1)
    await put(world, ONE, "a")
    await put(world, ONE, "c")

    rest = await graphs(world).page("team-a", limit=9, cursor=first.next_cursor or "")

    assert [name_of(graph) for graph in rest.items] == ["c", "d", "f"]


@pytest.mark.parametrize("cursor", ["!", "AAAA", seal("a", about=("x",))])
async def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        await graphs(World()).page("team-a", prefix="r", cursor=cursor)


async def test_a_flow_is_unavailable_until_the_fleet_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyoco_server.services.fleet_view.FIRST_FILL_WAIT_SEC", 0.01)
    world = World()
    await put(world, ONE)
    fleet = FleetView(world.stores.registry, world.stores.broker, world.stores.clock, world.config)
    starting = GraphService(stores=world.stores, fleet=fleet)

    with pytest.raises(BrokerUnavailable):
        await starting.get("team-a", "etl")
    with pytest.raises(BrokerUnavailable):
        await starting.page("team-a")
    assert isinstance(await starting.get("team-a", "release"), StoredGraph)
