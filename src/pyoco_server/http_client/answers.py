"""Answers → results or errors, and failures → what is known of them. Nothing here waits or sends."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.errors import (
    CommandRejected,
    Conflict,
    Forbidden,
    GatewayFailed,
    GatewayUnreachable,
    GraphNotFound,
    GraphVersionConflict,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    OrphanPossible,
    PyocoHttpError,
    RunNotFound,
    SubmitUncertain,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    WheelNotFound,
    WheelVersionConflict,
    WorkerNotFound,
)
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import Trouble

T = TypeVar("T")

BY_ID: dict[str, type[PyocoHttpError]] = {
    "ERR-PYOCO-0004": OrphanPossible,
    "ERR-PYOCO-0005": RunNotFound,
    "ERR-PYOCO-0020": WorkerNotFound,
    "ERR-PYOCO-0022": WheelVersionConflict,
    "ERR-PYOCO-0023": WheelNotFound,
    "ERR-PYOCO-0030": CommandRejected,
    "ERR-PYOCO-0047": IdempotencyConflict,
    "ERR-PYOCO-0056": GraphNotFound,
    "ERR-PYOCO-0057": GraphVersionConflict,
}
BY_STATUS: dict[int, type[PyocoHttpError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    416: InvalidRequest,
    422: InvalidRequest,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}

_MAX_SHOWN = 200
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_OWN_FAULT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.TooManyRedirects)


def result(call: Call[T], response: httpx.Response) -> T:
    """What a successful answer says."""
    try:
        return call.read(_text(response))
    except (ValueError, RecursionError) as error:
        what = f"{_told_by(response)} where a gateway's answer was expected ({error})"
        raise _unexpected(what, response) from error


def not_a_stream(response: httpx.Response) -> UnexpectedAnswer:
    """Somebody answered with success, but without events."""
    return _unexpected(f"{_told_by(response)} where a stream of events was expected", response)


def broken_stream(response: httpx.Response, why: str) -> UnexpectedAnswer:
    """What came is no stream of ours."""
    return _unexpected(f"{_told_by(response)}, but {why}", response)


def error_of(response: httpx.Response, now: float) -> PyocoHttpError:
    """The error that an answer tells of; `now` (unix seconds) is what a date in Retry-After is measured by."""
    status = response.status_code
    body = _problem(response)
    err_id = _string(body, "err_id")
    kind = BY_ID.get(err_id or "") or BY_STATUS.get(status)
    if kind is None:
        kind = GatewayFailed if status >= 500 else UnexpectedAnswer
    return kind(
        _string(body, "detail") or _foreign_words(response),
        request=response.request,
        response=response,
        err_id=err_id,
        msg_id=_string(body, "msg_id"),
        message=_string(body, "message"),
        hint=_string(body, "hint"),
        retry_after=_retry_after_sec(response.headers.get("retry-after"), now),
        code=_string(body, "code"),
        guard=_string(body, "guard"),
    )


def trouble_of(failure: httpx.RequestError | PyocoHttpError) -> Trouble:
    """What a failure leaves open."""
    if isinstance(failure, PyocoHttpError):
        return _trouble_of_answer(failure)
    # Another try meets the same certificate.
    if isinstance(failure, _OWN_FAULT) or "CERTIFICATE_VERIFY_FAILED" in str(failure):
        return Trouble.FINAL
    return Trouble.NOT_SENT if isinstance(failure, _NOT_SENT) else Trouble.UNSURE


def unreachable(
    failure: httpx.RequestError, call: Call[Any], tries: int, *, unsure: bool = False
) -> GatewayUnreachable:
    """What to tell of a failure after which nothing more is tried; `unsure`: one of the tries may have been heard."""
    request = failure.request
    why = _plain(str(failure)) or type(failure).__name__
    place = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
    tried = f", tried {tries} times" if tries > 1 else ""
    if call.makes and unsure:
        detail = f"the connection to {place} broke while submitting: {why}{tried}"
        return SubmitUncertain(detail, request=request, idempotency_key=call.idempotency_key)
    return GatewayUnreachable(f"the gateway at {place} cannot be reached: {why}{tried}", request=request)


def _trouble_of_answer(error: PyocoHttpError) -> Trouble:
    return Trouble.UNSURE if isinstance(error, Unavailable) else Trouble.FINAL


def _unexpected(what: str, response: httpx.Response) -> UnexpectedAnswer:
    hint = "Check the address, and what stands between here and the gateway."
    return UnexpectedAnswer(what, request=response.request, response=response, hint=hint)


def _text(response: httpx.Response) -> str:
    """A gateway speaks UTF-8, always; which other decoder a stranger names is not looked at."""
    return response.content.decode("utf-8", errors="replace")


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = json.loads(_text(response))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(body, dict):
        return {}
    if "errId" in body:
        return _of_jobs(body)
    return _of_executions(body["error"]) if isinstance(body.get("error"), dict) else body


def _of_jobs(problem: dict[str, Any]) -> dict[str, Any]:
    """The error that jobs tell (RFC 9457), under the names that everything else has."""
    names = {"err_id": "errId", "msg_id": "msgId", "message": "title"}
    return problem | {ours: problem.get(theirs) for ours, theirs in names.items()}


def _of_executions(error: dict[str, Any]) -> dict[str, Any]:
    """The error that executions, waits and graphs tell, under the names that everything else has."""
    found = error.get("details")
    details = found if isinstance(found, dict) else {}
    return {
        "code": error.get("code"),
        "detail": error.get("message"),
        "err_id": details.get("errId"),
        "msg_id": details.get("msgId"),
        "hint": details.get("hint"),
        "guard": details.get("guard"),
    }


def _string(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    return _plain(value, limit=2000) if isinstance(value, str) and value else None


def _foreign_words(response: httpx.Response) -> str:
    """A readable sentence for an error that no gateway wrote."""
    text = _plain(_text(response))
    return f"{_told_by(response)}: {text}" if text else _told_by(response)


def _told_by(response: httpx.Response) -> str:
    kind = _plain(response.headers.get("content-type", "")).partition(";")[0] or "nothing"
    reason = _plain(response.reason_phrase) or str(response.status_code)
    return f"{reason}: {response.request.method} {response.request.url} answered with {kind}"


def _plain(text: str, limit: int = _MAX_SHOWN) -> str:
    """Text of others as it may be shown: one line, bounded, and nothing that moves a terminal's cursor."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: limit * 4]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _retry_after_sec(header: str | None, now: float) -> float | None:
    """Seconds, whether the header says seconds or a date; None when it says neither."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None
