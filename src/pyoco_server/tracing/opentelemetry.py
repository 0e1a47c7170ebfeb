"""Spans by OpenTelemetry's SDK, with a provider of our own: a program that embeds us keeps its global one.

Exporter, resource, limits and batches follow the standard variables `OTEL_*`. A recorded span costs some thirty
microseconds, so without OTEL_TRACES_SAMPLER a process begins at most `TRACES_PER_SEC` traces in a second: all of them
on a quiet gateway, and a bounded part of the work of a busy one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.util.types import Attributes as OtelAttributes

from pyoco_server import __version__
from pyoco_server.tracing import spans
from pyoco_server.tracing.spans import Attributes, current_trace
from pyoco_server.tracing.trace_context import accepted_tracestate, format_traceparent, parse_traceparent

logger = logging.getLogger(__name__)

TRACES_PER_SEC = 50
# A process that stops waits this long for its last spans to be exported.
CLOSE_SEC = 3.0

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

    def __init__(self, exporter: SpanExporter, service: str, sampler: Sampler | None) -> None:
        self._ids = _Ids()
        resource = Resource.create({"service.version": __version__, "service.instance.id": str(uuid.uuid4())})
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": service}))
        provider = TracerProvider(resource=resource, sampler=sampler, id_generator=self._ids, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(exporter)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("pyoco_server", __version__)

    @classmethod
    def start(cls, service: str, exporter: str, environ: Mapping[str, str]) -> Tracing:
        """Start to export. The SDK reads its variables, and falls back to their defaults, by itself."""
        # None: the SDK reads the sampler from its variables.
        sampler = None if environ.get("OTEL_TRACES_SAMPLER", "").strip() else RateSampler(TRACES_PER_SEC)
        return cls(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter(), service, sampler)

    def enter(
        self,
        name: str,
        kind: Literal["server", "consumer"],
        carrier: tuple[object, object],
        attributes: Attributes,
    ) -> EntrySpan:
        """The span of a request or attempt, below the caller's span where the carrier has a valid `traceparent`."""
        span = self._tracer.start_span(
            name, _remote(*carrier), _KINDS[kind], attributes, record_exception=False, set_status_on_exception=False
        )
        return EntrySpan(self._tracer, self._ids, span)

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
    """`spans.Trace`. Its block makes it current, and ends it unless that has happened before."""

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
        """End the span, under its final name if it has one."""
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
        return self._tracer.start_span(
            *(name, self._context, _KINDS[kind], attributes),
            start_time=start_ns,
            record_exception=False,
            set_status_on_exception=False,
        )


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


class RateSampler(Sampler):
    """Children and attempts follow their parent. A request begins a recorded trace while the second has one left.

    That a caller wants its trace recorded counts for nothing: any caller may claim it.
    """

    def __init__(self, per_sec: int) -> None:
        self._per_sec = per_sec
        self._second = 0
        self._left = 0

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: OtelAttributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        parent = get_current_span(parent_context).get_span_context()
        if not parent.is_valid:
            is_sampled = self._take()
        elif kind is SpanKind.SERVER:
            is_sampled = parent.trace_flags.sampled and self._take()
        else:
            is_sampled = parent.trace_flags.sampled
        decision = Decision.RECORD_AND_SAMPLE if is_sampled else Decision.DROP
        return SamplingResult(decision, attributes if is_sampled else None, parent.trace_state or None)

    def get_description(self) -> str:
        return f"RateSampler{{{self._per_sec}}}"

    def _take(self) -> bool:
        if (second := int(time.monotonic())) != self._second:
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


def _remote(traceparent: object, tracestate: object) -> Context:
    parsed = parse_traceparent(traceparent)
    if parsed is None:
        return _EMPTY
    trace_id, span_id, flags = parsed
    state = accepted_tracestate(tracestate)
    members = TraceState() if state is None else TraceState.from_header([state])
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags & 1), trace_state=members)
    return set_span_in_context(NonRecordingSpan(parent), _EMPTY)


def _carrier(span: OtelSpan) -> tuple[str, str | None]:
    context = span.get_span_context()
    state = context.trace_state.to_header() if context.trace_state else None
    return format_traceparent(context.trace_id, context.span_id, context.trace_flags), state


def _fail(span: OtelSpan, error_type: str) -> None:
    # Not the message: it may contain params.
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
