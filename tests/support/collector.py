"""An OTLP receiver that parses requests with OpenTelemetry's official protobuf, independently of any exporter."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

PATIENCE_SEC = 60.0


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    started_ns: int
    ended_ns: int
    has_failed: bool
    attributes: Mapping[str, str | int | float | bool]


@dataclass(slots=True)
class Collector:
    """The spans received so far."""

    port: int = 0
    _spans: list[ReceivedSpan] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def settings(self, **others: str) -> dict[str, str]:
        """The variables of a program that exports to it, soon and everything."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_TRACES_SAMPLER": "parentbased_always_on",
        } | others

    def spans(self) -> list[ReceivedSpan]:
        with self._news:
            return list(self._spans)

    def wait_for(self, is_so: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        """All spans, once the condition holds for them."""
        with self._news:
            if not self._news.wait_for(lambda: is_so(self._spans), PATIENCE_SEC):
                names = "\n".join(f"{span.service}: {span.name} {span.attributes}" for span in self._spans)
                raise AssertionError(f"not among:\n{names}")
            return list(self._spans)

    def wait_for_span(self, name: str, **attributes: object) -> ReceivedSpan:
        """The first span with this name and these attributes (`run_id` stands for `pyoco.run_id`)."""
        wanted = {f"pyoco.{key}": value for key, value in attributes.items()}

        def matching(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
            return [span for span in spans if span.name == name and wanted.items() <= span.attributes.items()]

        return matching(self.wait_for(lambda spans: bool(matching(spans))))[0]

    def receive(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        found = []
        for resource in request.resource_spans:
            about = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                found += [_span(about["service.name"], one) for one in scope.spans]
        with self._news:
            self._spans += found
            self._news.notify_all()


def _span(service: str, span: ProtoSpan) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        has_failed=span.status.code == 2,
        attributes={one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in span.attributes},
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.receive(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            """Not shown."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
