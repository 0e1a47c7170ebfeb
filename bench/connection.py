"""The smallest HTTP/1.1 client that can time an answer: one blocking keep-alive connection; no TLS, no chunks."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from bench.processes import StepFailed

NOT_MODIFIED = 304
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and the body as it came; `head` is the lines before it."""

    status: int
    body: bytes
    head: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        for line in self.head.decode("latin-1").split("\r\n"):
            said, _, value = line.partition(":")
            if said.lower() == name.lower():
                return value.strip()
        raise StepFailed(f"an answer without {name}: {self.head[:200]!r}")

    def require_ok(self, what: str) -> "Answer":
        if not 200 <= self.status < 300:
            raise StepFailed(f"{what} was answered with {self.status}: {self.body[:200]!r}")
        return self


def request_bytes(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    raise StepFailed(f"an answer without Content-Length: {head[:200]!r}")


class Connection:
    """One connection to a port of this machine; every wait is bounded by `timeout_sec`."""

    def __init__(self, port: int, *, timeout_sec: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_sec)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> Answer:
        self.send(request_bytes(method, path, body, headers))
        return self.receive()

    def send(self, request: bytes) -> None:
        """The first half of a request: its answer is waited for by `receive`, when there is time."""
        self._socket.sendall(request)

    def receive(self) -> Answer:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._receive()
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        status = int(head[9:12])
        length = 0 if status == NOT_MODIFIED else content_length(head)
        while len(self._buffer) < length:
            self._receive()
        content, self._buffer = self._buffer[:length], self._buffer[length:]
        return Answer(status=status, body=content, head=head)

    def _receive(self) -> None:
        received = self._socket.recv(262144)
        if not received:
            raise StepFailed("the server closed the connection in the middle of an answer")
        self._buffer += received

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
