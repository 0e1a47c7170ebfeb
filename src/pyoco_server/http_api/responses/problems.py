"""Errors → HTTP: one table from kind to status, one body per dialect. Nothing here decides what went wrong."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pyoco_server.adapters.system import SystemClock
from pyoco_server.errors import (
    InternalError,
    InvalidApiKey,
    InvalidListQuery,
    InvalidLogQuery,
    InvalidRequest,
    InvalidWorkersRequest,
    Kind,
    PyocoError,
    RouteNotFound,
)
from pyoco_server.http_api.middleware.rejection_log import RejectionLog
from pyoco_server.http_api.responses.error_hints import hint_of, message_of

logger = logging.getLogger(__name__)

STATUS = {
    Kind.INVALID: 422,
    Kind.TOO_LARGE: 413,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.PRECONDITION: 412,
    Kind.RANGE: 416,
    Kind.UNAVAILABLE: 503,
    Kind.INTERNAL: 500,
}
# Elsewhere a key that is not accepted is a 401, as HTTP has it; these paths follow a contract that says 403.
BAD_KEY_IS_FORBIDDEN = ("/runs", "/workers", "/wheels", "/metrics")
# Where a query that is not understood has an id of its own.
LISTS = ("/runs", "/jobs", "/tags")
# What a client should wait before it tries again: NATS is usually back within seconds.
RETRY_AFTER_SEC = "2"
# The name of a parameter or field may be the caller's own; so much of it is told back.
MAX_PLACE_CHARS = 200


# Paths whose errors are told in the words of `/executions`, and in those of `/jobs`; everything else follows `/runs`.
EXECUTION_PATHS = ("/executions", "/graphs", "/waits")
JOB_PATHS = ("/jobs", "/tags")
JSON, PROBLEM_JSON = "application/json", "application/problem+json"


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    detail: str
    err_id: str = Field(examples=["ERR-PYOCO-0005"])
    msg_id: str = Field(examples=["MSG-PYOCO-0005"])
    message: str
    hint: str


class ExecutionProblemBody(BaseModel):
    """`code` is for programs, `message` for people; `details` has the ids, a hint, and the guard that was violated."""

    code: str = Field(examples=["COMMAND_REJECTED"])
    message: str = Field(examples=["ResumeNode rejected because execution is cancel-requested"])
    details: dict[str, Any]


class ExecutionProblem(BaseModel):
    """What went wrong, in the words of `/executions`."""

    error: ExecutionProblemBody


class JobProblem(BaseModel):
    """What went wrong, in the words of `/jobs` (RFC 9457); `code` and `errId` are for programs."""

    type: str = Field(examples=["urn:pyoco:error:ERR-PYOCO-0005"])
    title: str = Field(examples=["run not found"])
    status: int = Field(examples=[404])
    detail: str
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(examples=["EXECUTION_NOT_FOUND"])
    err_id: str = Field(alias="errId", examples=["ERR-PYOCO-0005"])
    msg_id: str = Field(alias="msgId", examples=["MSG-PYOCO-0005"])
    hint: str
    guard: str | None = Field(
        default=None, description="Of a refused command: what it ran into.", examples=["TOO_MANY_TAGS"]
    )


def failures(*statuses: int, model: type[BaseModel] = Problem) -> dict[int | str, dict[str, Any]]:
    """How a route may fail, for the OpenAPI document."""
    return {status: {"model": model} for status in statuses}


def answers(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route answers and how it may fail, for the OpenAPI document."""
    return {200: {"model": model}, **failures(*statuses)}


def json_request(schema: type[BaseModel], *, required: bool) -> dict[str, Any]:
    """The JSON body that a route reads by itself, for the OpenAPI document."""
    content = {JSON: {"schema": schema.model_json_schema()}}
    return {"requestBody": {"required": required, "content": content}}


def job_failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route of `/jobs` may fail, for the OpenAPI document."""
    content = problem_content("/jobs")
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def problem_content(path: str) -> dict[str, Any]:
    """How the errors of a path are written, for the OpenAPI document."""
    model: type[BaseModel] = Problem
    media_type = JSON
    if speaks_of_jobs(path):
        model, media_type = JobProblem, PROBLEM_JSON
    elif speaks_of_executions(path):
        model = ExecutionProblem
    return {media_type: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


def speaks_of_jobs(path: str) -> bool:
    """Whether the errors of a path are told in the words of `/jobs`."""
    return f"{path}/".startswith(tuple(f"{one}/" for one in JOB_PATHS))


def speaks_of_executions(path: str) -> bool:
    """Whether the errors of a path are told in the words of `/executions`."""
    return path.startswith(EXECUTION_PATHS)


def install(app: FastAPI) -> None:
    """Render every error by the catalogue, and log it."""
    app.state.rejections = RejectionLog(SystemClock())
    app.add_exception_handler(PyocoError, _pyoco_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _client_gone)
    app.add_exception_handler(Exception, _unexpected)


def run_body(error: PyocoError, language: str) -> dict[str, Any]:
    """The error body of `/runs` and of everything that has no dialect."""
    japanese = language == "ja"
    return {
        "detail": error.detail,
        "err_id": error.err_id,
        "msg_id": error.msg_id,
        "message": error.message_ja if japanese else error.message(),
        "hint": error.hint_ja if japanese else error.hint,
    }


def execution_body(error: PyocoError, language: str) -> dict[str, Any]:
    """The error body of `/executions` and of what belongs to it."""
    facts = {_camel(name): value for name, value in error.facts.items()}
    ids = {"errId": error.err_id, "msgId": error.msg_id, "hint": hint_of(error, language)}
    return {"error": {"code": error.code, "message": message_of(error), "details": facts | ids}}


def job_body(error: PyocoError, language: str, *, status: int, path: str) -> dict[str, Any]:
    """The error body of `/jobs` and of what belongs to it."""
    japanese = language == "ja"
    guard = {"guard": error.facts["why"]} if "why" in error.facts else {}
    return guard | {
        "type": f"urn:pyoco:error:{error.err_id}",
        "title": error.message_ja if japanese else error.message(),
        "status": status,
        "detail": error.detail,
        "instance": path,
        "code": error.code,
        "errId": error.err_id,
        "msgId": error.msg_id,
        "hint": error.hint_ja if japanese else error.hint,
    }


def _told(error: PyocoError, path: str, status: int, language: str) -> tuple[dict[str, Any], str]:
    """The body in the words of the path's dialect, and its media type."""
    if speaks_of_jobs(path):
        return job_body(error, language, status=status, path=path[:MAX_PLACE_CHARS]), PROBLEM_JSON
    if speaks_of_executions(path):
        return execution_body(error, language), JSON
    return run_body(error, language), JSON


def _camel(name: str) -> str:
    if name == "run_id":
        return "executionId"
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def response_for(request: Request, error: PyocoError, status: int | None = None) -> Response:
    """The response that tells of an error, logged where it is the server's fault; its kind says the status, or you."""
    status = status_of(error, request.url.path) if status is None else status
    facts = {"path": request.url.path, "method": request.method, "status": status}
    known = {name: request.scope.get(name) for name in ("request_id", "correlation_id")}
    ids = {"err_id": error.err_id, "msg_id": error.msg_id} | known
    if status >= 500:
        logger.error("request failed", exc_info=error, extra=facts | ids)
    else:
        request.app.state.rejections.note(error, facts | known)
    headers = {}
    if status == 503:
        headers["Retry-After"] = RETRY_AFTER_SEC
    elif status == 401:
        headers["WWW-Authenticate"] = request.app.state.challenge
    elif status == 416:
        headers["Content-Range"] = f"bytes */{error.facts['size_bytes']}"
    body, media_type = _told(error, request.url.path, status, preferred_language(request))
    return Response(orjson.dumps(body, default=repr), status_code=status, headers=headers, media_type=media_type)


def status_of(error: PyocoError, path: str) -> int:
    """The kind decides, but for one error that the dialects disagree about."""
    if isinstance(error, InvalidApiKey) and not f"{path}/".startswith(tuple(f"{one}/" for one in BAD_KEY_IS_FORBIDDEN)):
        return STATUS[Kind.UNAUTHENTICATED]
    return STATUS[error.kind]


def preferred_language(request: Request) -> str:
    """`ja` when the caller would rather have Japanese than English, else `en`."""
    wish = {"ja": 0.0, "en": 0.0}
    for part in request.headers.get("accept-language", "").lower().split(","):
        language, _, quality = "".join(part.split()).partition(";q=")
        name = language.partition("-")[0]
        if name in wish:
            wish[name] = max(wish[name], _number(quality))
    return "ja" if wish["ja"] > wish["en"] else "en"


def _number(quality: str) -> float:
    try:
        return float(quality or 1.0)
    except ValueError:
        return 0.0


def describe(errors: list[Any]) -> str:
    """Validation findings in one sentence each: where, and what is wrong."""
    told = []
    for found in errors[:5]:
        place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))[:MAX_PLACE_CHARS]
        told.append(f"{place}: {found['msg']}" if place else str(found["msg"]))
    return "; ".join(told)


async def _pyoco_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, PyocoError):
        raise error
    return response_for(request, error)


async def _validation_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return response_for(request, _refusal_at(request)(describe(list(error.errors()))))


def _refusal_at(request: Request) -> type[PyocoError]:
    """The contract has an id of its own for bad input to some paths."""
    if request.url.path.startswith("/workers"):
        return InvalidWorkersRequest
    if request.method == "GET" and request.url.path.endswith("/logs"):
        return InvalidLogQuery
    return InvalidListQuery if request.method == "GET" and request.url.path in LISTS else InvalidRequest


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:
        return response_for(request, RouteNotFound(f"there is nothing at {request.url.path[:200]}"))
    response = response_for(request, InvalidRequest(str(error.detail)), error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _client_gone(request: Request, error: Exception) -> Response:
    # Nobody reads this; without it every caller that hangs up in its body would be logged as a fault of the server.
    return response_for(request, InvalidRequest("the body ended before its time"))


async def _unexpected(request: Request, error: Exception) -> Response:
    internal = InternalError()
    internal.__cause__ = error
    response = response_for(request, internal)
    # The framework answers a fault outside of all middleware, where nobody else puts the id on it.
    response.headers["X-Request-Id"] = request.scope.get("request_id", "")
    response.headers["X-Correlation-Id"] = request.scope.get("correlation_id", "")
    return response
