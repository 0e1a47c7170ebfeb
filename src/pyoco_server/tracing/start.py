"""Starts the export of traces, if the standard variables of OpenTelemetry name an exporter; imports nothing before."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.tracing.opentelemetry import Tracing

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTERS = ("otlp", "console")


def exporter_name(environ: Mapping[str, str]) -> str | None:
    """The configured exporter; an endpoint alone means `otlp`. None: nothing is exported."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not named:
        return "otlp" if any(environ.get(name, "").strip() for name in _ENDPOINTS) else None
    if named == "none":
        return None
    if named not in EXPORTERS:
        facts = {"exporter": named, "accepted": ", ".join((*EXPORTERS, "none"))}
        logger.warning("no traces: OTEL_TRACES_EXPORTER is unknown", extra=facts)
        return None
    return named


def start_tracing(service: str, environ: Mapping[str, str] = os.environ) -> Tracing | None:
    """The traces of this process; None without an exporter, and where the extra is not installed."""
    exporter = exporter_name(environ)
    if exporter is None:
        return None
    try:
        from pyoco_server.tracing.opentelemetry import Tracing
    except ImportError:
        logger.warning("no traces: OpenTelemetry is not installed", extra={"hint": "pip install 'pyoco-server[otel]'"})
        return None
    try:
        return Tracing.start(service, exporter, environ)
    except (OSError, ValueError) as error:  # a variable of the exporter: a certificate, a header, a compression
        logger.warning("no traces: the exporter cannot be started", extra={"error": f"{type(error).__name__}: {error}"})
        return None
