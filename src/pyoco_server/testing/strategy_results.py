"""The results of strategies in memory: the reference for SQLite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.counting import KPIS, Counted, CountedRequest, Results
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.strategies import Health, StoredResult
from pyoco_server.domain.pdca.strategy_table import Latest


class MemoryStrategyResults:
    """See `ports.StrategyResults`; every query reads all results."""

    def __init__(self) -> None:
        self._stream: str | None = None
        self._requests: dict[RunId, CountedRequest] = {}
        self._results: dict[RunId, Results] = {}

    def stream(self) -> str | None:
        return self._stream

    def reset(self, stream: str) -> None:
        self._stream = stream
        self._requests.clear()
        self._results.clear()

    def load(self, run_id: RunId) -> CountedRequest | None:
        return self._requests.get(run_id)

    def versions(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        return {run_id: self._requests[run_id].version for run_id in run_ids if run_id in self._requests}

    def save(self, counted: Counted) -> Sequence[Latest]:
        request = counted.request
        known = self._requests.get(request.run_id)
        if known is not None and known.version >= request.version:
            return ()
        before = self._results.get(request.run_id, {})
        self._requests[request.run_id] = request
        self._results[request.run_id] = before | counted.changed
        changed = [*counted.changed.values(), *(before.get(node_id, ()) for node_id in counted.changed)]
        return self._newest(request.tenant_id, {result.strategy for results in changed for result in results})

    def remove(self, run_id: RunId) -> Sequence[Latest]:
        request, results = self._requests.pop(run_id, None), self._results.pop(run_id, {})
        if request is None:
            return ()
        return self._newest(request.tenant_id, {result.strategy for some in results.values() for result in some})

    def ended_before(self, at: float, limit: int) -> Sequence[RunId]:
        ended = [(each.ended_at, each.run_id) for each in self._requests.values() if each.ended_at is not None]
        return [run_id for ended_at, run_id in sorted(ended) if ended_at < at][:limit]

    def latest(self) -> Iterator[Latest]:
        tenants = {request.tenant_id for request in self._requests.values()}
        for tenant_id in tenants:
            yield from self._newest(tenant_id, {each.result.strategy for each in self._all(tenant_id)})

    def results(
        self,
        tenant_id: str | None,
        strategy_id: StrategyId,
        *,
        checked_from: float | None = None,
        checked_to: float | None = None,
        limit: int,
    ) -> Sequence[StoredResult]:
        found = [
            each
            for each in self._all(tenant_id)
            if each.result.strategy == strategy_id
            and (checked_from is None or each.checked_at >= checked_from)
            and (checked_to is None or each.checked_at <= checked_to)
        ]
        return sorted(found, key=lambda each: (each.checked_at, each.request_id, each.node_id), reverse=True)[:limit]

    def averages(self, tenant_id: str | None, strategy_id: StrategyId, *, checked_from: float) -> Mapping[str, float]:
        found = [
            each.result.kpi
            for each in self._all(tenant_id)
            if each.result.strategy == strategy_id and each.checked_at >= checked_from
        ]
        values = {name: [kpi[name] for kpi in found if name in kpi] for name in KPIS}
        averages = {name: sum(some) / len(some) for name, some in values.items() if some}
        return {name: average for name, average in averages.items() if math.isfinite(average)}

    def close(self) -> None:
        pass

    def _newest(self, tenant_id: str | None, strategies: Iterable[StrategyId]) -> list[Latest]:
        news = []
        for strategy in sorted(strategies):
            newest = self.results(tenant_id, strategy, limit=1)
            checked_at, health = (newest[0].checked_at, newest[0].result.health) if newest else (None, Health.UNKNOWN)
            news.append(Latest(tenant_id, strategy, checked_at, health))
        return news

    def _all(self, tenant_id: str | None) -> Iterator[StoredResult]:
        for request in self._requests.values():
            for node_id, results in self._results[request.run_id].items():
                batch = request.batches[NodeId(node_id)]
                for result in results:
                    if request.tenant_id == tenant_id and batch.ended_at is not None:
                        yield StoredResult(
                            request_id=request.run_id,
                            node_id=node_id,
                            checked_at=batch.ended_at,
                            result=result,
                            artifacts=batch.artifacts,
                        )
