"""Strategies as they are registered, how they are chosen, and what is known of their health."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.ids import StrategyId


class Health(Enum):
    """The health of a strategy; one that was never checked is `unknown`."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """A registered strategy. The registry's bucket holds exactly these fields, under tenant and id."""

    id: StrategyId
    title: str
    instrument: str
    enabled: bool = True
    tags: tuple[str, ...] = ()


class StrategyFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which strategies a recheck of all is for; an empty part admits all. Disabled ones are never chosen."""

    tags_any: tuple[str, ...] = ()
    health: tuple[Health, ...] = ()
    instrument_any: tuple[str, ...] = ()


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a batch left in the object store."""

    id: str
    name: str
    bytes: int
    sha256: str
    media_type: str


class StrategyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one strategy in one batch. `kpi` has winrate, sharpe and max_dd, as far as they were computed."""

    strategy: StrategyId
    health: Health = Health.UNKNOWN
    kpi: Mapping[str, float] = {}


class BatchOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a batch's node: this is its stored form. `run` is the engine's name of the batch."""

    results: tuple[StrategyResult, ...]
    artifacts: tuple[Artifact, ...] = ()
    run: str = ""


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result as the projection has it."""

    request_id: RunId
    node_id: NodeId
    checked_at: float
    result: StrategyResult
    artifacts: tuple[Artifact, ...] = ()


class RequestProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a request is, from one consistent state of the projection: its numbers add up.

    `version` is that of the request's last commit that was counted. `success` and `failed` count strategies.
    """

    version: int
    total_batches: int
    completed_batches: int
    total_strategies: int
    completed_strategies: int
    success: int
    failed: int
    health: Mapping[Health, int]
    artifacts: tuple[Artifact, ...]
    last_update: float


def read_output(output: Any) -> BatchOutput | None:
    """The output of a batch's node; None when it is not of this form (an external claimer may send anything)."""
    try:
        return msgspec.convert(output, BatchOutput)
    except msgspec.ValidationError:
        return None


def output_to_plain(output: BatchOutput) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(output)
    return plain
