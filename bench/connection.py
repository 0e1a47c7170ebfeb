"""A minimal HTTP/1.1 client for timing: one blocking keep-alive connection; no TLS, no chunks."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

NO_CONTENT, NOT_MODIFIED = 204, 304
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class StepFailed(Exception):
    """A step of the benchmark could not be measured; the message says why."""


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
            found, _, value = line.partition(":")
            if found.lower() == name.lower():
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
    at = head.lower().find(b"content-length:")
    if at < 0:
        raise StepFailed(f"an answer without Content-Length: {head[:200]!r}")
    return int(head[at + 15 :].partition(b"\r\n")[0])


def parse_answer(received: bytes) -> Answer | None:
    """The answer, as soon as all of it was received."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return None
    status = int(head[9:12])
    length = 0 if status in (NO_CONTENT, NOT_MODIFIED) else content_length(head)
    return Answer(status=status, body=body, head=head) if len(body) >= length else None


class Connection:
    """One connection to a port of this machine; every wait is bounded by `timeout_sec`."""

    def __init__(self, port: int, *, timeout_sec: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_sec)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> Answer:
        self.send(request_bytes(method, path, body, headers))
        return self.receive()

    def send(self, request: bytes) -> None:
        """Sends a request; `receive` waits for its answer."""
        self._socket.sendall(request)

    def receive(self) -> Answer:
        received = b""
        while (answer := parse_answer(received)) is None:
            more = self._socket.recv(262144)
            if not more:
                raise StepFailed("the server closed the connection in the middle of an answer")
            received += more
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
