"""What a flow or DAG returns: read strictly, and never with an exception."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.outcome import MAX_RETURN_BYTES, read_outcome, read_outcome_json
from pyoco_server.domain.pdca.recheck import Batch, Recheck

IDS = (StrategyId("a"), StrategyId("b"))
RECHECK = Recheck(
    kind="recheck", reason="r", window={"lookback_days": 7}, client_id="c", batches=1, strategies=2, engine="e"
)
BATCH = Batch(request_id=RunId("0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"), number=1, strategies=IDS, recheck=RECHECK)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["results", "reports", "strategy", "kpi"]), inner),
)


def test_results_follow_the_order_of_the_batch_and_missing_ones_are_unknown() -> None:
    outcome = read_outcome({"results": [{"strategy": "b", "health": "degraded", "kpi": {"sharpe": 1}}]}, BATCH)

    assert outcome.error is None
    assert [(result.strategy, result.health.value, dict(result.kpi)) for result in outcome.results] == [
        ("a", "unknown", {}),
        ("b", "degraded", {"sharpe": 1.0}),
    ]


def test_a_metric_that_was_not_computed_may_be_null() -> None:
    outcome = read_outcome({"results": [{"strategy": "a", "kpi": {"sharpe": None, "winrate": 0.5}}]}, BATCH)

    assert outcome.results[0].kpi == {"winrate": 0.5}


def report(**changed: Any) -> dict[str, Any]:
    return {"results": [], "reports": [{"name": "r.md", "media_type": "text/markdown", "text": "x"} | changed]}


def result(**changed: Any) -> dict[str, Any]:
    return {"results": [{"strategy": "a"} | changed]}


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "object"),
        ([], "object"),
        ({}, "results"),
        ({"results": {}}, "array"),
        ({"results": [], "more": 1}, "unknown field"),
        (result(strategy="c"), "not a strategy of this batch"),
        (result(health="fine"), "health"),
        (result(kpi={"alpha": 1}), "none of winrate"),
        (result(kpi={"sharpe": "1"}), "sharpe|str"),
        (result(kpi={"sharpe": float("inf")}), "not a finite number"),
        ({"results": [{"strategy": "a"}, {"strategy": "a"}]}, "twice"),
        (report(media_type="text/html"), "media_type"),
        (report(name="../../etc/passwd"), "name|regex|pattern"),
        (report(name=".."), "name|regex|pattern"),
        (report(name="a\n"), "name|regex|pattern"),
        (report(text=7), "text|str"),
        (report(text="x" * MAX_RETURN_BYTES), "larger than"),
        ({"results": [], "reports": [report()["reports"][0]] * 21}, "more than 20"),
    ],
)
def test_hostile_output_is_an_error_that_says_what_is_wrong(returned: Any, why: str) -> None:
    outcome = read_outcome(returned, BATCH)

    assert outcome.results == ()
    assert outcome.error is not None
    assert any(part in outcome.error for part in why.split("|")), outcome.error
    assert outcome.error.isprintable()


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b"[" * 60_000, b'"' + b"x" * 70_000 + b'"'])
def test_text_that_is_no_json_or_too_long_is_an_error(data: bytes) -> None:
    assert read_outcome_json(data, BATCH).error is not None


@given(JSON)
def test_no_value_raises(value: Any) -> None:
    outcome = read_outcome(value, BATCH)

    assert (outcome.error is None) == (len(outcome.results) == 2)


@given(st.binary(max_size=200))
def test_no_text_raises(data: bytes) -> None:
    read_outcome_json(data, BATCH)


def test_the_json_of_a_value_is_read_like_the_value() -> None:
    value = report(text="日本語") | result(kpi={"max_dd": 0.25})

    assert read_outcome_json(orjson.dumps(value), BATCH) == read_outcome(value, BATCH)
