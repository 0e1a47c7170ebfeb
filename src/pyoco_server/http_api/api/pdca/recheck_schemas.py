"""Bodies of rechecks and their answers."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError

from pyoco_server.domain.pdca.ids import MAX_STRATEGY_ID_CHARS, StrategyId, is_strategy_id
from pyoco_server.domain.pdca.recheck import Recheck
from pyoco_server.domain.pdca.strategies import Health, StrategyFilter
from pyoco_server.http_api.protocol.fields import Open, Strict
from pyoco_server.http_api.protocol.times import rfc3339, seconds_of
from pyoco_server.services.pdca.requests import Asked

MAX_DAYS = 180
MAX_NAMED = 50
# Of a request that names its strategies; one for all chooses its own.
NAMED_BATCH_SIZE = 25
DAY_SEC = 86_400.0
REQUEST_ID = "01KADZ2F8M6N3Q5R7S9T1V3W5X"
ARTIFACT_ID = f"{REQUEST_ID}-0001-1"

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _time(given: Any) -> float:
    if not isinstance(given, str) or not _RFC3339.fullmatch(given):
        raise PydanticCustomError("rfc3339", "a time is RFC 3339 with an offset: 2025-08-24T03:34:56Z")
    try:
        return seconds_of(given)
    except ValueError as error:
        raise PydanticCustomError("rfc3339", "there is no such time") from error


def _strategy(text: str) -> str:
    if not is_strategy_id(text):
        raise PydanticCustomError(
            "strategy", "a strategy id is 1 to {most} of the characters a-z 0-9 . _ -", {"most": MAX_STRATEGY_ID_CHARS}
        )
    return text


def _printable(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise PydanticCustomError("printable", "it must be printable text, and not only spaces")
    return text


def _distinct(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        twice = next(value for place, value in enumerate(values) if value in values[:place])
        raise PydanticCustomError("twice", "{value} is there twice", {"value": twice})
    return values


Time = Annotated[
    float,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2025-08-24T03:34:56Z"]}),
]
Id = Annotated[
    str,
    Field(pattern=r"^[a-z0-9._-]+$", min_length=1, max_length=MAX_STRATEGY_ID_CHARS, examples=["strat.meanrev.m1"]),
    AfterValidator(_strategy),
]
Word = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_printable)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=64, description="Why: shown with the request.", examples=["manual"]),
    AfterValidator(_printable),
]
TraceId = Annotated[
    str,
    Field(min_length=1, max_length=128, description="Ties log lines together; not part of what is compared."),
    AfterValidator(_printable),
]
DryRun = Annotated[bool, Field(strict=True, description="Only estimate: nothing is stored or started.")]
Words = Annotated[list[Word], Field(max_length=MAX_NAMED), AfterValidator(_distinct)]
HealthName = Literal["healthy", "degraded", "unknown"]


class Window(Strict):
    """The time that is checked: `from` and `to`, or the last days."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["from", "to"]}, {"required": ["lookback_days"]}]}
    )

    begin: Time | None = Field(default=None, alias="from")
    to: Time | None = Field(default=None, description=f"Not before `from`, and at most {MAX_DAYS} days behind it.")
    lookback_days: int | None = Field(default=None, ge=1, le=MAX_DAYS, strict=True, examples=[14])

    @model_validator(mode="after")
    def _is_one_window(self) -> Self:
        given = (self.begin is not None, self.to is not None, self.lookback_days is not None)
        if given not in ((True, True, False), (False, False, True)):
            raise PydanticCustomError("window", "give from and to, or lookback_days")
        if self.begin is not None and self.to is not None:
            if self.begin > self.to:
                raise PydanticCustomError("window", "from is after to")
            if self.to - self.begin > MAX_DAYS * DAY_SEC:
                raise PydanticCustomError("window", "it is longer than {days} days", {"days": MAX_DAYS})
        return self

    def plain(self) -> dict[str, Any]:
        if self.begin is None or self.to is None:
            return {"lookback_days": self.lookback_days}
        return {"from": rfc3339(self.begin), "to": rfc3339(self.to)}


class RecheckParams(Strict):
    recalc_metrics: Annotated[
        list[Literal["winrate", "sharpe", "max_dd"]],
        Field(max_length=3, description="Which measures to compute again; none: all.", examples=[["sharpe"]]),
        AfterValidator(_distinct),
    ] = Field(default=[])
    retrain: bool = Field(default=False, strict=True)

    def plain(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True)


class RecheckRequest(Strict):
    """Strategies by name."""

    strategies: Annotated[list[Id], Field(min_length=1, max_length=MAX_NAMED), AfterValidator(_distinct)]
    window: Window
    reason: Reason
    dry_run: DryRun = False
    params: RecheckParams = RecheckParams()
    trace_id: TraceId | None = None

    def of(self, client_id: str) -> Asked:
        recheck = Recheck(
            kind="recheck",
            reason=self.reason,
            window=self.window.plain(),
            client_id=client_id,
            batches=0,
            strategies=0,
            engine="",
            params=self.params.plain(),
            trace_id=self.trace_id,
        )
        strategies = tuple(StrategyId(one) for one in self.strategies)
        return Asked(recheck=recheck, batch_size=NAMED_BATCH_SIZE, strategies=strategies, dry_run=self.dry_run)


class RecheckFilter(Strict):
    """Each part admits any of its values; a missing or empty one admits all."""

    tags_any: Words = Field(default=[])
    health: Annotated[list[HealthName], Field(max_length=3), AfterValidator(_distinct)] = Field(default=[])
    instrument_any: Words = Field(default=[])

    def plain(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


class RecheckAllRequest(Strict):
    """All enabled strategies that the filter admits."""

    filter: RecheckFilter = RecheckFilter()
    batch_size: int = Field(default=25, ge=10, le=100, strict=True)
    window: Window
    reason: Reason
    dry_run: DryRun = False
    trace_id: TraceId | None = None

    def of(self, client_id: str) -> Asked:
        recheck = Recheck(
            kind="recheck_all",
            reason=self.reason,
            window=self.window.plain(),
            client_id=client_id,
            batches=0,
            strategies=0,
            engine="",
            filter=self.filter.plain(),
            trace_id=self.trace_id,
        )
        chosen = StrategyFilter(
            tags_any=tuple(self.filter.tags_any),
            health=tuple(Health(name) for name in self.filter.health),
            instrument_any=tuple(self.filter.instrument_any),
        )
        return Asked(recheck=recheck, batch_size=self.batch_size, filter=chosen, dry_run=self.dry_run)


class Estimate(Open):
    strategies: int = Field(ge=0, examples=[1])
    batches: int = Field(ge=0, examples=[1])


class FirstRun(Open):
    """The flow or DAG that runs the batches, and its run of the first batch."""

    name: str = Field(examples=["pdca.recheck"])
    run_id: str | None = Field(description="null: there is none, because of a dry run or no strategies.")


class RecheckAccepted(Open):
    """The request is stored; a dry run is not."""

    status: Literal["accepted"]
    request_id: str = Field(description="A ULID.", examples=[REQUEST_ID])
    estimated: Estimate
    dag: FirstRun


class Progress(Open):
    """A batch is completed when it has ended, with success or not; its strategies with it."""

    total_batches: int
    completed_batches: int
    total_strategies: int
    completed_strategies: int


class HealthCounts(Open):
    healthy: int
    degraded: int
    unknown: int


class Summary(Open):
    """Of the completed strategies: those of batches that succeeded and failed, and their health."""

    success: int
    failed: int
    health: HealthCounts


class ArtifactOut(Open):
    """A file of a batch; `GET /gui/artifacts/{id}/url` leads to it."""

    id: str = Field(examples=[ARTIFACT_ID])
    name: str = Field(examples=["report.md"])
    bytes: int
    sha256: str
    media_type: str = Field(examples=["text/markdown"])


class Runs(Open):
    name: str = Field(examples=["pdca.recheck"])
    run_ids: list[str] = Field(description="Those of the batches that were started, in their order.")


class RecheckStatus(Open):
    """A request and its progress, from one state of its events."""

    request_id: str = Field(examples=[REQUEST_ID])
    status: Literal["running", "success", "failed"] = Field(description="A cancelled request has failed.")
    submitted_at: str = Field(examples=["2025-08-24T03:34:56.000Z"])
    progress: Progress
    summary: Summary
    last_update: str = Field(examples=["2025-08-24T03:35:12.000Z"])
    artifacts: list[ArtifactOut]
    artifacts_truncated: bool | None = Field(
        default=None, description="true: there are more than 2,000; `GET /gui/strategies/{id}` has those of a strategy."
    )
    dag: Runs
    note: str | None = Field(
        default=None,
        description="Why it does not go on at present, or that batches of a canceled request are still to be stopped.",
        examples=["engine unreachable since 2025-08-24T03:35:00Z"],
    )


class ArtifactUrl(Open):
    """A link that needs no credentials, relative to the address of the gateway."""

    url: str = Field(examples=[f"/gui/artifacts/{ARTIFACT_ID}?expires=1756006796&key=5f3a9c1e&signature=…"])
    expires_at: str = Field(examples=["2025-08-24T03:39:56.000Z"])
