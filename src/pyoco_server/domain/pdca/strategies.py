"""Strategies as they are registered, how they are chosen, and what is known of their health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.ids import StrategyId, parse_strategy_id
from pyoco_server.errors import InvalidRequest

MAX_TITLE_CHARS = 200
MAX_INSTRUMENT_CHARS = 64
MAX_TAGS = 32
MAX_TAG_CHARS = 64


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


def new_strategy(
    *, strategy_id: str, title: str, instrument: str, enabled: bool = True, tags: Sequence[str] = ()
) -> Strategy:
    """A strategy within its limits, or `InvalidRequest`. Filters join instruments and tags by commas."""
    if not _is_text(title, MAX_TITLE_CHARS):
        raise InvalidRequest(f"title: 1 to {MAX_TITLE_CHARS} printable characters are accepted")
    if not _is_word(instrument, MAX_INSTRUMENT_CHARS):
        raise InvalidRequest(
            f"instrument: 1 to {MAX_INSTRUMENT_CHARS} printable characters without commas are accepted"
        )
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags: at most {MAX_TAGS} are accepted")
    if not all(_is_word(tag, MAX_TAG_CHARS) for tag in tags):
        raise InvalidRequest(f"tags: each has 1 to {MAX_TAG_CHARS} printable characters without commas")
    return Strategy(
        id=parse_strategy_id(strategy_id),
        title=title,
        instrument=instrument,
        enabled=enabled,
        tags=tuple(dict.fromkeys(tags)),
    )


def _is_text(text: str, most: int) -> bool:
    return len(text) <= most and text.isprintable() and text == text.strip() != ""


def _is_word(text: str, most: int) -> bool:
    return _is_text(text, most) and "," not in text


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
    """The output of a batch's node; None when it is not of this form (a log may have anything)."""
    try:
        return msgspec.convert(output, BatchOutput)
    except msgspec.ValidationError:
        return None


def output_to_plain(output: BatchOutput) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(output)
    return plain
