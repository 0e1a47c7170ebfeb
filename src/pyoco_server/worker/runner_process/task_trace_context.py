"""Makes the span of a task current for OpenTelemetry code in that task. The supervisor exports the span itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_server.tracing.trace_context import parse_traceparent, task_span_id


class TaskTraceContext:
    """The trace of one run in this process. Imports OpenTelemetry."""

    def __init__(self, traceparent: str, tracestate: str | None) -> None:
        from opentelemetry import context, trace

        self._context, self._trace = context, trace
        self._traceparent = traceparent
        self._trace_id, _, self._flags = parse_traceparent(traceparent) or (0, 0, 0)
        self._state = trace.TraceState.from_header([tracestate]) if tracestate else trace.TraceState()

    @contextmanager
    def entered(self, start: tuple[str, int] | None) -> Iterator[None]:
        """The block is within the span of this start of a task."""
        if start is None:
            yield
            return
        parent = self._trace.SpanContext(
            self._trace_id,
            task_span_id(self._traceparent, *start),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(self._flags),
            trace_state=self._state,
        )
        span = self._trace.NonRecordingSpan(parent)
        token = self._context.attach(self._trace.set_span_in_context(span))
        try:
            yield
        finally:
            self._context.detach(token)


def task_context_of(traceparent: str | None, tracestate: str | None) -> TaskTraceContext | None:
    """None without a trace, and where the flows' environment has no OpenTelemetry."""
    if traceparent is None:
        return None
    try:
        return TaskTraceContext(traceparent, tracestate)
    except ImportError:
        return None
