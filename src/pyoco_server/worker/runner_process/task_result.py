"""Converts what a task returned to plain JSON of bounded size.

A value that Python's `json` cannot encode is rejected, because it could not be read later. A value that JSON can hold
and the stores cannot (NaN, integers beyond 64 bits, too many bytes) is replaced by a marker that describes it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math

import orjson

from pyoco_server.trace import encodable

OUTPUT_CAP_BYTES = 64 * 1024
PREVIEW_BYTES = 1024
REPR_CAP_BYTES = 4 * 1024


class UnserialisableResult(TypeError):
    """a task returned a value that cannot be encoded as JSON"""


def to_storable(value: object) -> object:
    """A copy of the value as JSON, or a marker in its place; `UnserialisableResult` if it cannot be encoded."""
    if value is None or value is True or value is False:
        return value
    try:
        data = _encoded(value)
    except TypeError as error:  # orjson.JSONEncodeError is one
        if not _is_json(value):
            raise UnserialisableResult(_refusal(value, error)) from None
        return _described(value)
    if len(data) > OUTPUT_CAP_BYTES:
        preview = data[:PREVIEW_BYTES].decode("utf-8", "ignore")
        return {"truncated": True, "bytes": len(data), "preview": preview}
    # orjson writes NaN and the infinities as null: search only then.
    if b"null" in data and _has_non_finite_number(value):
        return _described(value)
    return orjson.loads(data)


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)  # {1: "one"}; slower, so only on demand


def _is_json(value: object) -> bool:
    """Whether Python's encoder, which has no limits, can encode it."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _refusal(value: object, error: TypeError) -> str:
    if inspect.isasyncgen(value) or inspect.isgenerator(value):
        return "the task yields instead of returning: collect what it yields in a list and return that"
    why = encodable(str(error), REPR_CAP_BYTES)
    return (
        f"the result of the task cannot be stored as JSON: {why}. Return plain data (dict, list, str, numbers, None);"
        " an object that only later tasks need can be handed on in ctx.scratch"
    )


def _described(value: object) -> dict[str, str]:
    kind = type(value)
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  # user code: a `__repr__` may raise anything
        text = f"<{kind.__name__} whose repr raised {type(error).__name__}>"
    return {"repr": encodable(text, REPR_CAP_BYTES), "type": encodable(kind.__qualname__)}


def _has_non_finite_number(value: object) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif dataclasses.is_dataclass(item):
            pending.extend(getattr(item, field.name, None) for field in dataclasses.fields(item))
    return False
