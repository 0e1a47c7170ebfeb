"""The broker's ports with a span for each operation of a request or attempt; used only where traces are exported.

Background work has no span, because it has no current trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from pyoco_server.adapters.jetstream.broker import JetStreamKeyValue, JetStreamSubjectLog
from pyoco_server.adapters.jetstream.job_queue import JetStreamJobQueue
from pyoco_server.ports import Conflict, Entry, Job, LogMessage, RevisionConflict, Stored
from pyoco_server.tracing.spans import NO_SPAN, Span, SpanKind, current_trace


class TracedKeyValue(JetStreamKeyValue):
    async def get(self, key: str) -> Entry | None:
        with _span("get", self._stream):
            return await super().get(key)

    async def put(self, key: str, value: bytes, *, revision: int) -> Stored | RevisionConflict:
        with _span("put", self._stream) as span:
            answer = await super().put(key, value, revision=revision)
            span.set("pyoco.is_conflict", isinstance(answer, RevisionConflict))
            return answer

    async def purge(self, key: str, *, revision: int | None = None) -> int | None:
        with _span("purge", self._stream):
            return await super().purge(key, revision=revision)

    async def all(self, prefix: str = "") -> Sequence[Entry]:
        with _span("read", self._stream) as span:
            entries = await super().all(prefix)
            span.set("pyoco.entries", len(entries))
            return entries


class TracedSubjectLog(JetStreamSubjectLog):
    async def append(
        self,
        key: str,
        data: bytes,
        *,
        after: int,
        is_ours: Callable[[LogMessage], bool],
        search_limit: int | None = None,
    ) -> Stored | Conflict:
        with _span("append", self._stream) as span:
            answer = await super().append(key, data, after=after, is_ours=is_ours, search_limit=search_limit)
            span.set("pyoco.is_conflict", isinstance(answer, Conflict))
            return answer

    async def read(self, key: str, *, after: int = 0, limit: int | None = None) -> Sequence[LogMessage]:
        with _span("read", self._stream) as span:
            messages = await super().read(key, after=after, limit=limit)
            span.set("pyoco.entries", len(messages))
            return messages

    async def last(self, key: str) -> LogMessage | None:
        with _span("get", self._stream):
            return await super().last(key)


class TracedJobQueue(JetStreamJobQueue):
    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        """Publish with the current trace, also one that is not recorded: its attempts are not recorded either."""
        with _span("publish", self._prefix + job.tag, "producer") as span:
            span.set("pyoco.run_id", job.run_id)
            if (carrier := span.carrier or _current_carrier()) is not None:
                job = structs.replace(job, traceparent=carrier[0], tracestate=carrier[1])
            await super().publish(job, created_sequence=created_sequence, nth=nth)


def _current_carrier() -> tuple[str, str | None] | None:
    trace = current_trace.get()
    return None if trace is None else trace.carrier


def _span(operation: str, destination: str, kind: SpanKind = "client") -> Span:
    trace = current_trace.get()
    if trace is None or not trace.is_recording:
        return NO_SPAN
    # Attributes of the semantic conventions for messaging.
    attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": operation,
        "messaging.destination.name": destination,
    }
    return trace.child(f"{operation} {destination}", attributes, kind)
