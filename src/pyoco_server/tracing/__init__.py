"""Traces of requests and runs (OpenTelemetry, an optional extra). Only `opentelemetry.py` imports its packages."""
