"""Which requests and attempts are recorded without a sampler of the user."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyoco_server.tracing.opentelemetry import TraceLimit, Tracing
from pyoco_server.tracing.spans import child_span, current_trace
from pyoco_server.tracing.trace_context import parse_traceparent

SAMPLED, UNSAMPLED = (7, 8, 1), (7, 8, 0)
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_second_has_so_many_new_traces_and_the_next_one_has_as_many_again() -> None:
    clock = Clock()
    limit = TraceLimit(2, clock)

    first = [limit.allows("server", None) for _ in range(4)]
    clock.now += 1
    second = [limit.allows("server", SAMPLED) for _ in range(4)]

    assert first == second == [True, True, False, False]


def test_a_caller_that_records_nothing_uses_up_nothing() -> None:
    limit = TraceLimit(1, Clock())

    assert [limit.allows("server", UNSAMPLED) for _ in range(3)] == [False] * 3
    assert limit.allows("server", None)


def test_attempts_follow_the_trace_of_their_job() -> None:
    limit = TraceLimit(0, Clock())

    assert limit.allows("consumer", SAMPLED)
    assert not limit.allows("consumer", UNSAMPLED)
    assert not limit.allows("consumer", None)  # from a producer without traces


@pytest.mark.parametrize("per_sec", [0, 1])
def test_what_is_sent_within_a_trace_carries_its_ids_whether_it_is_recorded_or_not(per_sec: int) -> None:
    tracing = Tracing(InMemorySpanExporter(), "test", TraceLimit(per_sec))

    with tracing.enter("POST", "server", (CALLER, "vendor=1"), {}) as entry:
        within, seen = current_trace.get(), entry.carrier
        again = entry.carrier

    parsed = parse_traceparent(seen[0])
    assert parsed is not None
    assert (f"{parsed[0]:032x}", parsed[2], seen[1]) == (CALLER[3:35], per_sec, "vendor=1")
    assert (within is entry, seen == again, current_trace.get()) == (True, True, None)


def test_a_span_that_has_ended_gets_no_children() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter, "test", TraceLimit(1))

    with tracing.enter("POST", "server", (None, None), {}) as entry:
        with child_span("early"):
            pass
        entry.end("POST /runs")
        with child_span("late") as late:
            late.set("a", 1)

    asyncio.run(tracing.close())
    assert [span.name for span in exporter.get_finished_spans()] == ["early", "POST /runs"]


def test_an_error_is_known_by_its_class_and_not_by_its_message() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter, "test", TraceLimit(1))

    entry = tracing.enter("POST", "server", (None, None), {})
    with pytest.raises(ValueError, match="secret"), entry, child_span("put"):
        raise ValueError("secret")

    asyncio.run(tracing.close())
    spans = exporter.get_finished_spans()
    assert [(span.attributes or {})["error.type"] for span in spans] == ["ValueError", "ValueError"]
    assert "secret" not in "".join(span.to_json() for span in spans)
