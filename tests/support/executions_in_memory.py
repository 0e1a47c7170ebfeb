"""Executions in memory whose nodes are claimed one by one: a cache, a manually filled index, small graphs."""

from __future__ import annotations

from pyoco_server.domain.execution.commands import CreateExecution, StartExecution
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import Request, Work
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.service import ExecutionService
from support.world import World

A, B, ASK = NodeId("a"), NodeId("b"), NodeId("ask")
FORK = Graph(nodes=(GraphNode(node_id=A), GraphNode(node_id=B)), edges=())
ASKING = Graph(nodes=(GraphNode(node_id=ASK, wait_key="k", prompt={"text": "ok?"}, timeout_sec=60.0),), edges=())


async def begun(world: World, graph: Graph | None = FORK, name: str = "g") -> RunId:
    """An execution of this graph, created and started."""
    run_id = world.truth.ids.run_id()
    request = Request(flow_name=name, work=Work.NODES)
    await world.handle(run_id, CreateExecution(at=world.now(), request=request, graph=graph))
    await world.handle(run_id, StartExecution(at=world.now(), from_outside=True))
    return run_id


def executions_of(world: World, *flows: AnnouncedFlow, cache: ExecutionCache | None = None) -> ExecutionService:
    """The use cases, in a fleet that announces these flows."""

    async def find_flow(name: str) -> AnnouncedFlow | None:
        return next((flow for flow in flows if flow.name == name), None)

    return ExecutionService(
        stores=world.stores,
        cache=cache or ExecutionCache(world.stores),
        config=world.config,
        find_flow=find_flow,
        queued=world.maintenance.queued,
    )
