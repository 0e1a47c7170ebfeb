"""Idempotency keys, and the digests that identify requests: canonical JSON and multipart forms."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from math import isfinite
from typing import Any, NewType
from unicodedata import normalize

import orjson

from pyoco_server.errors import InvalidRequest

DIGEST_PREFIX = "sha256:"
# ECMAScript writes digits up to 10^21 and zeros behind the point down to 10^-6; then exponents.
_MOST_PLACES, _MOST_ZEROS = 21, 6
_PLAIN = {dict, list, str, int, bool, type(None)}


def canonical(value: Any) -> bytes:
    """The one way to write this value; `InvalidRequest` for what has none: NaN, infinities, keys that are the same."""
    if _is_plain(value):
        data = _dumped(value, orjson.OPT_SORT_KEYS)
        # All keys and strings are ASCII then: their order is the same by bytes and by code units, and all are in NFC.
        if data.isascii():
            return data
    return _dumped(_normal(value))


def json_digest(value: Any, *, leave_out: Collection[str] = ()) -> str:
    """What identifies the value; keys of the outermost object in `leave_out` do not count."""
    if leave_out and isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in leave_out}
    return DIGEST_PREFIX + sha256(canonical(value)).hexdigest()


def _dumped(value: Any, option: int = 0) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError as error:  # half of a surrogate pair, an integer that is too large
        raise InvalidRequest(f"this cannot be written as JSON: {error}") from error


def _is_plain(value: Any) -> bool:
    """Whether the fast writer writes it as we would, but for its texts; asks level by level, not value by value."""
    level: list[Any] = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds <= _PLAIN:
            return False
        below: list[Any] = []
        if dict in kinds:
            below.extend(_within(item.values() for item in level if type(item) is dict))
        if list in kinds:
            below.extend(_within(item for item in level if type(item) is list))
        level = below
    return True


def _within(containers: Iterable[Iterable[Any]]) -> Iterable[Any]:
    return chain.from_iterable(containers)


def _normal(value: Any) -> Any:
    """The value with everything in it as it is to be written, in the order in which it is to be written."""
    match value:
        case str():
            return _text(value)
        case dict():
            return _object(value)
        case list():
            return [_normal(item) for item in value]
        case bool() | None:
            return value
        case float():
            return orjson.Fragment(number(value))
        case int():
            return value
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def _text(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def _object(plain: dict[str, Any]) -> dict[str, Any]:
    normal = {_text(key): _normal(item) for key, item in plain.items()}
    if len(normal) != len(plain):
        raise InvalidRequest("two keys of an object are the same text (by Unicode's form NFC); one would be lost")
    if all(map(str.isascii, normal)):
        return dict(sorted(normal.items()))
    # Signs beyond the first 65,536 are two units each, which stand before the last 8,192 of those.
    return dict(sorted(normal.items(), key=lambda item: item[0].encode("utf-16-be", "surrogatepass")))


def number(value: float) -> str:
    """A float as ECMAScript writes it (Number::toString, ECMA-262 §6.1.6.1.20)."""
    if not isfinite(value):
        raise InvalidRequest("NaN and infinities are not JSON")
    if value == 0:
        return "0"
    # Python finds the same digits, the shortest that read back as this number; only the layout may differ.
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    return ("-" if value < 0 else "") + _laid_out(whole + fraction, len(whole) + int(exponent))


def _laid_out(digits: str, point: int) -> str:
    """The number 0.digits × 10^point; what has fewer places before its point is laid out as Python does it."""
    if len(digits) <= point <= _MOST_PLACES:
        return digits.ljust(point, "0")
    if -_MOST_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return f"{digits[0]}.{digits[1:]}{power}" if len(digits) > 1 else digits + power


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """A part, and the SHA-256 of its bytes: of a large one they are fed to it as they come, and never kept."""

    name: str
    sha256: bytes
    file_name: str | None = None

    @classmethod
    def of(cls, name: str, content: bytes, file_name: str | None = None) -> FormPart:
        """A part that is in memory."""
        return cls(name=name, sha256=sha256(content).digest(), file_name=file_name)


def form_digest(parts: Iterable[FormPart]) -> str:
    """What identifies the form. The file's name counts where one is given: a route gives those that it looks at."""
    told = sorted(prefixed(*_fields(part)) for part in parts)
    return DIGEST_PREFIX + sha256(prefixed(b"form", *told)).hexdigest()


def _fields(part: FormPart) -> list[bytes]:
    named = [] if part.file_name is None else [_bytes(part.file_name)]
    return [_bytes(part.name), part.sha256, *named]


def prefixed(*fields: bytes) -> bytes:
    """The fields in one piece, each behind its length: no two lists of fields make the same bytes."""
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


IdempotencyKey = NewType("IdempotencyKey", str)
RecordKey = NewType("RecordKey", str)

MAX_KEY_CHARS = 255
KEY_PATTERN = r"[!-~](?:[ -~]{0,253}[!-~])?"
_KEY = re.compile(KEY_PATTERN)


def parse_key(text: str) -> IdempotencyKey:
    """A key as callers may choose it."""
    if not _KEY.fullmatch(text):
        raise InvalidRequest(
            f"an idempotency key has 1 to {MAX_KEY_CHARS} printable ASCII characters and no spaces at its ends"
        )
    return IdempotencyKey(text)


def record_key(*, tenant_id: str | None, method: str, path: str, key: IdempotencyKey) -> RecordKey:
    """Where the record of a request is kept; `path` is the concrete one, with its ids and its query.

    A key is a tenant's own, and means one thing per method and path: the same word elsewhere is another key.
    """
    fields = (tenant_id or "", method, path, key)
    return RecordKey(sha256(prefixed(*(field.encode("utf-8", "surrogatepass") for field in fields))).hexdigest())
