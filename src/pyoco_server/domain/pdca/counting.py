"""Counts the events of requests: which batches have ended, with which results. Pure, as replayable as the log.

    EXECUTION_CREATED ─▶ all batches open ─▶ NODE_SUCCEEDED ─▶ succeeded: strategies without a result count as failed
                              ▲     │
                              │     ├──────▶ NODE_FAILED, NODE_CANCELED ─▶ failed
          NODE_STARTED with a higher attempt └─▶ the end of the execution ─▶ failed, if still open

So the numbers of a request add up at any moment, and at its end nothing is open. Attempts and ends have the order that
they have in `evolve`.
"""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.domain.execution.events import (
    Event,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    NodeCanceled,
    NodeFailed,
    NodeStarted,
    NodeSucceeded,
    StoredCommit,
)
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, unpack
from pyoco_server.domain.pdca.strategies import Artifact, Health, RequestProgress, StrategyResult, read_output

logger = logging.getLogger(__name__)

# The indicators that are kept; a log may have any.
KPIS = ("winrate", "sharpe", "max_dd")


class BatchStatus(Enum):
    """How a batch has ended, if it has."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    __hash__ = object.__hash__


class CountedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch as it is counted. `health` counts its results, in the order of `Health`."""

    strategies: tuple[StrategyId, ...]
    status: BatchStatus = BatchStatus.OPEN
    attempt: int = 0
    ended_at: float | None = None
    health: tuple[int, ...] = (0,) * len(Health)
    artifacts: tuple[Artifact, ...] = ()

    @property
    def success(self) -> int:
        return sum(self.health)


class CountedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, its batches by node, and what has been counted: the commits up to `version`."""

    run_id: RunId
    tenant_id: str | None
    version: int
    last_update: float
    is_canceling: bool = False
    ended_at: float | None = None
    batches: Mapping[NodeId, CountedBatch]


Results = dict[NodeId, tuple[StrategyResult, ...]]
"""The results of batches; a batch that is open or failed has none."""


class Counted(NamedTuple):
    """A request after more commits, and the results of every batch that changed."""

    request: CountedRequest
    changed: Results


def count(commits: Iterable[StoredCommit], request: CountedRequest | None, run_id: RunId) -> Counted | None:
    """The request after more commits of its log; None for an execution that is no request of the PDCA API.

    A commit that was counted before changes nothing.
    """
    changed: Results = {}
    for stored in commits:
        if request is not None and stored.sequence <= request.version:
            continue
        for event in stored.commit.events:
            if request is not None:
                request = _after(request, event, changed)
            elif isinstance(event, ExecutionCreated):
                request = _created(event, run_id)
                changed = {} if request is None else dict.fromkeys(request.batches, ())
        if request is None:
            return None  # its first commit creates an execution
        request = replace(request, version=stored.sequence)
    return None if request is None else Counted(request, changed)


def progress_of(request: CountedRequest) -> RequestProgress:
    """How far the request is. The health of a strategy without a result is unknown."""
    batches = request.batches.values()
    ended = [batch for batch in batches if batch.status is not BatchStatus.OPEN]
    completed = sum(len(batch.strategies) for batch in ended)
    success = sum(batch.success for batch in ended)
    health = {health: sum(batch.health[place] for batch in ended) for place, health in enumerate(Health)}
    health[Health.UNKNOWN] += completed - success
    return RequestProgress(
        version=request.version,
        total_batches=len(request.batches),
        completed_batches=len(ended),
        total_strategies=sum(len(batch.strategies) for batch in batches),
        completed_strategies=completed,
        success=success,
        failed=completed - success,
        health=health,
        artifacts=tuple(artifact for batch in ended for artifact in batch.artifacts),
        last_update=request.last_update,
    )


def _created(event: ExecutionCreated, run_id: RunId) -> CountedRequest | None:
    if event.request.flow_name != REQUEST_FLOW or event.node_inputs is None:
        return None  # anybody may submit a run of this name
    try:
        batches = unpack(event.node_inputs)
    except (zlib.error, ValueError):
        logger.warning("unreadable batches of a request", extra={"run_id": run_id})
        return None
    return CountedRequest(
        run_id=run_id,
        tenant_id=event.request.tenant_id,
        version=0,
        last_update=event.at,
        batches={node_of(place): CountedBatch(strategies=batch) for place, batch in enumerate(batches, start=1)},
    )


def _after(request: CountedRequest, event: Event, changed: Results) -> CountedRequest:
    if request.ended_at is not None:
        return request
    request = replace(request, last_update=max(request.last_update, event.at))
    match event:
        case ExecutionCancelRequested():
            return replace(request, is_canceling=True)
        case ExecutionCanceled():
            return _ended(request, event.at, changed)
        case ExecutionCompleted() | ExecutionFailed():
            return request if request.is_canceling else _ended(request, event.at, changed)
        case NodeCanceled():
            pass
        case NodeStarted() | NodeSucceeded() | NodeFailed() if not request.is_canceling:
            pass
        case _:
            return request
    before = request.batches.get(event.node_id)
    found = None if before is None else _batch_after(before, event)
    if found is None:
        return request
    batch, changed[event.node_id] = found
    return replace(request, batches={**request.batches, event.node_id: batch})


def _ended(request: CountedRequest, at: float, changed: Results) -> CountedRequest:
    """The request at its end: nothing is open any more."""
    batches = dict(request.batches)
    for node_id, batch in batches.items():
        if batch.status is BatchStatus.OPEN:
            batches[node_id] = replace(batch, status=BatchStatus.FAILED, ended_at=at)
            changed[node_id] = ()
    return replace(request, ended_at=at, batches=batches)


def _batch_after(
    batch: CountedBatch, event: NodeStarted | NodeSucceeded | NodeFailed | NodeCanceled
) -> tuple[CountedBatch, tuple[StrategyResult, ...]] | None:
    """The batch after the event, with its results; None when the event changes nothing."""
    if isinstance(event, NodeCanceled):
        if batch.status is not BatchStatus.OPEN:
            return None
        return replace(batch, status=BatchStatus.FAILED, ended_at=event.at), ()
    if event.attempt > batch.attempt:
        batch = CountedBatch(strategies=batch.strategies, attempt=event.attempt)
    elif event.attempt < batch.attempt or isinstance(event, NodeStarted):
        return None
    match event:
        case NodeStarted():
            return batch, ()
        case NodeFailed():
            if batch.status is BatchStatus.FAILED:
                return None
            return CountedBatch(
                strategies=batch.strategies, status=BatchStatus.FAILED, attempt=batch.attempt, ended_at=event.at
            ), ()
        case NodeSucceeded():
            return None if batch.status is not BatchStatus.OPEN else _succeeded(batch, event)


def _succeeded(batch: CountedBatch, event: NodeSucceeded) -> tuple[CountedBatch, tuple[StrategyResult, ...]]:
    """A log may have any output: only results of strategies of the batch count, one each."""
    output = read_output(event.output)
    wanted = set(batch.strategies)
    given = {} if output is None else {each.strategy: each for each in output.results if each.strategy in wanted}
    results = tuple(replace(each, kpi=_kept(each.kpi)) for each in given.values())
    return replace(
        batch,
        status=BatchStatus.SUCCEEDED,
        ended_at=event.at,
        health=tuple(sum(each.health is health for each in results) for health in Health),
        artifacts=() if output is None else output.artifacts,
    ), results


def _kept(kpi: Mapping[str, float]) -> dict[str, float]:
    return {name: float(kpi[name]) for name in KPIS if name in kpi and math.isfinite(kpi[name])}
