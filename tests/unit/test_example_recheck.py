"""The example flow `pdca.recheck`: metrics by hand, hostile ids and files, and what it returns."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.outcome import read_outcome
from pyoco_server.domain.pdca.recheck import Batch, batch_params
from pyoco_server.testing import run_flow
from support.pdca import recheck_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROWS = "date,return\n2026-01-05,0.10\n2026-01-06,-0.20\n2026-01-07,0.05\n2026-01-08,0.10\n2026-01-09,-0.05\n"
ALL = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-31T00:00:00Z"}


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import strategy_metrics

    return strategy_metrics


def run_batch(folder: Path, monkeypatch: pytest.MonkeyPatch, *strategies: str, **params: Any) -> Any:
    """The outcome of a batch as the server reads it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYOCO_PDCA_DATA_DIR", str(folder))
    import pdca_recheck

    ids = [StrategyId(strategy) for strategy in strategies]
    batch = Batch(
        request_id=RunId("0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"),
        number=1,
        strategies=tuple(ids),
        recheck=recheck_of([ids], window=ALL, params=params),
    )
    result = run_flow(pdca_recheck.FLOW, batch_params(batch))
    assert result.error is None
    return read_outcome(result.outputs["recheck"], batch)


def test_the_metrics_are_those_of_their_formulas(metrics: ModuleType) -> None:
    returns = (0.10, -0.20, 0.05, 0.10, -0.05)
    mean = sum(returns) / 5
    deviation = math.sqrt(sum((value - mean) ** 2 for value in returns) / 4)

    kpi = metrics.measure(returns)

    # From 1.1 the value falls to 0.88, and ends below 1.1.
    assert kpi == pytest.approx({"winrate": 0.6, "sharpe": mean / deviation * math.sqrt(252), "max_dd": 0.2}, abs=1e-6)


def test_a_loss_on_the_first_day_is_a_drawdown(metrics: ModuleType) -> None:
    kpi = metrics.measure((-0.5, 0.1))

    assert kpi["max_dd"] == 0.5


@pytest.mark.parametrize("returns", [(), (0.01,), (0.01, 0.01)])
def test_a_sharpe_ratio_that_is_not_defined_is_left_out(metrics: ModuleType, returns: tuple[float, ...]) -> None:
    assert "sharpe" not in metrics.measure(returns)


def test_the_window_includes_its_ends_and_lookback_counts_from_the_newest_row(
    metrics: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(ROWS)

    between = metrics.read_returns(tmp_path, "a", {"from": "2026-01-06T00:00:00Z", "to": "2026-01-07T00:00:00Z"})
    latest = metrics.read_returns(tmp_path, "a", {"lookback_days": 2})

    assert between.values == (-0.20, 0.05)
    assert latest.values == (0.10, -0.05)


@pytest.mark.parametrize("strategy", ["", ".", "..", "../a", "a/b", "A", "a\n", "a\0", "/etc/passwd", "a" * 129])
def test_an_id_that_is_a_path_is_refused(metrics: ModuleType, tmp_path: Path, strategy: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        metrics.read_returns(tmp_path, strategy, ALL)


def test_links_folders_and_pipes_are_no_data(metrics: ModuleType, tmp_path: Path) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text(ROWS)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.csv").symlink_to(outside)
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")

    found = [metrics.read_returns(folder, name, ALL) for name in ("link", "folder", "pipe", "missing")]

    assert found == [None, None, None, None]


def test_malformed_rows_are_reported_and_the_others_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = f"{ROWS}2026-01-10\nnever,0.1\n2026-01-11,nan\n2026-01-12,-2\n2026-01-13,x\n,\n2026-01-14,0.2,more\n"
    (tmp_path / "a.csv").write_text(rows)

    outcome = run_batch(tmp_path, monkeypatch, "a")

    assert outcome.error is None
    assert "6 malformed rows: line 7, 8, 9, 10, 11" in outcome.reports[0].data.decode()
    assert "| 6 |" in outcome.reports[0].data.decode()


@pytest.mark.parametrize("date", ["0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_window_may_begin_before_the_first_day_of_the_calendar(
    metrics: ModuleType, tmp_path: Path, date: str
) -> None:
    (tmp_path / "a.csv").write_text(f"date,return\n{date},0.1\n")

    found = metrics.read_returns(tmp_path, "a", {"lookback_days": 180})

    assert found.values == (0.1,)


def test_returns_that_no_sum_can_hold_are_malformed_and_spoil_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = "".join(f"2026-01-{day:02},1e308\n" for day in range(10, 15))
    (tmp_path / "a.csv").write_text(ROWS + days)

    outcome = run_batch(tmp_path, monkeypatch, "a")

    assert outcome.error is None
    assert "5 malformed rows" in outcome.reports[0].data.decode()


def test_a_loss_after_gains_that_no_number_can_hold_is_a_drawdown(metrics: ModuleType) -> None:
    kpi = metrics.measure((1e6,) * 60 + (-0.5,))

    assert kpi["max_dd"] == 0.5


def test_a_file_with_too_many_malformed_rows_is_not_read_to_its_end(metrics: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS + "x\n" * 5_000)

    found = metrics.read_returns(tmp_path, "a", ALL)

    assert found.values == ()
    assert len(found.malformed) == metrics.MAX_MALFORMED + 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0\0", b"date,return\n", b"x,y\n1,2\n", b'"' * 200_000])
def test_a_file_without_returns_has_unknown_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "a.csv").write_bytes(content)

    outcome = run_batch(tmp_path, monkeypatch, "a", "without.file")

    assert outcome.error is None
    assert [result.health.value for result in outcome.results] == ["unknown", "unknown"]


def test_only_the_metrics_that_were_asked_for_are_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text(ROWS)

    outcome = run_batch(tmp_path, monkeypatch, "a", recalc_metrics=["winrate"])

    assert outcome.results[0].kpi == {"winrate": 0.6}
    assert outcome.results[0].health.value == "healthy"


def test_the_example_data_has_healthy_and_degraded_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(file.stem for file in (EXAMPLES / "pdca").glob("*.csv"))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import strategy_metrics

    healths = set()
    for name in names:
        returns = strategy_metrics.read_returns(EXAMPLES / "pdca", name, {"lookback_days": 90})
        assert returns is not None
        healths.add(strategy_metrics.health_of(strategy_metrics.measure(returns.values), len(returns.values)))

    assert len(names) >= 3
    assert healths == {"healthy", "degraded"}
