"""What every request passes on its way in and out, as plain ASGI: its id, its origin, the limit on its body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.errors import CrossSiteRefused, InvalidRequest, RequestTooLarge
from pyoco_server.http_api.responses.problems import response_for
from pyoco_server.services.projections.lists import list_is_stale

# Between two pieces of a body; a sender that pauses longer would only hold a connection.
BODY_PATIENCE_SEC = 20.0
# What was waited for a body in all; one that comes slower than this on the average, byte by byte, holds as much.
SLOW_AFTER_SEC = 30.0
SLOWEST_BYTES_PER_SEC = 4 * 1024

# No size has more.
MOST_DIGITS = 19
_HARMLESS = ("GET", "HEAD", "OPTIONS")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_IDS = (b"x-request-id", b"x-correlation-id")


class RequestId:
    """Every response carries `X-Request-Id` and `X-Correlation-Id`: the caller's, if they are sane, or a new one.

    The first names one request; the second ties together what belongs together, over several of them: it stands in the
    events and log lines of whatever comes of the request.
    """

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = {name: value for name, value in scope["headers"] if name in _IDS and _REQUEST_ID.fullmatch(value)}
        request_id = given.get(b"x-request-id") or self._new_id().encode()
        correlation_id = given.get(b"x-correlation-id", request_id)
        scope["request_id"], scope["correlation_id"] = request_id.decode(), correlation_id.decode()
        ours = [(b"x-request-id", request_id), (b"x-correlation-id", correlation_id)]

        async def send_with_id(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                stale = [(b"pyoco-list-stale", b"true")] if list_is_stale.get() else []
                message["headers"] = [*message.get("headers", ()), *ours, *stale]
            await send(message)

        await self._app(scope, receive, send_with_id)


class SameOriginOnly:
    """A browser says which page a request comes from; a page of another site may not change anything here.

    Without it any page in a developer's browser could submit runs to the gateway on the same machine: a plain form
    needs nobody's permission, and the gateway reads any content type. On a WebSocket such a page may not even listen:
    what is said there it could read, as of no other answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _HARMLESS and _is_of_another_site(scope["headers"]):
            await response_for(Request(scope), CrossSiteRefused())(scope, receive, send)
            return
        if scope["type"] == "websocket" and _is_page_of_another_host(scope["headers"]):
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # not accepted: a 403
            return
        await self._app(scope, receive, send)


def _is_of_another_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    said = {name: value for name, value in headers if name in (b"sec-fetch-site", b"origin", b"host")}
    if b"sec-fetch-site" in said:
        return said[b"sec-fetch-site"] not in (b"same-origin", b"none")
    # That is sent over TLS and to the browser's own machine only; the origin also to a gateway somewhere in a network.
    return _is_page_of_another_host(said.items())


def _is_page_of_another_host(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """By its origin, which browsers send with every WebSocket; programs send none."""
    said = {name: value for name, value in headers if name in (b"origin", b"host")}
    page = said.get(b"origin")
    return page is not None and page.partition(b"://")[2].lower() != said.get(b"host", b"").lower()


class HiddenTicket:
    """The ticket in the address of a WebSocket goes to whoever checks it, and out of the address: servers log that."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope.get("query_string"):
            given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            tickets = [value for name, value in given if name == "ticket"]
            if tickets:
                # In place: the server's own scope is the one that it logs from. Of two, neither is looked at.
                scope["ticket"] = tickets[0] if len(tickets) == 1 else ""
                scope["query_string"] = urlencode([one for one in given if one[0] != "ticket"]).encode()
        await self._app(scope, receive, send)


class BodyLimit:
    """A body larger than the limit is refused as soon as that is known, and never kept; nor is one waited for that
    does not come, or so slowly that it never will. `elsewhere` has the routes, by method and path, that have another
    limit.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        patience_sec: float = BODY_PATIENCE_SEC,
        elsewhere: Mapping[tuple[str, str], int] | None = None,
        slow_after_sec: float = SLOW_AFTER_SEC,
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._patience_sec = patience_sec
        self._slow_after_sec = slow_after_sec
        self._elsewhere = elsewhere or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        # By its length first: of thousands of digits, zeros in front included, Python makes no number.
        digits = declared.lstrip(b"0")
        most = self._elsewhere.get((scope["method"], scope["path"]), self._max_bytes)
        too_large = declared.isdigit() and (len(digits) > MOST_DIGITS or int(digits or b"0") > most)
        received, complete, waited_sec = 0, False, 0.0
        loop = asyncio.get_running_loop()

        async def receive_bounded() -> Message:
            nonlocal received, complete, waited_sec
            if too_large:
                raise _refusal(most)
            if complete:
                return await receive()  # what may still come is the end of the connection, however late
            began = loop.time()
            try:
                async with asyncio.timeout(self._patience_sec):
                    message = await receive()
            except TimeoutError as error:
                raise InvalidRequest(f"nothing more of the body came for {self._patience_sec:g} s") from error
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            waited_sec += loop.time() - began  # what we do with the body in between is not the sender's fault
            if not complete and waited_sec > self._slow_after_sec and received < waited_sec * SLOWEST_BYTES_PER_SEC:
                raise InvalidRequest(f"the body comes too slowly: {received} bytes in {waited_sec:.0f} s")
            if received > most:
                raise _refusal(most)
            return message

        await self._app(scope, receive_bounded, send)


def _refusal(most: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body may have at most {most} bytes")
