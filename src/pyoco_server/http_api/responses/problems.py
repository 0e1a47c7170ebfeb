"""Errors as HTTP responses: one table from kind to status, one dialect per API."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match

from pyoco_server.adapters.system import SystemClock
from pyoco_server.errors import (
    InternalError,
    InvalidApiKey,
    InvalidListQuery,
    InvalidLogQuery,
    InvalidRequest,
    InvalidWorkersRequest,
    Kind,
    MethodNotAllowed,
    PyocoError,
    RouteNotFound,
    TooManyWatchers,
)
from pyoco_server.http_api.middleware.access_log import access_fields, note_logged
from pyoco_server.http_api.middleware.api_metrics import note_error
from pyoco_server.http_api.middleware.rejection_log import RejectionLog
from pyoco_server.http_api.responses.error_hints import hint_of, message_of
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.japanese import japanese

logger = logging.getLogger(__name__)

STATUS = {
    Kind.INVALID: 422,
    Kind.TOO_LARGE: 413,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.MISDIRECTED: 421,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.PRECONDITION: 412,
    Kind.RANGE: 416,
    Kind.RATE_LIMITED: 429,
    Kind.UNAVAILABLE: 503,
    Kind.BAD_GATEWAY: 502,
    Kind.INTERNAL: 500,
}
# The contract of these paths wants 403 for an API key that is not accepted; elsewhere it is 401, as HTTP has it.
BAD_KEY_IS_FORBIDDEN = ("/runs", "/workers", "/wheels", "/metrics")
# Paths with an error id of their own for an invalid query.
LISTS = ("/runs", "/jobs", "/tags")
# When a client should retry: NATS is usually back within seconds.
RETRY_AFTER_SEC = "2"
# Names of parameters and fields may be the caller's own.
MAX_PLACE_CHARS = 200
MAX_METHOD_CHARS = 20
MAX_MESSAGE_CHARS = 500
METHOD_NOT_ALLOWED = 405
# Of mounted files, which are not routes of ours.
FILE_METHODS = ["GET", "HEAD"]
JSON = "application/json"

Responses = dict[int | str, dict[str, Any]]


class Problem(BaseModel):
    """An error, with a hint what to do about it."""

    detail: str
    err_id: str = Field(examples=["ERR-PYOCO-0005"])
    msg_id: str = Field(examples=["MSG-PYOCO-0005"])
    message: str
    hint: str


class ExecutionProblemBody(BaseModel):
    """`code` is for programs, `message` for people; `details` has the ids, a hint, and the violated guard."""

    code: str = Field(examples=["COMMAND_REJECTED"])
    message: str = Field(examples=["ResumeNode rejected because execution is cancel-requested"])
    details: dict[str, Any]


class ExecutionProblem(BaseModel):
    """An error of `/executions`."""

    error: ExecutionProblemBody


class JobProblem(BaseModel):
    """An error of `/jobs` (RFC 9457); `code` and `errId` are for programs."""

    type: str = Field(examples=["urn:pyoco:error:ERR-PYOCO-0005"])
    title: str = Field(examples=["run not found"])
    status: int = Field(examples=[404])
    detail: str
    instance: str = Field(description="The requested path.")
    code: str = Field(examples=["EXECUTION_NOT_FOUND"])
    err_id: str = Field(alias="errId", examples=["ERR-PYOCO-0005"])
    msg_id: str = Field(alias="msgId", examples=["MSG-PYOCO-0005"])
    hint: str
    guard: str | None = Field(
        default=None, description="The guard that rejected a command.", examples=["TOO_MANY_TAGS"]
    )


class PdcaCode(Enum):
    """The errors of `/pdca` and `/gui`: there are no others."""

    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    RATE_LIMITED = "RATE_LIMITED"
    AIRFLOW_DOWN = "AIRFLOW_DOWN"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class PdcaProblem(BaseModel):
    """An error of `/pdca` and `/gui`."""

    model_config = ConfigDict(extra="forbid")

    error: PdcaCode
    message: str = Field(examples=["window: give from and to, or lookback_days"])
    retry_after: int | None = Field(default=None, ge=1, description="Seconds; only of RATE_LIMITED.", examples=[12])


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an API writes its errors; `body` gets the error, the language, the status and the path.

    `statuses` are those of kinds that differ from the other APIs.
    """

    model: type[BaseModel]
    body: Callable[[PyocoError, str, int, str], dict[str, Any]]
    media_type: str = JSON
    statuses: Mapping[Kind, int] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """For the OpenAPI document."""
        return {self.media_type: {"schema": {"$ref": f"#/components/schemas/{self.model.__name__}"}}}

    def failures(self, *statuses: int) -> Responses:
        """The error responses of a route, for the OpenAPI document."""
        if self.media_type == JSON:
            return {status: {"model": self.model} for status in statuses}
        return {status: {"description": HTTPStatus(status).phrase, "content": self.content} for status in statuses}

    def answers(self, model: Any, *statuses: int) -> Responses:
        """The responses of a route, for the OpenAPI document."""
        return {200: {"model": model}, **self.failures(*statuses)}


def _run_body(error: PyocoError, language: str, _status: int, _path: str) -> dict[str, Any]:
    message, hint = error.texts(language)
    return {
        "detail": error.detail_in(language),
        "err_id": error.err_id,
        "msg_id": error.msg_id,
        "message": message,
        "hint": hint,
    }


def _execution_body(error: PyocoError, language: str, _status: int, _path: str) -> dict[str, Any]:
    facts = {"executionId" if name == "run_id" else to_camel(name): value for name, value in error.facts.items()}
    ids = {"errId": error.err_id, "msgId": error.msg_id, "hint": hint_of(error, language)}
    return {"error": {"code": error.code, "message": message_of(error, language), "details": facts | ids}}


def _job_body(error: PyocoError, language: str, status: int, path: str) -> dict[str, Any]:
    message, hint = error.texts(language)
    guard = {"guard": error.facts["why"]} if "why" in error.facts else {}
    return guard | {
        "type": f"urn:pyoco:error:{error.err_id}",
        "title": message,
        "status": status,
        "detail": error.detail_in(language),
        "instance": path[:MAX_PLACE_CHARS],
        "code": error.code,
        "errId": error.err_id,
        "msgId": error.msg_id,
        "hint": hint,
    }


_PDCA_CODES = {
    Kind.UNAUTHENTICATED: PdcaCode.UNAUTHORIZED,
    Kind.FORBIDDEN: PdcaCode.FORBIDDEN,
    Kind.NOT_FOUND: PdcaCode.NOT_FOUND,
    Kind.CONFLICT: PdcaCode.IDEMPOTENCY_CONFLICT,
    Kind.RATE_LIMITED: PdcaCode.RATE_LIMITED,
    Kind.BAD_GATEWAY: PdcaCode.AIRFLOW_DOWN,
    Kind.UNAVAILABLE: PdcaCode.INTERNAL_ERROR,
    Kind.INTERNAL: PdcaCode.INTERNAL_ERROR,
}
# Everything else that a caller can do wrong; and an outage is an error of the server.
_PDCA_STATUSES = {
    **dict.fromkeys((Kind.INVALID, Kind.TOO_LARGE, Kind.MISDIRECTED, Kind.PRECONDITION, Kind.RANGE), 400),
    Kind.UNAVAILABLE: 500,
}
# Their details name parts of the installation.
_PDCA_MESSAGES = {
    Kind.UNAVAILABLE: "temporarily unavailable; send the request again in a moment",
    Kind.BAD_GATEWAY: "the engine that runs batches does not answer; send the request again in a moment",
    Kind.INTERNAL: "internal error; report it with the X-Request-Id of this response",
}


def _pdca_body(error: PyocoError, language: str, status: int, _path: str) -> dict[str, Any]:
    # The key of a refused API key is forbidden elsewhere; here it is unauthorised.
    kind = Kind.UNAUTHENTICATED if status == STATUS[Kind.UNAUTHENTICATED] else error.kind
    fixed = _PDCA_MESSAGES.get(kind)
    message = error.detail_in(language) if fixed is None else japanese(fixed) if language == "ja" else fixed
    body = {"error": _PDCA_CODES.get(kind, PdcaCode.BAD_REQUEST).value, "message": message[:MAX_MESSAGE_CHARS]}
    return body | ({"retry_after": _retry_after(error)} if kind is Kind.RATE_LIMITED else {})


def _retry_after(error: PyocoError) -> int:
    """The seconds after which a rate-limited caller may try again."""
    seconds = error.facts.get("retry_after_sec")
    return max(1, math.ceil(seconds)) if isinstance(seconds, int | float) else 1


RUNS = Dialect(model=Problem, body=_run_body)
PDCA = Dialect(model=PdcaProblem, body=_pdca_body, statuses=_PDCA_STATUSES)
EXECUTIONS = Dialect(model=ExecutionProblem, body=_execution_body)
JOBS = Dialect(model=JobProblem, body=_job_body, media_type="application/problem+json")
answers, failures, job_failures = RUNS.answers, RUNS.failures, JOBS.failures


def dialect_of(path: str) -> Dialect:
    """By path and not by route: an unknown path below `/jobs` is an error of `/jobs`."""
    if path.startswith(("/executions", "/graphs", "/waits")):
        return EXECUTIONS
    first = path.split("/", 2)[1:2]
    if first in (["pdca"], ["gui"]):
        return PDCA
    return JOBS if first in (["jobs"], ["tags"]) else RUNS


def install(app: FastAPI) -> None:
    """Render every error by the catalogue, and log it."""
    app.state.rejections = RejectionLog(SystemClock())
    app.add_exception_handler(PyocoError, _pyoco_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _client_disconnected)
    app.add_exception_handler(Exception, _unexpected)


def response_for(request: HTTPConnection, error: PyocoError, status: int | None = None) -> Response:
    """The response of an error, with the status of its kind unless given; logs it."""
    path: str = request.scope["path"]  # the URL would depend on the Host header
    dialect = dialect_of(path)
    if status is None or (dialect is PDCA and status != METHOD_NOT_ALLOWED):
        status = status_of(error, path)
    note_error(request.scope, error)
    context = access_fields(request.scope, status)
    context |= {"path": path, "correlation_id": request.scope.get("correlation_id")}
    # A caller who opens streams until it is refused is no failure of the gateway, and must not fill its log.
    if status >= 500 and not isinstance(error, TooManyWatchers):
        ids = {"err_id": error.err_id, "msg_id": error.msg_id}
        logger.error("request failed", exc_info=error, extra=context | ids)
        note_logged(request.scope)
    elif request.app.state.rejections.note(error, context):
        note_logged(request.scope)
    headers = {"Vary": "Accept-Language"}
    if error.kind is Kind.RATE_LIMITED:
        headers["Retry-After"] = str(_retry_after(error))
    elif error.kind in (Kind.UNAVAILABLE, Kind.BAD_GATEWAY):
        headers["Retry-After"] = RETRY_AFTER_SEC
    elif status == 401:
        headers["WWW-Authenticate"] = request.app.state.challenge
    elif status == 416:
        headers["Content-Range"] = f"bytes */{error.facts['size_bytes']}"
    body = orjson.dumps(dialect.body(error, preferred_language(request), status, path), default=repr)
    return Response(body, status_code=status, headers=headers, media_type=dialect.media_type)


def status_of(error: PyocoError, path: str) -> int:
    """The status of an error's kind, but for the one on which the APIs disagree."""
    if isinstance(error, InvalidApiKey) and not f"{path}/".startswith(tuple(f"{one}/" for one in BAD_KEY_IS_FORBIDDEN)):
        return STATUS[Kind.UNAUTHENTICATED]
    return dialect_of(path).statuses.get(error.kind, STATUS[error.kind])


# pydantic's messages about these name classes of this program.
_NOT_AN_OBJECT = ("model_type", "model_attributes_type")


def describe(errors: Sequence[Any]) -> str:
    """The first validation errors in one line: where, and what is wrong."""
    found = []
    for error in errors[:5]:
        place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))[:MAX_PLACE_CHARS]
        message = "a JSON object is required" if error["type"] in _NOT_AN_OBJECT else error["msg"]
        found.append(f"{place}: {message}" if place else message)
    return "; ".join(found)


async def _pyoco_error(request: Request, error: Any) -> Response:
    return response_for(request, error)


async def _validation_error(request: Request, error: Any) -> Response:
    return response_for(request, invalid_input(request.method, request.scope["path"])(describe(error.errors())))


def invalid_input(method: str, path: str) -> type[PyocoError]:
    """The error for invalid input: the contract has an id of its own for some paths."""
    if path.startswith("/workers"):
        return InvalidWorkersRequest
    if method == "GET" and path.endswith(("/logs", "/logs/matches")):
        return InvalidLogQuery
    return InvalidListQuery if method == "GET" and path in LISTS else InvalidRequest


async def _http_error(request: Request, error: Any) -> Response:
    path = request.scope["path"][:MAX_PLACE_CHARS]
    if error.status_code == 404:
        return response_for(request, RouteNotFound(f"there is nothing at {path}"))
    if error.status_code == 405:
        allowed = ", ".join(_methods_at(request))
        detail = f"{request.method[:MAX_METHOD_CHARS]} is not allowed at {path}; allowed: {allowed}"
        response = response_for(request, MethodNotAllowed(detail, allowed=allowed), METHOD_NOT_ALLOWED)
        response.headers["Allow"] = allowed
        return response
    response = response_for(request, InvalidRequest(str(error.detail)), error.status_code)
    response.headers.update(error.headers or {})
    return response


def _methods_at(request: Request) -> list[str]:
    """The methods of all routes with the path of a request, which none of them has."""
    routes = [route for route in request.app.router.routes if route.matches(request.scope)[0] is Match.PARTIAL]
    return sorted({method for route in routes for method in route.methods}) or FILE_METHODS


async def _client_disconnected(request: Request, error: Exception) -> Response:
    # Not sent; without it a client that disconnects within its body would be logged as a fault of the server.
    return response_for(request, InvalidRequest("the body ended early"))


async def _unexpected(request: Request, error: Exception) -> Response:
    internal = InternalError()
    internal.__cause__ = error
    response = response_for(request, internal)
    # The framework answers exceptions outside of all middleware, which adds these headers elsewhere.
    response.headers["X-Request-Id"] = request.scope.get("request_id", "")
    response.headers["X-Correlation-Id"] = request.scope.get("correlation_id", "")
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    return response
