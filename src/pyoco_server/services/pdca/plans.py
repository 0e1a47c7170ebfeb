"""The plans of requests: which strategies each batch has, read from the first event of the request."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from dataclasses import dataclass

import msgspec
import orjson

from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.recheck import Batch, Recheck, unpack
from pyoco_server.services.executions.rerun import created_in
from pyoco_server.services.executions.submit import first_commit
from pyoco_server.stores import EventLog

# Strategies of all plans in memory; a plan of 100,000 takes about 10 MB.
MAX_KEPT = 300_000


class UnreadablePlan(ValueError):
    """The execution has inputs of nodes, but they or its own input are not those of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one request is to do."""

    recheck: Recheck
    batches: list[tuple[StrategyId, ...]]
    tenant_id: str | None
    correlation_id: str | None
    http_request_id: str | None
    trace: tuple[str, str | None] | None
    request_id: RunId

    def batch(self, number: int) -> Batch:
        return Batch(
            request_id=self.request_id,
            number=number,
            strategies=self.batches[number - 1],
            recheck=self.recheck,
            tenant_id=self.tenant_id,
            correlation_id=self.correlation_id,
            http_request_id=self.http_request_id,
            trace=self.trace,
        )


class PlanCache:
    """The plans that were used last."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._plans: OrderedDict[RunId, Plan] = OrderedDict()
        self._kept = 0

    async def get(self, execution: Execution) -> Plan | None:
        """The plan of this execution; None for one that is no request. Raises `UnreadablePlan`."""
        run_id = execution.execution_id
        plan = self._plans.get(run_id) or await self._read(execution)
        if plan is None:
            return None
        if run_id not in self._plans:
            self._kept += sum(map(len, plan.batches))
            self._plans[run_id] = plan
        self._plans.move_to_end(run_id)
        while self._kept > MAX_KEPT and len(self._plans) > 1:
            self.forget(next(iter(self._plans)))
        return plan

    def forget(self, run_id: RunId) -> None:
        plan = self._plans.pop(run_id, None)
        if plan is not None:
            self._kept -= sum(map(len, plan.batches))

    async def _read(self, execution: Execution) -> Plan | None:
        first = await first_commit(self._events, execution.execution_id)
        created = None if first is None else created_in(first.commit)
        if first is None or created is None or created.node_inputs is None:
            return None
        try:
            recheck = msgspec.convert(execution.request.input, Recheck)
            batches = unpack(created.node_inputs)
        except (msgspec.ValidationError, orjson.JSONDecodeError, zlib.error) as error:
            raise UnreadablePlan(str(error)) from error
        if [*execution.nodes] != [node_of(number) for number in range(1, len(batches) + 1)]:
            raise UnreadablePlan(f"it has {len(execution.nodes)} nodes and {len(batches)} batches")
        # A request that is made again has the input of the first, and is not in its trace.
        is_again = execution.request.rerun_of is not None
        return Plan(
            recheck=recheck,
            batches=batches,
            tenant_id=execution.request.tenant_id,
            correlation_id=first.commit.correlation_id,
            http_request_id=first.commit.request_id,
            trace=None if is_again or recheck.traceparent is None else (recheck.traceparent, recheck.tracestate),
            request_id=execution.execution_id,
        )
