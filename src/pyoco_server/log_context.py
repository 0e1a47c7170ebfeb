"""What every log line of the present work carries: the ids of the request that caused it. Tasks inherit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token
from types import MappingProxyType

Fields = Mapping[str, str]

_NOTHING: Fields = MappingProxyType({})
_fields: ContextVar[Fields] = ContextVar("pyoco_log_fields", default=_NOTHING)


def log_fields() -> Fields:
    """The fields of the present work; those that a call site passes win."""
    return _fields.get()


def current_request_id() -> str | None:
    """The `X-Request-Id` of the HTTP request that the present work belongs to; None outside of requests."""
    return _fields.get().get("x_request_id")


def begin_work(request_id: str | None, correlation_id: str | None) -> Token[Fields]:
    """From now on lines of this task have these ids; give the token to `end_work` when the work ends in this task."""
    fields = {} if request_id is None else {"x_request_id": request_id}
    if correlation_id not in (None, request_id):
        fields["correlation_id"] = str(correlation_id)
    return _fields.set(fields)


def end_work(token: Token[Fields]) -> None:
    _fields.reset(token)


@contextmanager
def work_for(request_id: str | None, correlation_id: str | None) -> Iterator[None]:
    """`begin_work` and `end_work` around a block."""
    token = begin_work(request_id, correlation_id)
    try:
        yield
    finally:
        end_work(token)


def shared_context() -> Context:
    """For a task that a request starts and others share: without the ids of that request."""
    return Context()
