"""docs/reference/metrics.md documents exactly the existing metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyoco_server.http_api.api.metrics import METRICS, Metric

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md").read_text("utf-8")
NAMES = [metric.name for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_documented_with_its_current_text(metric: Metric) -> None:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"

    assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.who} |" in PAGE.splitlines()


def test_rules_and_queries_use_only_existing_metrics() -> None:
    names = re.findall(r"\b(?:pyoco|pdca|airflow)_[a-z_]*[a-z]\b(?!_)", PAGE)
    used = {re.sub("_(bucket|count|sum)$", "", name) for name in names}

    assert used == {*NAMES}


def test_no_name_is_declared_twice() -> None:
    assert len({*NAMES}) == len(NAMES)
