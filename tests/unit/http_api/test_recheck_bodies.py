"""Bodies of rechecks: every range of the contract, and anything else that a client may send."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.idempotency.keys import json_digest
from pyoco_server.errors import InvalidRequest, PyocoError, RequestTooLarge
from pyoco_server.http_api.api.pdca.recheck_schemas import RecheckAllRequest, RecheckRequest
from pyoco_server.http_api.protocol.request_parsing import read
from support.rechecks import BODY, BODY_FOR_ALL

DAY = {"from": "2025-01-01T00:00:00Z", "to": "2025-01-02T00:00:00Z"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def one(**changed: Any) -> Any:
    return read(RecheckRequest, orjson.dumps({**BODY, **changed}))


def every(**changed: Any) -> Any:
    return read(RecheckAllRequest, orjson.dumps({**BODY_FOR_ALL, **changed}))


@pytest.mark.parametrize(
    "changed",
    [
        {"strategies": ["a"]},
        {"strategies": [f"s.{place}" for place in range(50)]},
        {"window": {"lookback_days": 1}},
        {"window": {"lookback_days": 180}},
        {"window": DAY},
        {"window": {**DAY, "to": DAY["from"]}},
        {"window": {"from": "2025-01-01T09:00:00+09:00", "to": "2025-06-30T00:00:00.000Z"}},
        {"reason": "日次-bulk_1.0"},
        {"reason": "x" * 64},
        {"params": {}},
        {"params": {"recalc_metrics": ["winrate", "sharpe", "max_dd"], "retrain": True}},
        {"trace_id": "t" * 128},
    ],
)
def test_what_the_contract_allows_is_accepted(changed: dict[str, Any]) -> None:
    assert one(**changed).of("ann").strategies


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"strategies": []}, "strategies"),
        ({"strategies": [f"s.{place}" for place in range(51)]}, "strategies"),
        ({"strategies": ["a", "b", "a"]}, "strategies: a is there twice"),
        ({"strategies": ["A"]}, "strategies.0"),
        ({"strategies": ["a b"]}, "strategies.0"),
        ({"strategies": ["a\n"]}, "strategies.0"),
        ({"strategies": [".."]}, "strategies.0: a strategy id"),
        ({"strategies": [1]}, "strategies.0"),
        ({"strategies": "abc"}, "strategies"),
        ({"window": {}}, "window: give from and to, or lookback_days"),
        ({"window": {**DAY, "lookback_days": 1}}, "window: give from and to, or lookback_days"),
        ({"window": {"from": DAY["from"]}}, "window: give from and to, or lookback_days"),
        ({"window": {"from": DAY["to"], "to": DAY["from"]}}, "window: from is after to"),
        ({"window": {"from": "2025-01-01T00:00:00Z", "to": "2025-06-30T00:00:00.001Z"}}, "longer than 180 days"),
        ({"window": {"from": "2025-01-01", "to": DAY["to"]}}, "window.from: a time is RFC 3339"),
        ({"window": {"from": "2025-01-01T00:00:00", "to": DAY["to"]}}, "window.from: a time is RFC 3339"),
        ({"window": {"from": "2025-02-30T00:00:00Z", "to": DAY["to"]}}, "window.from: there is no such time"),
        ({"window": {"from": 1735689600, "to": DAY["to"]}}, "window.from"),
        ({"window": {"lookback_days": 0}}, "window.lookback_days"),
        ({"window": {"lookback_days": 181}}, "window.lookback_days"),
        ({"window": {"lookback_days": 7.0}}, "window.lookback_days"),
        ({"window": {"lookback_days": "7"}}, "window.lookback_days"),
        ({"window": {"lookback_days": True}}, "window.lookback_days"),
        ({"window": {"lookback_days": 7, "days": 7}}, "window.days"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 65}, "reason"),
        ({"reason": "  "}, "reason"),
        ({"reason": "a\nb"}, "reason"),
        ({"dry_run": "true"}, "dry_run"),
        ({"dry_run": 1}, "dry_run"),
        ({"params": {"recalc_metrics": ["sortino"]}}, "params.recalc_metrics.0"),
        ({"params": {"recalc_metrics": ["sharpe", "sharpe"]}}, "params.recalc_metrics: sharpe is there twice"),
        ({"params": {"retrain": "no"}}, "params.retrain"),
        ({"params": {"depth": 1}}, "params.depth"),
        ({"trace_id": ""}, "trace_id"),
        ({"trace_id": "t" * 129}, "trace_id"),
        ({"batch_size": 25}, "batch_size"),
    ],
)
def test_anything_else_is_refused_by_name(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        one(**changed)

    assert why in refused.value.detail


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"batch_size": 9}, "batch_size"),
        ({"batch_size": 101}, "batch_size"),
        ({"batch_size": "25"}, "batch_size"),
        ({"filter": {"health": ["ill"]}}, "filter.health.0"),
        ({"filter": {"tags_any": ["a"] * 2}}, "filter.tags_any: a is there twice"),
        ({"filter": {"tags_any": [""]}}, "filter.tags_any.0"),
        ({"filter": {"instrument_any": "USDJPY"}}, "filter.instrument_any"),
        ({"filter": {"enabled": True}}, "filter.enabled"),
        ({"filter": None}, "filter"),
        ({"strategies": ["a"]}, "strategies"),
        ({"params": {}}, "params"),
    ],
)
def test_a_recheck_of_all_has_ranges_of_its_own(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        every(**changed)

    assert why in refused.value.detail


def test_a_recheck_of_all_has_batches_of_25_unless_it_says_otherwise() -> None:
    assert every().of("ann").batch_size == 25
    assert [every(batch_size=size).of("ann").batch_size for size in (10, 100)] == [10, 100]


def test_times_are_handed_on_in_utc() -> None:
    window = one(window={"from": "2025-01-01T09:00:00+09:00", "to": "2025-01-02T00:00:00Z"}).of("ann").recheck.window

    assert window == {"from": "2025-01-01T00:00:00.000Z", "to": "2025-01-02T00:00:00.000Z"}


@given(JSON, st.sampled_from([*BODY, *BODY_FOR_ALL, "params", "filter", "dry_run", "trace_id", "batch_size", "x"]))
def test_any_value_of_a_field_is_accepted_or_refused(value: Any, field: str) -> None:
    for schema, body in ((RecheckRequest, BODY), (RecheckAllRequest, BODY_FOR_ALL)):
        # Anything else that is raised would be an error of the server.
        with suppress(InvalidRequest, RequestTooLarge, orjson.JSONEncodeError):
            read(schema, orjson.dumps({**body, field: value}))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"window":' + b"9" * 5_000 + b"}",
        b'{"reason":1e999}',
        b"{" + b",".join(b'"f%d":1' % place for place in range(500)) + b"}",
    ],
    ids=lambda body: str(body[:12]),
)
def test_a_hostile_body_is_refused(body: bytes) -> None:
    with pytest.raises((InvalidRequest, RequestTooLarge)):
        read(RecheckRequest, body)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), JSON, JSON)
def test_a_trace_id_identifies_no_request_and_everything_else_does(body: dict[str, Any], one: Any, other: Any) -> None:
    left_out = ("trace_id",)
    try:
        plain = json_digest(body, leave_out=left_out)
    except PyocoError:
        return  # keys that are equal after normalisation, or numbers that are no JSON

    assert json_digest({**body, "trace_id": one}, leave_out=left_out) == json_digest(
        {**body, "trace_id": other}, leave_out=left_out
    )
    nested = {"inner": {"trace_id": 1}}
    assert json_digest(nested, leave_out=left_out) != json_digest({"inner": {"trace_id": 2}}, leave_out=left_out)
    assert json_digest({**body, "another": True}, leave_out=left_out) != plain or body.get("another") is True
