"""Strategies and their results as `/pdca` and `/gui` take and show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from pyoco_server.domain.pdca.ids import ulid_of
from pyoco_server.domain.pdca.listing import ListedStrategy, SortBy, StrategyPage, StrategyQuery
from pyoco_server.domain.pdca.strategies import (
    MAX_INSTRUMENT_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TITLE_CHARS,
    Artifact,
    Health,
    StoredResult,
    Strategy,
)
from pyoco_server.http_api.api.pdca.recheck_schemas import ARTIFACT_ID, REQUEST_ID, ArtifactOut, Id
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.paging import (
    MAX_CSV_CHARS,
    PageQuery,
    check_csv,
    csv_among,
    csv_of,
    sort_by,
    sort_of,
)
from pyoco_server.http_api.protocol.times import QueryTime, rfc3339

MAX_DAYS = 366
MAX_RESULTS = 200
STRATEGY_ID = "strat.meanrev.m1"
STRATEGY_EXAMPLE: dict[str, Any] = {
    "id": STRATEGY_ID,
    "title": "Mean reversion, one minute",
    "instrument": "USDJPY",
    "enabled": True,
    "tags": ["daily"],
}
LISTED_EXAMPLE = STRATEGY_EXAMPLE | {"last_health": "healthy", "last_checked_at": "2025-08-24T03:35:12.000Z"}
LIST_EXAMPLE = {"items": [LISTED_EXAMPLE], "page": 1, "page_size": 50, "total": 1}
RESULT_EXAMPLE = {
    "request_id": REQUEST_ID,
    "checked_at": "2025-08-24T03:35:12.000Z",
    "health": "healthy",
    "kpi": {"winrate": 0.55, "sharpe": 1.2, "max_dd": -0.08},
    "artifacts": [
        {
            "id": ARTIFACT_ID,
            "name": "report.md",
            "bytes": 412,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "media_type": "text/markdown",
        }
    ],
}
RESULTS_EXAMPLE = {"items": [RESULT_EXAMPLE]}
DETAIL_EXAMPLE = {
    "strategy": LISTED_EXAMPLE,
    "summary": {"window_days": 30, "kpi_avg": RESULT_EXAMPLE["kpi"]},
    "recent_results": [RESULT_EXAMPLE],
    "artifacts": RESULT_EXAMPLE["artifacts"],
}

HealthOut = Literal["healthy", "degraded", "unknown"]
Csv = Annotated[str, Field(max_length=MAX_CSV_CHARS), AfterValidator(check_csv)]


class StrategyPut(Strict):
    """A strategy. Its id may be repeated here."""

    id: Id | None = None
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS, examples=[STRATEGY_EXAMPLE["title"]])]
    instrument: Annotated[str, Field(min_length=1, max_length=MAX_INSTRUMENT_CHARS, examples=["USDJPY"])]
    enabled: bool = Field(default=True, strict=True, description="Disabled strategies are not rechecked.")
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS)]], Field(max_length=MAX_TAGS)] = (
        Field(default=[], examples=[["daily"]])
    )


class StrategyOut(Open):
    """A registered strategy."""

    id: str = Field(examples=[STRATEGY_ID])
    title: str
    instrument: str
    enabled: bool
    tags: list[str]


class StrategyListed(StrategyOut):
    """A registered strategy with its newest result; one that was never checked is `unknown`."""

    last_health: HealthOut
    last_checked_at: str | None = Field(examples=["2025-08-24T03:35:12.000Z"])


class StrategyList(Open):
    """One page; `total` counts all that match."""

    items: list[StrategyListed]
    page: int
    page_size: int
    total: int


class Kpis(Open):
    """Indicators, as far as they were computed."""

    winrate: float | None = None
    sharpe: float | None = None
    max_dd: float | None = None


class ResultOut(Open):
    """The result of a strategy in one batch, with the files of the batch."""

    request_id: str = Field(examples=[REQUEST_ID])
    checked_at: str
    health: HealthOut
    kpi: Kpis
    artifacts: list[ArtifactOut]


class ResultList(Open):
    """Results, newest first."""

    items: list[ResultOut]


class StrategySummary(Open):
    """Averages over the last days; an indicator without results is absent."""

    window_days: int
    kpi_avg: Kpis


class StrategyDetail(Open):
    """A strategy with its newest results and their files."""

    strategy: StrategyListed
    summary: StrategySummary
    recent_results: list[ResultOut]
    artifacts: list[ArtifactOut]


class StrategiesQuery(PageQuery):
    """Filters, all of which apply; one with several values admits any of them."""

    q: str = Field(default="", max_length=64, description="A part of the id or the title, in any case; no wildcards.")
    tags_any: Csv = Field(default="", description="Tags joined by commas.", examples=["daily,priority"])
    health: Annotated[str, Field(max_length=MAX_CSV_CHARS), AfterValidator(csv_among(Health))] = Field(
        default="", description="`healthy`, `degraded`, `unknown`, joined by commas.", examples=["healthy,degraded"]
    )
    instrument: Csv = Field(default="", description="Instruments joined by commas.", examples=["USDJPY"])
    enabled: Literal["all", "on", "off"] = "all"
    sort: Annotated[str, AfterValidator(sort_by(SortBy))] = Field(
        default="last_checked_at.desc",
        description="`last_checked_at`, `id`, `instrument` or `health`, and `.asc` or `.desc`.",
        examples=["last_checked_at.desc"],
    )

    def of(self) -> StrategyQuery:
        field, descending = sort_of(SortBy, self.sort)
        return StrategyQuery(
            text=self.q,
            tags_any=csv_of(self.tags_any),
            health=tuple(Health(name) for name in csv_of(self.health)),
            instruments=csv_of(self.instrument),
            enabled={"all": None, "on": True, "off": False}[self.enabled],
            sort_by=field,
            descending=descending,
            offset=self.offset,
            limit=self.page_size,
        )


class DetailQuery(Strict):
    summary_window_days: int = Field(default=30, ge=1, le=MAX_DAYS, description="The days of the averages.")
    limit_history: int = Field(default=50, ge=1, le=MAX_RESULTS, description="How many of the newest results.")


class ResultsQuery(Strict):
    """Results between two times, both included."""

    checked_from: QueryTime | None = Field(default=None, alias="from", description="Checked at this time or later.")
    checked_to: QueryTime | None = Field(default=None, alias="to", description="Checked at this time or earlier.")
    limit: int = Field(default=MAX_RESULTS, ge=1, le=MAX_RESULTS)

    @model_validator(mode="after")
    def _is_in_order(self) -> ResultsQuery:
        if self.checked_from is not None and self.checked_to is not None and self.checked_from > self.checked_to:
            raise PydanticCustomError("range", "from is after to")
        return self


def strategy_out(strategy: Strategy) -> dict[str, Any]:
    return {
        "id": strategy.id,
        "title": strategy.title,
        "instrument": strategy.instrument,
        "enabled": strategy.enabled,
        "tags": strategy.tags,
    }


def listed_out(listed: ListedStrategy) -> dict[str, Any]:
    return strategy_out(listed.strategy) | {
        "last_health": listed.last_health.value,
        "last_checked_at": None if listed.last_checked_at is None else rfc3339(listed.last_checked_at),
    }


def page_out(query: PageQuery, page: StrategyPage) -> Mapping[str, Any]:
    return query.page_of([listed_out(each) for each in page.items], page.total)


def results_out(results: Sequence[StoredResult]) -> list[dict[str, Any]]:
    return [
        {
            "request_id": ulid_of(each.request_id),
            "checked_at": rfc3339(each.checked_at),
            "health": each.result.health.value,
            "kpi": each.result.kpi,
            "artifacts": _artifacts_out(each.artifacts),
        }
        for each in results
    ]


def detail_out(
    listed: ListedStrategy, results: Sequence[StoredResult], averages: Mapping[str, float], days: int
) -> dict[str, Any]:
    files = {artifact.id: artifact for each in results for artifact in each.artifacts}
    return {
        "strategy": listed_out(listed),
        "summary": {"window_days": days, "kpi_avg": averages},
        "recent_results": results_out(results),
        "artifacts": _artifacts_out(tuple(files.values())),
    }


def _artifacts_out(artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(artifact) for artifact in artifacts]
