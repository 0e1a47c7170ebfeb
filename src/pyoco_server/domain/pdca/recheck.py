"""A request for a recheck: what its execution holds, and how its strategies are divided into batches."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from pyoco_server.domain.execution.state import Execution, Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, ulid_of
from pyoco_server.errors import InvalidRequest

# The flow name of the execution that a request is; its nodes are the batches.
REQUEST_FLOW = "pdca.request"
# The flow that workers run for one batch, where no Airflow is configured.
BATCH_FLOW = "pdca.recheck"
# Who holds the nodes, whatever gateway drives them.
ENGINE_WORKER = "pdca-engine"
MAX_BATCHES = 2_000
# With two thousand nodes and as base64 it fits into one message of NATS's default size.
MAX_PACKED_BYTES = 512 * 1024
# What a running batch says while its engine does not answer; a time follows.
ENGINE_UNREACHABLE = "engine unreachable since "
# A label of a request that was ended while its engine did not answer: its batches may still run and are to be stopped.
STOPPING = "pdca:stopping"

Batches = Sequence[Sequence[StrategyId]]


class Recheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input of a request's execution; `nodeInputs` of its first event has the strategies of each batch."""

    kind: str  # recheck | recheck_all
    reason: str
    window: Mapping[str, Any]
    client_id: str
    batches: int
    strategies: int
    engine: str  # the name of the flow or DAG
    params: Mapping[str, Any] = {}
    filter: Mapping[str, Any] = {}
    trace_id: str | None = None
    traceparent: str | None = None  # of the HTTP request, whose trace the batches join
    tracestate: str | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a request, for an engine.

    Its run has the `X-Request-Id` of the request, `http_request_id`, and joins its trace (`traceparent`, `tracestate`).
    """

    request_id: RunId
    number: int
    strategies: tuple[StrategyId, ...]
    recheck: Recheck
    tenant_id: str | None = None
    correlation_id: str | None = None
    http_request_id: str | None = None
    trace: tuple[str, str | None] | None = None


def check_name(flow_name: str) -> None:
    """Refuse the name of requests for anything else: the drivers of all gateways would look at it again and again."""
    if flow_name == REQUEST_FLOW:
        raise InvalidRequest(f"{REQUEST_FLOW!r} is the name of the requests that /pdca makes: choose another one")


def batch_params(batch: Batch) -> dict[str, Any]:
    """What a flow or DAG gets for one batch."""
    recheck = batch.recheck
    return {
        "request_id": ulid_of(batch.request_id),
        "batch": batch.number,
        "strategies": list(batch.strategies),
        "window": dict(recheck.window),
        "reason": recheck.reason,
        "params": dict(recheck.params),
        "trace_id": recheck.trace_id,
        "client_id": recheck.client_id,
    }


def unreachable_since(execution: Execution) -> str | None:
    """Since when the engine of a request has not answered, as a time in UTC; None while it answers."""
    for node in execution.nodes.values():
        if node.status.is_held and node.message is not None and node.message.startswith(ENGINE_UNREACHABLE):
            return node.message.removeprefix(ENGINE_UNREACHABLE)
    return None


def is_stopping(execution: Execution) -> bool:
    """Whether batches of a canceled request may still run in its engine."""
    return execution.status is Status.CANCELED and STOPPING in execution.labels


def divide(strategies: Sequence[StrategyId], batch_size: int) -> list[tuple[StrategyId, ...]]:
    return [tuple(strategies[start : start + batch_size]) for start in range(0, len(strategies), batch_size)]


def pack(batches: Batches) -> bytes:
    """The strategies of all batches, for the first event of a request: 100,000 ids have to fit into one message."""
    return zlib.compress(orjson.dumps(batches), 6)


def unpack(packed: bytes) -> list[tuple[StrategyId, ...]]:
    return msgspec.convert(orjson.loads(zlib.decompress(packed)), list[tuple[StrategyId, ...]])


def child_run_id(request_id: RunId, number: int) -> RunId:
    """The id of the run of a batch: the same in every gateway, so that a repeated start creates nothing.

    A UUID of version 7 with the time of the request.
    """
    digest = sha256(f"{request_id}/{number}".encode()).hexdigest()
    time = request_id[:13]
    return RunId(f"{time}-7{digest[:3]}-{'89ab'[int(digest[3], 16) % 4]}{digest[4:7]}-{digest[7:19]}")
