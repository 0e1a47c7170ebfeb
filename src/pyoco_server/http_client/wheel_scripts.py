"""How to get a wheel to a gateway, away from it and back: the logic of both clients, without their I/O.

A second try of a change has the key of the first, and gets its answer. Where the gateway knows nothing of keys it may
meet what the first one did. So on a repeat a refusal is looked at before it is believed: the registered wheel is ours
if it has our bytes, and what is not there any more was deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from pyoco_server.http_client import answers, calls
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Close, Open, Read, Script, Sleep, Tell, Transmit
from pyoco_server.http_client.errors import NotFound, PyocoHttpError, WheelVersionConflict
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import pause_sec
from pyoco_server.http_client.scripts import raise_failure, send
from pyoco_server.http_client.shapes import WheelArtifact, WheelDeleted

T = TypeVar("T")
Failure = httpx.RequestError | PyocoHttpError

# Between the last byte of an upload and its answer all of it is checked and stored.
UPLOAD_SILENCE_SEC = 300.0


def upload(
    call: Call[WheelArtifact], connection: Connection, name: str, sha256_hex: Callable[[], str]
) -> Script[WheelArtifact]:
    """The registered wheel."""

    def after_all(failure: Failure) -> Script[WheelArtifact | None]:
        if not isinstance(failure, WheelVersionConflict):
            return None
        registered = yield from send(calls.list_wheels(), connection)
        digest = sha256_hex()
        return next((one for one in registered if (one["name"], one.get("sha256_hex")) == (name, digest)), None)

    silence_sec = max(connection.timeout_sec, UPLOAD_SILENCE_SEC)
    return (yield from _until_settled(Transmit(call, silence_sec), connection, after_all))


def delete(name: str, connection: Connection, idempotency_key: str | None = None) -> Script[WheelDeleted]:
    """That the wheel is gone."""
    call = calls.delete_wheel(name, idempotency_key)

    def after_all(failure: Failure) -> Script[WheelDeleted | None]:
        yield from ()
        return {"name": name, "deleted": True} if isinstance(failure, NotFound) else None

    return (yield from _until_settled(Transmit(call), connection, after_all))


def download(name: str, connection: Connection) -> Script[None]:
    """Tells the pieces of a wheel; ends with an error unless all of them came and are those that were stored."""
    call = calls.download_wheel(name)
    answer: httpx.Response = yield from _opened(call, connection)
    digest, size = hashlib.sha256(), 0
    while True:
        piece: bytes | httpx.RequestError | None = yield Read()
        if isinstance(piece, httpx.RequestError):
            raise answers.unreachable(piece, call, 1) from piece
        if piece is None:
            break
        digest.update(piece)
        size += len(piece)
        yield Tell((piece, _length(answer)))
    yield Close()
    stored = answer.headers.get("etag", "").strip('"')
    if size != (_length(answer) or size) or (len(stored) == 64 and stored != digest.hexdigest()):
        raise answers.broken_stream(answer, f"its bytes are not those of {name}")


def _opened(call: Call[T], connection: Connection) -> Script[httpx.Response]:
    timing, failures = connection.timing, 0
    began = timing.monotonic()
    while True:
        answer: httpx.Response | httpx.RequestError = yield Open(call, connection.timeout_sec)
        if isinstance(answer, httpx.Response) and answer.is_success:
            return answer
        failures += 1
        failure = _failure(answer, timing.now())
        pause = _pause(failure, connection, failures, timing.monotonic() - began)
        if pause is None:
            raise_failure(failure, call, failures)
        yield Sleep(pause)


def _until_settled(
    transmit: Transmit, connection: Connection, after_all: Callable[[Failure], Script[T | None]]
) -> Script[T]:
    """Try as often as is allowed; `after_all` says of the failure of a repeat whether it was done all the same."""
    timing, failures = connection.timing, 0
    began = timing.monotonic()
    while True:
        answer: httpx.Response | httpx.RequestError = yield transmit
        if isinstance(answer, httpx.Response) and answer.is_success:
            result: T = answers.result(transmit.call, answer)
            return result
        failure = _failure(answer, timing.now())
        if failures:
            done = yield from after_all(failure)
            if done is not None:
                return done
        failures += 1
        pause = _pause(failure, connection, failures, timing.monotonic() - began)
        if pause is None:
            raise_failure(failure, transmit.call, failures)
        yield Sleep(pause)


def _failure(answer: httpx.Response | httpx.RequestError, now: float) -> Failure:
    return answer if isinstance(answer, httpx.RequestError) else answers.error_of(answer, now)


def _pause(failure: Failure, connection: Connection, failures: int, elapsed_sec: float) -> float | None:
    return pause_sec(
        answers.trouble_of(failure),
        failures=failures,
        elapsed_sec=elapsed_sec,
        patience=connection.patience,
        asked_sec=failure.retry_after if isinstance(failure, PyocoHttpError) else None,
        luck=connection.timing.luck(),
    )


def _length(answer: httpx.Response) -> int | None:
    said = answer.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None
