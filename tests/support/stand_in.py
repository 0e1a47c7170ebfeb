"""A server on a real socket with canned responses by path."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_SEC = 30.0


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events; `stays_open` until the client disconnects."""

    items: tuple[tuple[str, Mapping[str, Any]], ...]
    stays_open: bool = False


@dataclass(frozen=True, slots=True)
class NoContent:
    """An empty success."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error in the gateway's format."""

    status: int
    err_id: str
    detail: str
    hint: str = "do something about it"
    message: str | None = None


@dataclass(slots=True)
class StandIn:
    """Address, responses and received requests."""

    address: str
    responses: dict[str, Any]
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)


@contextmanager
def stand_in(responses: Mapping[str, Any]) -> Iterator[StandIn]:
    """`responses` maps a path without its query to JSON, text, events, `NoContent` or `Refusal`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    there = StandIn(f"http://127.0.0.1:{server.server_address[1]}", dict(responses))
    _Handler.of[server.server_address[1]] = there
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield there
    finally:
        there.gone.set()
        server.shutdown()
        thread.join(PATIENCE_SEC)
        server.server_close()
        del _Handler.of[server.server_address[1]]


class _Handler(BaseHTTPRequestHandler):
    of: dict[int, StandIn] = {}  # noqa: RUF012  # by port: the server makes a handler per request

    def log_message(self, *_: object) -> None:
        """Do not log to the output of the tests."""

    def do_GET(self) -> None:
        there = self.of[self.connection.getsockname()[1]]
        there.bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
        there.requests.append((self.command, self.path))
        there.headers.append(dict(self.headers))
        nothing = Refusal(404, "ERR-PYOCO-0033", f"nothing at {self.path}")
        self._answer(there, there.responses.get(self.path.partition("?")[0], nothing))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names that the library looks for

    def _answer(self, there: StandIn, response: Any) -> None:
        match response:
            case Events():
                self._stream(there, response)
            case Refusal():
                body = {"detail": response.detail, "err_id": response.err_id, "msg_id": "", "hint": response.hint}
                body |= {"message": response.message} if response.message else {}
                self._whole(response.status, json.dumps(body).encode(), "application/json")
            case NoContent():
                self.send_response(204)
                self.end_headers()
            case str():
                self._whole(200, response.encode(), "text/plain")
            case _:
                self._whole(200, json.dumps(response).encode(), "application/json")

    def _whole(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, there: StandIn, events: Events) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, (name, data) in enumerate(events.items, start=1):
            self.wfile.write(f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()
        if events.stays_open:
            there.gone.wait(PATIENCE_SEC)
