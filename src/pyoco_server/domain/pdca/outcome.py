"""What a flow or DAG returns for a batch, read strictly: it is written by programs of other people.

    {"results": [{"strategy": "strat.trend.h1", "health": "healthy", "kpi": {"winrate": 0.55, "sharpe": 1.2}}],
     "reports": [{"name": "report.md", "media_type": "text/markdown", "text": "# …"}]}

Nothing here raises: an answer that is not of this form is an outcome with an error, which fails the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec
import orjson

from pyoco_server.domain.pdca.recheck import Batch
from pyoco_server.domain.pdca.strategies import Health, StrategyResult

MAX_RETURN_BYTES = 64 * 1024
MAX_REPORTS = 20
# The measures of a strategy.
KPIS = ("winrate", "sharpe", "max_dd")
# What a browser shows without running anything in it.
MEDIA_TYPES = ("text/markdown", "text/csv", "text/plain", "application/json")
MAX_ERROR_CHARS = 300

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a batch made."""

    name: str
    media_type: str
    data: bytes


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished batch reports. `error` is set when it failed."""

    results: tuple[StrategyResult, ...] = ()
    reports: tuple[Report, ...] = ()
    error: str | None = None


class _Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: str
    health: Health = Health.UNKNOWN
    kpi: Mapping[str, float | None] = {}


class _Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: _Name
    media_type: str
    text: str


class _Returned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    results: tuple[_Result, ...]
    reports: tuple[_Report, ...] = ()


def read_outcome(value: object, batch: Batch) -> BatchOutcome:
    """The outcome in a returned value (plain JSON). A strategy that it leaves out has health `unknown`."""
    try:
        if len(orjson.dumps(value)) > MAX_RETURN_BYTES:
            return _wrong(f"it is larger than {MAX_RETURN_BYTES} bytes")
        returned = msgspec.convert(value, _Returned)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        return _wrong(str(error))
    mistake = _mistake(returned, batch)
    if mistake is not None:
        return _wrong(mistake)
    found = {result.strategy: result for result in returned.results}
    return BatchOutcome(
        results=tuple(
            StrategyResult(strategy=strategy, health=result.health, kpi=_known(result.kpi))
            if (result := found.get(strategy)) is not None
            else StrategyResult(strategy=strategy)
            for strategy in batch.strategies
        ),
        reports=tuple(
            Report(name=report.name, media_type=report.media_type, data=report.text.encode())
            for report in returned.reports
        ),
    )


def read_outcome_json(data: bytes, batch: Batch) -> BatchOutcome:
    """The same for its text."""
    if len(data) > MAX_RETURN_BYTES:
        return _wrong(f"it is larger than {MAX_RETURN_BYTES} bytes")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _wrong(f"it is not JSON: {error}")
    return read_outcome(value, batch)


def _mistake(returned: _Returned, batch: Batch) -> str | None:
    expected, seen = set(batch.strategies), set()
    for result in returned.results:
        if result.strategy not in expected:
            return f"results: {result.strategy[:60]!r} is not a strategy of this batch"
        if result.strategy in seen:
            return f"results: {result.strategy!r} is there twice"
        seen.add(result.strategy)
        for name, value in result.kpi.items():
            if name not in KPIS:
                return f"kpi of {result.strategy!r}: {name[:60]!r} is none of {', '.join(KPIS)}"
            if value is not None and not math.isfinite(value):
                return f"kpi of {result.strategy!r}: {name} is not a finite number"
    if len(returned.reports) > MAX_REPORTS:
        return f"reports: there are more than {MAX_REPORTS}"
    for report in returned.reports:
        if report.media_type not in MEDIA_TYPES:
            return f"media_type of {report.name!r} is none of {', '.join(MEDIA_TYPES)}"
        if not _is_text(report.text):
            return f"text of {report.name!r} cannot be stored as UTF-8"
    return None


def _known(kpi: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in kpi.items() if value is not None}


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _wrong(problem: str) -> BatchOutcome:
    printable = "".join(character if character.isprintable() else "?" for character in problem[:MAX_ERROR_CHARS])
    return BatchOutcome(error=f"the batch returned what the server cannot read: {printable}")
