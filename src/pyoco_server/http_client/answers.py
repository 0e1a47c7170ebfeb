"""Turns answers into results or errors, and classifies failures. Neither waits nor sends."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, TypeVar

from pyoco_server.http_client.errors import (
    GatewayUnreachable,
    PyocoHttpError,
    RateLimited,
    SubmitUncertain,
    Unavailable,
    UnexpectedAnswer,
    http_error_class,
    in_language,
    language_of,
)
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.requests import Request

T = TypeVar("T")
Failure = httpx.RequestError | PyocoHttpError
FAILURES = (httpx.RequestError, PyocoHttpError)


class FailureKind(Enum):
    """What is known about a request that failed."""

    NOT_SENT = "no connection was made, or the limit of a rate was reached: the gateway has carried out nothing"
    MAY_BE_DONE = "the gateway may have carried out the request"
    FINAL = "a repeat would get the same answer"


_MAX_SHOWN = 200
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_OWN_FAULT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.TooManyRedirects)


def result(request: Request[T], response: httpx.Response) -> T:
    try:
        return request.read(_text(response))
    except (ValueError, RecursionError) as error:
        raise unexpected(response, f" where a gateway's answer was expected ({error})") from error


def unexpected(response: httpx.Response, why: str) -> UnexpectedAnswer:
    """The answer is a success, and not what a gateway sends."""
    language = language_of(response.request)
    detail = in_language(f"{_origin(response)}{why}", language)
    hint = in_language("Check the address, and what stands between here and the gateway.", language)
    return UnexpectedAnswer(detail, request=response.request, response=response, hint=hint)


def error_of(response: httpx.Response, now: float) -> PyocoHttpError:
    """The error for an answer; `now` (unix seconds) is the reference for a date in Retry-After."""
    body = _problem(response)
    err_id = _string(body, "err_id")
    retry_after = _retry_after_sec(response.headers.get("retry-after"), now)
    # Below /pdca and /gui an outage is a 500; unlike a failure it says when to retry.
    is_outage = response.status_code == 500 and retry_after is not None
    return http_error_class(err_id, 503 if is_outage else response.status_code)(
        _string(body, "detail") or _foreign_detail(response),
        request=response.request,
        response=response,
        err_id=err_id,
        msg_id=_string(body, "msg_id"),
        message=_string(body, "message"),
        hint=_string(body, "hint"),
        retry_after=retry_after,
        code=_string(body, "code"),
        guard=_string(body, "guard"),
    )


def failure_kind(failure: Failure) -> FailureKind:
    if isinstance(failure, RateLimited):
        return FailureKind.NOT_SENT
    if isinstance(failure, PyocoHttpError):
        return FailureKind.MAY_BE_DONE if isinstance(failure, Unavailable) else FailureKind.FINAL
    # A repeat meets the same certificate.
    if isinstance(failure, _OWN_FAULT) or "CERTIFICATE_VERIFY_FAILED" in str(failure):
        return FailureKind.FINAL
    return FailureKind.NOT_SENT if isinstance(failure, _NOT_SENT) else FailureKind.MAY_BE_DONE


def unreachable(
    failure: httpx.RequestError, request: Request[Any], tries: int, *, may_be_done: bool = False
) -> GatewayUnreachable:
    """The error for a connection failure that is not retried any more."""
    sent = failure.request
    why = _plain(str(failure)) or type(failure).__name__
    place = f"{sent.url.scheme}://{sent.url.netloc.decode('ascii')}"
    tried = f", tried {tries} times" if tries > 1 else ""
    if request.creates and may_be_done:
        detail = f"the connection to {place} broke while submitting: {why}{tried}"
        return SubmitUncertain(detail, request=sent, idempotency_key=request.idempotency_key)
    return GatewayUnreachable(f"the gateway at {place} cannot be reached: {why}{tried}", request=sent)


def _text(response: httpx.Response) -> str:
    """The body as UTF-8, which gateways always send; a charset named by another server is ignored."""
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
    match body:
        case {"error": dict(error)}:
            return _of_executions(error)
        case {"error": str(code), "message": str(message)}:
            return {"code": code, "detail": message}  # /pdca and /gui
        case _:
            return body


def _of_jobs(problem: dict[str, Any]) -> dict[str, Any]:
    """The error format of jobs (RFC 9457) with the field names of runs."""
    names = {"err_id": "errId", "msg_id": "msgId", "message": "title"}
    return problem | {ours: problem.get(theirs) for ours, theirs in names.items()}


def _of_executions(error: dict[str, Any]) -> dict[str, Any]:
    """The error format of executions, waits and graphs with the field names of runs."""
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


def _foreign_detail(response: httpx.Response) -> str:
    text = _plain(_text(response))
    origin = in_language(_origin(response), language_of(response.request))
    return f"{origin}: {text}" if text else origin


def _origin(response: httpx.Response) -> str:
    kind = _plain(response.headers.get("content-type", "")).partition(";")[0] or "nothing"
    reason = _plain(response.reason_phrase) or str(response.status_code)
    return f"{reason}: {response.request.method} {response.request.url} answered with {kind}"


def _plain(text: str, limit: int = _MAX_SHOWN) -> str:
    """Foreign text made safe to show: one line, bounded, without terminal control characters."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: limit * 4]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _retry_after_sec(header: str | None, now: float) -> float | None:
    """Seconds from a number or a date; None for anything else."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None
