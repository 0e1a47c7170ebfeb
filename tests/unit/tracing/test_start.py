"""When traces are exported, and that nothing is imported otherwise."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from pyoco_server.tracing.spans import child_span
from pyoco_server.tracing.start import exporter_name, start_tracing

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("variables", "exporter"),
    [
        ({}, None),
        (ENDPOINT, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1/v1/traces"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, None),
        ({"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT}, None),
    ],
)
def test_the_standard_variables_name_the_exporter(variables: dict[str, str], exporter: str | None) -> None:
    assert exporter_name(variables) == exporter


def test_an_unknown_exporter_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert start_tracing("x", {"OTEL_TRACES_EXPORTER": "zipkin"}) is None

    assert [record.__dict__["exporter"] for record in caplog.records] == ["zipkin"]


def test_an_exporter_without_the_extra_is_a_warning_and_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pyoco_server.tracing.opentelemetry", None)

    with caplog.at_level(logging.WARNING):
        assert start_tracing("x", ENDPOINT) is None

    assert [record.__dict__["hint"] for record in caplog.records] == ["pip install 'pyoco-server[otel]'"]


def test_without_an_exporter_the_sdk_is_not_imported() -> None:
    program = (
        "import sys; from pyoco_server.http_api import create_app; from pyoco_server.config import NatsBackendConfig;"
        "create_app(NatsBackendConfig()); print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_span_outside_of_a_trace_is_nothing() -> None:
    with child_span("airflow", {"a": 1}) as span:
        span.set("b", 2)

    assert span.carrier is None
