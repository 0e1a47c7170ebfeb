"""Spans by OpenTelemetry's SDK, with a provider of our own: a program that embeds us keeps its global one.

Exporter, resource, limits and batches follow the standard variables `OTEL_*`. A recorded submit costs 0.2 ms, more than
half of what it costs anyway, so without OTEL_TRACES_SAMPLER a process begins at most `TRACES_PER_SEC` traces in a
second: all of them on a quiet gateway, and a bounded part of the work of a busy one. The others get ids only.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Literal, Self

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from pyoco_server import __version__
from pyoco_server.tracing import spans
from pyoco_server.tracing.spans import NO_SPAN, Attributes, Entry, JoinedTrace, current_trace
from pyoco_server.tracing.trace_context import accepted_tracestate, format_traceparent, parse_traceparent

logger = logging.getLogger(__name__)

TRACES_PER_SEC = 20
# A process that stops waits this long for its last spans to be exported.
CLOSE_SEC = 3.0

EntryKind = Literal["server", "consumer"]

_KINDS = {
    "server": SpanKind.SERVER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "internal": SpanKind.INTERNAL,
}
_EMPTY = Context()
_NS = 1_000_000_000


class Tracing:
    """The traces of one process."""

    def __init__(self, exporter: SpanExporter, service: str, limit: TraceLimit | None) -> None:
        self._ids = _Ids()
        self._limit = limit
        resource = Resource.create({"service.version": __version__, "service.instance.id": str(uuid.uuid4())})
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": service}))
        # Without a sampler the SDK reads its variables. With a limit, what gets this far is sampled.
        sampler = None if limit is None else ALWAYS_ON
        provider = TracerProvider(resource=resource, sampler=sampler, id_generator=self._ids, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(exporter)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("pyoco_server", __version__)

    @classmethod
    def start(cls, service: str, exporter: str, environ: Mapping[str, str]) -> Tracing:
        """Start to export. The SDK reads its variables, and falls back to their defaults, by itself."""
        limit = None if environ.get("OTEL_TRACES_SAMPLER", "").strip() else TraceLimit(TRACES_PER_SEC)
        return cls(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter(), service, limit)

    def enter(
        self,
        name: str,
        kind: EntryKind,
        carrier: tuple[object, object],
        attributes: Attributes,
    ) -> Entry:
        """The span of a request or attempt, below the caller's span where the carrier has a valid `traceparent`."""
        parent = parse_traceparent(carrier[0])
        state = None if parent is None else accepted_tracestate(carrier[1])
        if self._limit is not None and not self._limit.allows(kind, parent):
            return UnrecordedTrace(None if parent is None else parent[0], state)
        context = _EMPTY if parent is None else _remote(parent, state)
        return EntrySpan(self._tracer, self._ids, _start(self._tracer, name, context, attributes, kind))

    def join(self, carrier: tuple[str, str | None]) -> spans.Trace:
        """`spans.Recorder`."""
        parent = parse_traceparent(carrier[0])
        if parent is None or not parent[2] & TraceFlags.SAMPLED:
            return JoinedTrace(carrier)
        return LaterTrace(self._tracer, carrier, _remote(parent, accepted_tracestate(carrier[1])))

    async def close(self) -> None:
        """Export what is left, for at most `CLOSE_SEC`: an unreachable collector must not keep a process running."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        # A daemon: the interpreter waits for the threads of an executor.
        threading.Thread(target=shut_down, name="pyoco-tracing-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SEC):
                await done.wait()
        except TimeoutError:
            logger.warning("last traces were not exported", extra={"waited_sec": CLOSE_SEC})


class EntrySpan:
    """`spans.Entry`."""

    __slots__ = ("_context", "_ids", "_span", "_token", "_tracer")

    def __init__(self, tracer: Tracer, ids: _Ids, span: OtelSpan) -> None:
        self._tracer = tracer
        self._ids = ids
        self._span = span
        self._context: Context | None = None

    @property
    def is_recording(self) -> bool:
        return self._span.is_recording()

    @property
    def carrier(self) -> tuple[str, str | None]:
        return _carrier(self._span)

    def child(self, name: str, attributes: Attributes, kind: spans.SpanKind) -> ChildSpan:
        return ChildSpan(self._start(name, attributes, kind))

    def task(self, name: str, attributes: Attributes, *, span_id: int, at: float) -> TaskSpan:
        self._ids.next_span_id = span_id
        return TaskSpan(self._start(name, attributes, "internal", int(at * _NS)))

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        _fail(self._span, error_type)

    def end(self, name: str | None = None) -> None:
        if self._span.is_recording():
            if name is not None:
                self._span.update_name(name)
            self._span.end()

    def __enter__(self) -> Self:
        self._token = current_trace.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current_trace.reset(self._token)
        if error is not None and self._span.is_recording():
            self.fail(type(error).__name__)
        self.end()

    def _start(self, name: str, attributes: Attributes, kind: spans.SpanKind, start_ns: int | None = None) -> OtelSpan:
        if self._context is None:
            self._context = set_span_in_context(self._span, _EMPTY)
        return _start(self._tracer, name, self._context, attributes, kind, start_ns)


class UnrecordedTrace:
    """`spans.Entry` of a trace that is not sampled: only its ids, for those who might record it otherwise."""

    __slots__ = ("_carrier", "_token", "_trace_id", "_tracestate")

    is_recording = False

    def __init__(self, trace_id: int | None, tracestate: str | None) -> None:
        self._trace_id = trace_id
        self._tracestate = tracestate
        self._carrier: tuple[str, str | None] | None = None

    @property
    def carrier(self) -> tuple[str, str | None]:
        if self._carrier is None:
            # 0 would be invalid.
            trace_id = self._trace_id or random.getrandbits(128) | 1
            self._carrier = format_traceparent(trace_id, random.getrandbits(64) | 1, 0), self._tracestate
        return self._carrier

    def child(self, name: str, attributes: Attributes, kind: spans.SpanKind) -> spans.Span:
        return NO_SPAN

    def task(self, name: str, attributes: Attributes, *, span_id: int, at: float) -> spans.TaskSpan:
        return NO_SPAN

    def set(self, attributes: Attributes) -> None:
        """Nothing is recorded."""

    def fail(self, error_type: str) -> None:
        """Nothing is recorded."""

    def end(self, name: str | None = None) -> None:
        """Nothing was recorded."""

    def __enter__(self) -> Self:
        self._token = current_trace.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current_trace.reset(self._token)


class LaterTrace(JoinedTrace):
    """`spans.Trace` of a recorded request that was answered earlier."""

    __slots__ = ("_parent", "_tracer")

    is_recording = True

    def __init__(self, tracer: Tracer, carrier: tuple[str, str | None], parent: Context) -> None:
        super().__init__(carrier)
        self._tracer = tracer
        self._parent = parent

    def child(self, name: str, attributes: Attributes, kind: spans.SpanKind) -> ChildSpan:
        return ChildSpan(_start(self._tracer, name, self._parent, attributes, kind))


class ChildSpan:
    """`spans.Span`."""

    __slots__ = ("_span",)

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    @property
    def carrier(self) -> tuple[str, str | None]:
        """For what is sent within this span."""
        return _carrier(self._span)

    def set(self, name: str, value: str | int | float | bool) -> None:
        self._span.set_attribute(name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            _fail(self._span, type(error).__name__)
        self._span.end()


class TaskSpan:
    """`spans.TaskSpan`."""

    __slots__ = ("_span",)

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def end(self, at: float | None = None, *, error_type: str | None = None) -> None:
        if error_type is not None:
            _fail(self._span, error_type)
        self._span.end(None if at is None else int(at * _NS))


class TraceLimit:
    """Attempts follow the trace of their job. A request begins a recorded trace while the second has one left.

    That a caller wants its trace recorded counts for nothing: any caller may claim it.
    """

    def __init__(self, per_sec: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_sec = per_sec
        self._monotonic = monotonic
        self._second = 0
        self._left = 0

    def allows(self, kind: EntryKind, parent: tuple[int, int, int] | None) -> bool:
        """Whether to record, given the caller's ids and flags."""
        if parent is not None and not parent[2] & TraceFlags.SAMPLED:
            return False
        return (parent is not None and kind == "consumer") or self._take()

    def _take(self) -> bool:
        if (second := int(self._monotonic())) != self._second:
            self._second, self._left = second, self._per_sec
        self._left -= 1
        return self._left >= 0


class _Ids(RandomIdGenerator):
    """Random ids, but for the next span if its id is known already."""

    def __init__(self) -> None:
        self.next_span_id: int | None = None

    def generate_span_id(self) -> int:
        known, self.next_span_id = self.next_span_id, None
        return super().generate_span_id() if known is None else known


def _start(
    tracer: Tracer, name: str, context: Context, attributes: Attributes, kind: str, start_ns: int | None = None
) -> OtelSpan:
    return tracer.start_span(
        *(name, context, _KINDS[kind], attributes),
        start_time=start_ns,
        record_exception=False,
        set_status_on_exception=False,
    )


def _remote(parent: tuple[int, int, int], state: str | None) -> Context:
    trace_id, span_id, flags = parent
    members = TraceState() if state is None else TraceState.from_header([state])
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags & 1), trace_state=members)
    return set_span_in_context(NonRecordingSpan(context), _EMPTY)


def _carrier(span: OtelSpan) -> tuple[str, str | None]:
    context = span.get_span_context()
    state = context.trace_state.to_header() if context.trace_state else None
    return format_traceparent(context.trace_id, context.span_id, context.trace_flags), state


def _fail(span: OtelSpan, error_type: str) -> None:
    # Not the message: it may contain params.
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
