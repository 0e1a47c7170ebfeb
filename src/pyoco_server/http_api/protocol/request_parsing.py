"""Parses request bodies into models, with the limits that all APIs share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import parse_label, parse_tag
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.protocol import json_body
from pyoco_server.http_api.responses.problems import describe

B = TypeVar("B", bound=BaseModel)

MAX_FIELDS = 32


def read(schema: type[B], body: bytes, *, most_marks: int = json_body.FEW_MARKS) -> B:
    """The body as a model; `InvalidRequest` names what is wrong."""
    plain = json_body.parse(body, most_marks)
    if isinstance(plain, dict) and len(plain) > MAX_FIELDS:
        # Describing each unknown field would be expensive.
        known = ", ".join(field.alias or name for name, field in schema.model_fields.items())
        raise InvalidRequest(f"the body has {len(plain)} fields; known are {known}")
    try:
        return schema.model_validate(plain)
    except ValidationError as error:
        raise InvalidRequest(describe(error.errors(include_url=False, include_context=False))) from error


def read_with_params(schema: type[B], body: bytes, config: NatsBackendConfig) -> B:
    """The same for a body that contains params."""
    return read(schema, body, most_marks=largest_params(config) + json_body.FEW_MARKS)


def request_of(
    caller: Caller,
    config: NatsBackendConfig,
    *,
    flow_name: str,
    params: Mapping[str, Any],
    tag: str | None,
    timeout_sec: float | None,
) -> Request:
    """The request of a caller; without a tag, for the default one."""
    return Request(
        flow_name=flow_name,
        tag=parse_tag(tag if tag is not None else config.default_tag),
        input=params,
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        timeout_sec=timeout_sec,
    )


def labels_of(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(parse_label(label) for label in given)


def checked_params(params: Mapping[str, Any], config: NatsBackendConfig, name: str = "params") -> Mapping[str, Any]:
    """The params, or `RequestTooLarge`."""
    limit = largest_params(config)
    size = len(orjson.dumps(params))
    if size > limit:
        raise RequestTooLarge(f"{name} have {size} bytes as JSON; at most {limit} are accepted")
    return params


def largest_params(config: NatsBackendConfig) -> int:
    """Half of a snapshot, so that the results of the run still fit."""
    return config.max_run_snapshot_bytes // 2
