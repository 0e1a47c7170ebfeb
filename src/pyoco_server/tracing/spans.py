"""The trace of the current request or attempt, for code that knows nothing of OpenTelemetry.

A child span exists only within a recorded request or attempt, or in what a gateway does later for such a request
(`joined` with a recorder). Attributes never have params, results or secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Literal, Protocol, Self

SpanKind = Literal["internal", "client", "producer"]
Attributes = Mapping[str, str | int | float | bool]


class Span(Protocol):
    """A span while its block runs; an exception that leaves the block marks it as failed, by its class only."""

    @property
    def carrier(self) -> tuple[str, str | None] | None:
        """`traceparent` and `tracestate` for what is sent within the span; None where nothing is recorded."""

    def set(self, name: str, value: str | int | float | bool) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Trace(Protocol):
    """The span of a request or attempt, as the code within it sees it."""

    @property
    def is_recording(self) -> bool:
        """False when the trace is not sampled, or when its span has ended; then there are no children."""

    @property
    def carrier(self) -> tuple[str, str | None]:
        """`traceparent` and `tracestate` for what goes to other processes."""

    def child(self, name: str, attributes: Attributes, kind: SpanKind) -> Span: ...

    def task(self, name: str, attributes: Attributes, *, span_id: int, at: float) -> TaskSpan:
        """A span that began in another process at a time (unix seconds), with the id that is used there."""


class Entry(Trace, Protocol):
    """The span of a request or attempt, as its edge sees it. Its block makes it current, and ends it."""

    def set(self, attributes: Attributes) -> None: ...
    def fail(self, error_type: str) -> None: ...
    def end(self, name: str | None = None) -> None:
        """End the span before its block does, under its final name if it has one."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TaskSpan(Protocol):
    """A span whose end is reported later."""

    def end(self, at: float | None = None, *, error_type: str | None = None) -> None: ...


current_trace: ContextVar[Trace | None] = ContextVar("current_trace", default=None)
"""Set within a request or an attempt while traces are exported."""


class NoSpan:
    """What is not recorded."""

    __slots__ = ()
    carrier = None

    def set(self, name: str, value: str | int | float | bool) -> None:
        """Nothing is recorded."""

    def end(self, at: float | None = None, *, error_type: str | None = None) -> None:
        """Nothing was recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was recorded."""


NO_SPAN = NoSpan()
_NO_ATTRIBUTES: Attributes = {}


def child_span(name: str, attributes: Attributes = _NO_ATTRIBUTES, kind: SpanKind = "internal") -> Span:
    """A span below the current one, for a `with` block. Costs one lookup where nothing is recorded."""
    trace = current_trace.get()
    if trace is None or not trace.is_recording:
        return NO_SPAN
    return trace.child(name, attributes, kind)


class JoinedTrace:
    """`Trace` of a request that was answered earlier: what is sent joins it, and nothing else is recorded."""

    __slots__ = ("carrier",)

    is_recording = False

    def __init__(self, carrier: tuple[str, str | None]) -> None:
        self.carrier = carrier

    def child(self, name: str, attributes: Attributes, kind: SpanKind) -> Span:
        return NO_SPAN

    def task(self, name: str, attributes: Attributes, *, span_id: int, at: float) -> TaskSpan:
        return NO_SPAN


class Recorder(Protocol):
    """What exports the spans of this process."""

    def join(self, carrier: tuple[str, str | None]) -> Trace:
        """The trace of an earlier request, for what is done for it later; recorded if the request was."""


@contextmanager
def joined(carrier: tuple[str, str | None] | None, recorder: Recorder | None = None) -> Iterator[None]:
    """What the block sends to other processes joins this trace; None: no trace. A recorder also records its spans."""
    trace: Trace | None = None
    if carrier is not None:
        trace = JoinedTrace(carrier) if recorder is None else recorder.join(carrier)
    token = current_trace.set(trace)
    try:
        yield
    finally:
        current_trace.reset(token)
