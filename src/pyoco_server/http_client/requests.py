"""Calls → requests of the HTTP library, and what comes back without the caller's secrets in it."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit

from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.lean_httpx import httpx

# Below the 5 s after which uvicorn closes an idle connection: a submit must not meet one that is just being closed.
KEEPALIVE_SEC = 3.0


def client_options(connection: Connection, over_network: bool) -> dict[str, Any]:
    """How both kinds of client are made."""
    options: dict[str, Any] = {
        "base_url": connection.base_url,
        "headers": dict(connection.headers),
        "auth": connection.basic_auth,
        "timeout": connection.timeout_sec,
        # As many connections as the caller has requests and watches at a time; a smaller pool would make some wait.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_SEC),
        "follow_redirects": False,
    }
    address = urlsplit(connection.base_url)
    if over_network and connection.is_loopback:
        # A proxy of the environment is for the world outside; it could not reach this machine's own gateway.
        host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
        options["mounts"] = {f"all://{host}": None}
        if address.scheme == "http":
            # Reading the world's certificates takes longer than a request, and nothing here is encrypted.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return options


def request_options(call: Call[Any], connection: Connection, silence_sec: float | None) -> dict[str, Any]:
    """How a request is made. A stream may be silent for longer than an answer may take, or shorter."""
    headers = dict(call.headers)
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = call.idempotency_key
    options: dict[str, Any] = {"method": call.method, "url": call.path, "headers": headers}
    if call.query:
        options["params"] = list(call.query)
    if call.files:
        options["data"], options["files"] = dict(call.fields), dict(call.files)
    elif call.content is not None:
        options["content"] = call.content
    if silence_sec is not None:
        options["timeout"] = httpx.Timeout(connection.timeout_sec, read=silence_sec)
    return options


class Gathered:
    """An answer as it comes in. The library's timeout is for each piece of it; this one is for the whole."""

    def __init__(self, response: httpx.Response, connection: Connection) -> None:
        self._response = response
        self._monotonic = connection.timing.monotonic
        self._late_at = self._monotonic() + connection.timeout_sec
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        if self._monotonic() > self._late_at:
            raise httpx.ReadTimeout("the answer comes too slowly", request=self._response.request)

    def whole(self) -> httpx.Response:
        answer = self._response
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            content=b"".join(self._pieces),
            request=answer.request,
            extensions=answer.extensions,
        )


def unsigned(response: httpx.Response) -> httpx.Response:
    """The response with a request that does not tell what it was sent with: errors carry both about, into logs too."""
    response.request = _bare(response.request)
    return response


def unsigned_error(error: httpx.RequestError) -> httpx.RequestError:
    error.request = _bare(error.request)
    return error


def _bare(request: httpx.Request) -> httpx.Request:
    return httpx.Request(request.method, request.url)
