"""Makes what a task returned fit to be stored: plain JSON of bounded size; it never fails because of the value."""

from __future__ import annotations

import dataclasses
import math

import orjson

from pyoco_server.trace import encodable

OUTPUT_CAP_BYTES = 64 * 1024
PREVIEW_BYTES = 1024
REPR_CAP_BYTES = 4 * 1024


def storable(value: object) -> object:
    """A copy of the value as JSON has it; a marker in its place when JSON cannot hold it or it is too large."""
    if value is None or value is True or value is False:
        return value
    try:
        data = orjson.dumps(value)
    except TypeError:  # orjson.JSONEncodeError is one
        return _described(value)
    if len(data) > OUTPUT_CAP_BYTES:
        preview = data[:PREVIEW_BYTES].decode("utf-8", "ignore")
        return {"truncated": True, "bytes": len(data), "preview": preview}
    # orjson writes NaN and the infinities as null: only then is there something to look for.
    if b"null" in data and _has_non_finite_number(value):
        return _described(value)
    return orjson.loads(data)


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
