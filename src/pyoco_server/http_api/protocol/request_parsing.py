"""Reads requests: the caller, the command context and JSON bodies, with the limits that all APIs share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import parse_label
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.responses.problems import describe
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext

B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")

MAX_FIELDS = 32
MAX_DEPTH = 64
# Every value has one of these in front of it.
_MARKS = (b",", b":", b"[", b"{")
# For bodies without free-form values.
FEW_MARKS = 16 * 1024
# Beyond this JSON parsers silently turn integers into floats.
_FIRST_UNSAFE = 2.0**63


def services_of(request: HTTPConnection) -> Services:
    services: Services = request.app.state.services
    return services


def caller_of(request: HTTPConnection) -> Caller:
    caller: Caller = request.scope.get("caller", ANYONE)
    return caller


def context_of(request: HTTPConnection) -> CommandContext:
    """The context of the caller's commands; the correlation id connects events, log lines and responses."""
    caller = caller_of(request)
    return CommandContext(
        actor=Actor(kind="user", id=caller.name),
        tenant_filter=caller.tenant_filter,
        correlation_id=request.scope.get("correlation_id"),
        request_id=request.scope.get("request_id"),
        address=request.client.host if request.client else None,
    )


def read(schema: type[B], body: bytes, *, max_marks: int = FEW_MARKS) -> B:
    """The body as a model; `InvalidRequest` names what is wrong."""
    plain = parse_json(body, max_marks)
    if isinstance(plain, dict) and len(plain) > MAX_FIELDS:
        # Describing each unknown field would be expensive.
        known = ", ".join(field.alias or name for name, field in schema.model_fields.items())
        raise InvalidRequest(f"the body has {len(plain)} fields; known are {known}")
    return validate(schema, plain)


def validate(schema: type[B], plain: object) -> B:
    """A parsed value as a model; `InvalidRequest` names what is wrong."""
    try:
        return schema.model_validate(plain)
    except ValidationError as error:
        raise InvalidRequest(describe(error.errors())) from error


def read_optional(schema: type[B], body: bytes) -> B:
    """The same for a body that may be empty."""
    return read(schema, body if body.strip() else b"{}")


def read_with_params(schema: type[B], body: bytes, config: NatsBackendConfig) -> B:
    """The same for a body that contains params."""
    return read(schema, body, max_marks=largest_params(config) + FEW_MARKS)


def request_of(
    caller: Caller,
    config: NatsBackendConfig,
    *,
    flow_name: str,
    params: Mapping[str, Any],
    tag: str | None,
    timeout_sec: float | None,
) -> Request:
    """The request of a caller, with the default tag unless a checked one is given."""
    return Request(
        flow_name=flow_name,
        tag=config.default_tag if tag is None else tag,
        input=params,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        timeout_sec=timeout_sec,
    )


def labels_of(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(parse_label(label) for label in given)


def bounded_json(value: T, max_bytes: int, name: str) -> T:
    """The value, or `RequestTooLarge`."""
    size = len(orjson.dumps(value))
    if size > max_bytes:
        raise RequestTooLarge(f"{name}: {size} bytes as JSON; at most {max_bytes} are accepted")
    return value


def largest_params(config: NatsBackendConfig) -> int:
    """Half of a snapshot, so that the results of the run still fit."""
    return config.max_run_snapshot_bytes // 2


def parse_json(body: bytes, max_marks: int = FEW_MARKS) -> Any:
    """The value of `body`, or `InvalidRequest`.

    More than `max_marks` commas, colons and brackets are rejected unparsed: a megabyte of tiny values takes a hundred
    times as long to parse as a megabyte of text, and would block all other requests.
    """
    if len(body) > max_marks and sum(body.count(mark) for mark in _MARKS) > max_marks:
        raise RequestTooLarge("the body has more values than are accepted")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from error
    _check(value, body)
    return value


def _check(value: Any, body: bytes) -> None:
    level, depth, may_be_rounded = [value], 0, False
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float | int) and abs(item) >= _FIRST_UNSAFE:
                may_be_rounded = True
        level = below
    # After the check of the depth, which the json module would not survive.
    if may_be_rounded:
        _refuse_rounded_integers(body)


def _refuse_rounded_integers(body: bytes) -> None:
    def checked(text: str) -> int:
        number = int(text) if len(text) < 40 else 2**64
        if not -(2**63) <= number < 2**63:
            raise InvalidRequest("integers beyond 64 bits would be rounded; send them as strings")
        return number

    json.loads(body, parse_int=checked)
