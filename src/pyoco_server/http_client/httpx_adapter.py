"""Translates connections and requests into options of httpx, and removes credentials from what comes back."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit

from pyoco_server.http_client.connection import Connection, on_this_machine
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.requests import Request

# Below the 5 s after which uvicorn closes an idle connection: a submit must not meet one that is being closed.
KEEPALIVE_SEC = 3.0
# What an answer may take beyond the time that the gateway holds a request.
ANSWER_SEC = 10.0


def client_options(connection: Connection, *, over_network: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "base_url": connection.base_url,
        "headers": dict(connection.headers),
        "auth": connection.basic_auth,
        "timeout": connection.timeout_sec,
        # As many connections as the caller has requests and streams at a time; a smaller pool would make some wait.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_SEC),
        "follow_redirects": False,
    }
    address = urlsplit(connection.base_url)
    if over_network and on_this_machine(connection.base_url):
        # A proxy from the environment cannot reach this machine's own gateway.
        host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
        options["mounts"] = {f"all://{host}": None}
        if address.scheme == "http":
            # Loading the CA certificates takes longer than a request, and nothing is encrypted here.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return options


def request_options(request: Request[Any], connection: Connection, silence_sec: float | None) -> dict[str, Any]:
    """Options of `build_request`. `silence_sec` bounds the time between two pieces of the answer."""
    headers = dict(request.headers)
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    options: dict[str, Any] = {"method": request.method, "url": request.path, "headers": headers}
    if request.query:
        options["params"] = list(request.query)
    if request.files:
        options["data"], options["files"] = dict(request.fields), dict(request.files)
    elif request.content is not None:
        options["content"] = request.content
    if silence_sec is None and request.hold_sec is not None:
        silence_sec = max(connection.timeout_sec, request.hold_sec + ANSWER_SEC)
    if silence_sec is not None:
        options["timeout"] = httpx.Timeout(connection.timeout_sec, read=silence_sec)
    return options


def without_credentials(request: httpx.Request) -> httpx.Request:
    """The request without body and headers but its language: errors carry it into logs."""
    kept = [(name, value) for name, value in request.headers.items() if name == "accept-language"]
    return httpx.Request(request.method, request.url, headers=kept)
