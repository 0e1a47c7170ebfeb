"""Answers about strategies and rechecks. A newer gateway may send more fields than are listed here."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class StrategyListed(TypedDict):
    """A strategy with its newest result; one that was never checked is `unknown`."""

    id: str
    title: str
    instrument: str
    enabled: bool
    tags: list[str]
    last_health: str
    last_checked_at: str | None


class StrategyPage(TypedDict):
    """One page of a list; `total` counts all that match."""

    items: list[StrategyListed]
    page: int
    page_size: int
    total: int


class StrategyArtifact(TypedDict):
    """A file of a batch."""

    id: str
    name: str
    bytes: int
    sha256: str
    media_type: str


class StrategyResult(TypedDict):
    """The result of a strategy in one batch; `kpi` has `winrate`, `sharpe` and `max_dd` as far as computed."""

    request_id: str
    checked_at: str
    health: str
    kpi: dict[str, float]
    artifacts: list[StrategyArtifact]


class StrategyAverages(TypedDict):
    """Averages over the last days; an indicator without results is absent."""

    window_days: int
    kpi_avg: dict[str, float]


class StrategyDetails(TypedDict):
    """A strategy with its newest results and their files."""

    strategy: StrategyListed
    summary: StrategyAverages
    recent_results: list[StrategyResult]
    artifacts: list[StrategyArtifact]


class RecheckProgress(TypedDict):
    """How many batches and strategies there are, and how many of them have ended."""

    total_batches: int
    completed_batches: int
    total_strategies: int
    completed_strategies: int


class RecheckSummary(TypedDict):
    """The completed strategies: of batches that succeeded and failed, and by health."""

    success: int
    failed: int
    health: dict[str, int]


class RecheckRuns(TypedDict):
    """The flow or DAG that runs the batches, and its runs of those that were started."""

    name: str
    run_ids: list[str]


class Recheck(TypedDict):
    """A request for a recheck; `note` says why it does not go on at present."""

    request_id: str
    status: str
    submitted_at: str
    progress: RecheckProgress
    summary: RecheckSummary
    last_update: str
    artifacts: list[StrategyArtifact]
    artifacts_truncated: NotRequired[bool]
    dag: RecheckRuns
    note: NotRequired[str]
