"""Win rate, Sharpe ratio and maximum drawdown of a strategy from a CSV file of dated returns; standard library only.

The file `<strategy id>.csv` has the columns `date` (2026-01-31, or a time of RFC 3339) and `return` (0.01 is 1 %).

    winrate   share of the returns above 0
    sharpe    mean / standard deviation (of a sample) * sqrt(252): annualised for trading days, no risk-free rate
    max_dd    largest fall of the compounded returns below their highest value so far, from 0 to 1

The flow of `pdca_recheck.py` and the DAG of `airflow/` use it.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import stat
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

METRICS = ("winrate", "sharpe", "max_dd")
TRADING_DAYS = 252
# Fewer returns say nothing about a strategy.
MIN_RETURNS = 5
# A strategy is degraded below, or above, any of these.
MIN_WINRATE = 0.40
MIN_SHARPE = 0.5
MAX_DRAWDOWN = 0.20
MAX_FILE_BYTES = 16 * 1024 * 1024
# A greater return is a mistake, and the sums of some would be no numbers any more.
MAX_RETURN = 1e6
# A file with more is none of returns: reading on would only cost.
MAX_MALFORMED = 1_000
_STRATEGY = re.compile(r"[a-z0-9._-]{1,128}", re.ASCII)


@dataclass(frozen=True)
class Returns:
    """The returns of a strategy within a window, oldest first. `malformed` has the lines that could not be read; a file
    with more than `MAX_MALFORMED` of them has no returns."""

    values: tuple[float, ...]
    malformed: tuple[int, ...] = ()


def read_returns(folder: Path, strategy: str, window: Mapping[str, object]) -> Returns | None:
    """The returns of the strategy; None without a file of its own in this folder.

    `window` has `from` and `to` (both included), or `lookback_days`, which count back from the newest row.
    """
    text = _read_file(folder, strategy)
    if text is None:
        return None
    rows, malformed = _parse(text)
    newest = max((at for at, _ in rows), default=datetime.now(UTC))
    if "lookback_days" in window:
        # Not from a first time on: there may be none so many days before the newest row.
        length = timedelta(days=int(str(window["lookback_days"])))
        inside = [(at, value) for at, value in rows if newest - at < length]
    else:
        first, last = _time(str(window["from"])), _time(str(window["to"]))
        inside = [(at, value) for at, value in rows if first <= at <= last]
    return Returns(tuple(value for _, value in sorted(inside)), malformed)


def measure(returns: Sequence[float], metrics: Collection[str] = METRICS) -> dict[str, float]:
    """The metrics of these returns, as far as they are defined."""
    if not returns:
        return {}
    found = {"winrate": sum(value > 0 for value in returns) / len(returns), "max_dd": _max_drawdown(returns)}
    deviation = statistics.stdev(returns) if len(returns) > 1 else 0.0
    if deviation > 0:
        found["sharpe"] = statistics.fmean(returns) / deviation * math.sqrt(TRADING_DAYS)
    return {name: round(found[name], 6) for name in METRICS if name in found and name in metrics}


def health_of(kpi: Mapping[str, float], count: int) -> str:
    """`healthy`, `degraded`, or `unknown` where too little is known; judged by the metrics that were computed."""
    if count < MIN_RETURNS or not kpi:
        return "unknown"
    is_degraded = (
        kpi.get("winrate", 1.0) < MIN_WINRATE
        or kpi.get("sharpe", math.inf) < MIN_SHARPE
        or kpi.get("max_dd", 0.0) > MAX_DRAWDOWN
    )
    return "degraded" if is_degraded else "healthy"


def _read_file(folder: Path, strategy: str) -> str | None:
    """The text of the strategy's file. Only a regular file of this very folder is read: no link, no path."""
    if _STRATEGY.fullmatch(strategy) is None or strategy in (".", ".."):
        raise ValueError(f"not an id of a strategy: {strategy[:60]!r}")
    try:
        file = os.open(folder / f"{strategy}.csv", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
        os.close(file)
        return None
    with os.fdopen(file, "rb") as stream:
        return stream.read(MAX_FILE_BYTES).decode("utf-8-sig", "replace")


def _parse(text: str) -> tuple[list[tuple[datetime, float]], tuple[int, ...]]:
    rows, malformed = [], []
    reader = csv.DictReader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(reader, None)
            if row is None:
                break
            rows.append((_time(row["date"]), _return(row["return"])))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, csv.Error):
            malformed.append(reader.line_num)
            if len(malformed) > MAX_MALFORMED:
                return [], tuple(malformed)
    return rows, tuple(malformed)


def _time(written: str) -> datetime:
    at = datetime.fromisoformat(written.strip())
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _return(written: str) -> float:
    value = float(written)
    # Nobody can lose more than everything. NaN is in no range.
    if not -1 <= value <= MAX_RETURN:
        raise ValueError(written)
    return value


def _max_drawdown(returns: Sequence[float]) -> float:
    deepest = 0.0
    # The value as a share of the highest one so far, which is never too large for a number.
    share = 1.0
    for change in returns:
        share = min(1.0, share * (1 + change))
        deepest = max(deepest, 1 - share)
    return deepest
