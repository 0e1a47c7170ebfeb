"""Stands in for the registry of strategies until it is merged: every strategy is known and enabled."""

from __future__ import annotations

from collections.abc import Sequence

from pyoco_server.domain.execution.state import NodeStatus
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, number_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, unpack
from pyoco_server.domain.pdca.strategies import Artifact, Health, RequestProgress, StrategyFilter, read_output
from pyoco_server.errors import InvalidRequest, StrategyNotFound
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.service import read_whole
from pyoco_server.services.executions.submit import first_commit


class InterimStrategies:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.ids: dict[str | None, list[StrategyId]] = {}

    async def select(self, tenant_id: str | None, chosen: StrategyFilter) -> Sequence[StrategyId]:
        return [] if chosen.tags_any == ("nothing",) else [StrategyId(f"s.{place:06}") for place in range(60)]

    async def check(self, tenant_id: str | None, ids: Sequence[StrategyId]) -> None:
        for one in ids:
            if one.startswith("missing"):
                raise StrategyNotFound(f"there is no strategy {one}")
            if one.startswith("disabled"):
                raise InvalidRequest(f"the strategy {one} is disabled")

    async def progress(self, run_id: RunId, *, version: int) -> RequestProgress | None:
        first = await first_commit(self._stores.events, run_id)
        execution = await read_whole(self._stores, run_id)
        if first is None or execution.request.flow_name != REQUEST_FLOW:
            return None
        plan = unpack(first.commit.events[0].node_inputs or b"")  # type: ignore[union-attr]
        health = dict.fromkeys(Health, 0)
        success = failed = batches = 0
        artifacts: list[Artifact] = []
        for node in execution.nodes.values():
            if not node.status.is_terminal:
                continue
            size, batches = len(plan[number_of(node.node_id) - 1]), batches + 1
            output = read_output(node.output) if node.status is NodeStatus.SUCCEEDED else None
            if output is None:
                failed += size
                health[Health.UNKNOWN] += size
                continue
            success += size
            artifacts += output.artifacts
            for result in output.results:
                health[result.health] += 1
        return RequestProgress(
            version=execution.version,
            total_batches=len(plan),
            completed_batches=batches,
            total_strategies=sum(map(len, plan)),
            completed_strategies=success + failed,
            success=success,
            failed=failed,
            health=health,
            artifacts=tuple(artifacts),
            last_update=execution.updated_at,
        )
