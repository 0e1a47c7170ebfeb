"""A server on a real socket with scripted behaviour: correct responses, cut connections, silence."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from support.processes import port_of, reserve_port

PATIENCE_SEC = 10.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A complete response."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> Reply:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(status=status, body=json.dumps(value).encode(), headers={"Content-Type": "application/json"} | named)


@dataclass(frozen=True)
class Head:
    """A response to HEAD: headers without a body."""

    headers: dict[str, str]


@dataclass(frozen=True)
class Stream:
    """Events, then the end of the stream or a cut connection."""

    chunks: Sequence[bytes]
    cut: bool = False
    content_type: str = "text/event-stream"


@dataclass(frozen=True)
class Cut:
    """Read the request and close the connection."""


@dataclass(frozen=True)
class Silence:
    """Read the request and send nothing until the client disconnects."""


Behaviour = Reply | Head | Stream | Cut | Silence


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """Serves one connection after the other, each with the next behaviour; the last one is repeated."""

    def __init__(self, *script: Behaviour) -> None:
        self._script = list(script)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests: list[ReceivedRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Peer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_SEC)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            with connection:
                connection.settimeout(PATIENCE_SEC)
                try:
                    self._answer(connection)
                except OSError:
                    continue  # the client disconnected first

    def _answer(self, connection: socket.socket) -> None:
        request = _read_request(connection)
        if request is None:
            return
        self.requests.append(request)
        match self._script.pop(0) if len(self._script) > 1 else self._script[0]:
            case Reply() as reply:
                connection.sendall(_head(reply.status, reply.headers | {"Content-Length": str(len(reply.body))}))
                connection.sendall(reply.body)
            case Head(headers):
                connection.sendall(_head(200, headers))
            case Stream() as stream:
                connection.sendall(_head(200, {"Content-Type": stream.content_type, "Transfer-Encoding": "chunked"}))
                for chunk in stream.chunks:
                    connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if not stream.cut:
                    connection.sendall(b"0\r\n\r\n")
            case Silence():
                connection.recv(1)
            case Cut():
                pass


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def _read_request(connection: socket.socket) -> ReceivedRequest | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    method, target, _ = first.split(" ")
    return ReceivedRequest(method=method, target=target, headers=headers, body=body)


def unused_address() -> str:
    """An address at which nothing listens."""
    with reserve_port() as reserved:
        return f"http://127.0.0.1:{port_of(reserved)}"
