"""Which `traceparent` is accepted, and the ids of tasks' spans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.tracing.trace_context import (
    MAX_TRACESTATE_CHARS,
    accepted_tracestate,
    format_traceparent,
    parse_traceparent,
    task_span_id,
)

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 1))
def test_a_formatted_traceparent_is_read_back(trace_id: int, span_id: int, flags: int) -> None:
    assert parse_traceparent(format_traceparent(trace_id, span_id, flags)) == (trace_id, span_id, flags)


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        ["x"],
        "",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01-more",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
        f" 00-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"cc-{TRACE_ID}-{SPAN_ID}-01.more",
        f"cc-{TRACE_ID}-{SPAN_ID}-01-{'x' * 1000}",
    ],
)
def test_what_does_not_follow_the_specification_is_ignored(text: object) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_may_have_more_parts() -> None:
    assert parse_traceparent(f"cc-{TRACE_ID}-{SPAN_ID}-01-more") == (int(TRACE_ID, 16), int(SPAN_ID, 16), 1)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_traceparent(text)
    accepted_tracestate(text)


@pytest.mark.parametrize("text", [None, 7, "", "a=\n1", "ä=1", "a=" + "1" * MAX_TRACESTATE_CHARS])
def test_a_tracestate_that_cannot_be_a_header_is_dropped(text: object) -> None:
    assert accepted_tracestate(text) is None


def test_starts_of_tasks_have_different_span_ids_and_both_sides_derive_the_same() -> None:
    parent = f"00-{TRACE_ID}-{SPAN_ID}-01"
    other = f"00-{TRACE_ID}-{SPAN_ID[::-1]}-01"

    ids = [task_span_id(*start) for start in ((parent, "a", 1), (parent, "a", 2), (parent, "b", 1), (other, "a", 1))]

    assert len(set(ids)) == 4
    assert task_span_id(parent, "a", 1) == ids[0]
