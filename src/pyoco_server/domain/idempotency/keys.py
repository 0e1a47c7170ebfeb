"""Idempotency keys, and the digests that identify requests: canonical JSON and multipart forms.

Canonical JSON is as in RFC 8785 (no white space, keys by UTF-16 code units, minimal escapes, numbers as ECMAScript
writes them), with two differences:

- Integers of up to 64 bits keep all digits. The RFC has doubles only, for which 2^53 and 2^53 + 1 are equal.
- Strings and keys are normalised to NFC: "é" is the same text as one code point or as two.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from hashlib import sha256
from itertools import chain
from math import isfinite
from typing import Any, NewType
from unicodedata import normalize

import msgspec
import orjson

from pyoco_server.errors import InvalidRequest

DIGEST_PREFIX = "sha256:"
# ECMAScript writes numbers without an exponent from 10^-6 up to 10^21.
_MOST_PLACES, _MOST_ZEROS = 21, 6
_PLAIN = {dict, list, str, int, bool, type(None)}


def canonical(value: Any) -> bytes:
    """The canonical form; `InvalidRequest` for NaN, infinities and keys that are equal after normalisation."""
    if _is_plain(value):
        data = _dumped(value, orjson.OPT_SORT_KEYS)
        # ASCII only: sorted the same by bytes and by code units, and already in NFC.
        if data.isascii():
            return data
    return _dumped(_normal(value))


def json_digest(value: Any, *, leave_out: Collection[str] = ()) -> str:
    """The digest of a value; `leave_out` names keys of the outermost object to ignore."""
    if leave_out and isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in leave_out}
    return DIGEST_PREFIX + sha256(canonical(value)).hexdigest()


def _dumped(value: Any, option: int = 0) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError as error:  # a lone surrogate, or an integer that is too large
        raise InvalidRequest(f"this cannot be written as JSON: {error}") from error


def _is_plain(value: Any) -> bool:
    """Whether orjson alone gives the canonical form, except for texts; checks level by level, which is fast."""
    level: list[Any] = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds <= _PLAIN:
            return False
        below: list[Any] = []
        if dict in kinds:
            below.extend(chain.from_iterable(item.values() for item in level if type(item) is dict))
        if list in kinds:
            below.extend(chain.from_iterable(item for item in level if type(item) is list))
        level = below
    return True


def _normal(value: Any) -> Any:
    """The value with normalised texts, numbers and key order."""
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
    # Characters above U+FFFF are two code units, which sort before U+E000 to U+FFFF.
    return dict(sorted(normal.items(), key=lambda item: item[0].encode("utf-16-be", "surrogatepass")))


def number(value: float) -> str:
    """A float as ECMAScript writes it (Number::toString, ECMA-262 §6.1.6.1.20)."""
    if not isfinite(value):
        raise InvalidRequest("NaN and infinities are not JSON")
    if value == 0:
        return "0"
    # repr() gives the same shortest digits as ECMAScript; only the layout may differ.
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    return ("-" if value < 0 else "") + _layout(whole + fraction, len(whole) + int(exponent))


def _layout(digits: str, point: int) -> str:
    """The number 0.digits × 10^point in the layout of ECMAScript."""
    if len(digits) <= point <= _MOST_PLACES:
        return digits.ljust(point, "0")
    if -_MOST_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return f"{digits[0]}.{digits[1:]}{power}" if len(digits) > 1 else digits + power


class FormPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a form with the SHA-256 of its content, which is hashed while it is received and not kept."""

    name: str
    sha256: bytes
    file_name: str | None = None

    @classmethod
    def of(cls, name: str, content: bytes, file_name: str | None = None) -> FormPart:
        return cls(name=name, sha256=sha256(content).digest(), file_name=file_name)


def form_digest(parts: Iterable[FormPart]) -> str:
    """The digest of a form, independent of the order of its parts; file names count where given."""
    encoded = sorted(prefixed(*_fields(part)) for part in parts)
    return DIGEST_PREFIX + sha256(prefixed(b"form", *encoded)).hexdigest()


def _fields(part: FormPart) -> list[bytes]:
    named = [] if part.file_name is None else [_bytes(part.file_name)]
    return [_bytes(part.name), part.sha256, *named]


def prefixed(*fields: bytes) -> bytes:
    """The fields joined, each prefixed by its length: different lists give different bytes."""
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


IdempotencyKey = NewType("IdempotencyKey", str)
RecordKey = NewType("RecordKey", str)

MAX_KEY_CHARS = 255
KEY_PATTERN = r"[!-~](?:[ -~]{0,253}[!-~])?"
_KEY = re.compile(KEY_PATTERN)


def parse_key(text: str) -> IdempotencyKey:
    if not _KEY.fullmatch(text):
        raise InvalidRequest(
            f"an idempotency key has 1 to {MAX_KEY_CHARS} printable ASCII characters and no spaces at its ends"
        )
    return IdempotencyKey(text)


def record_key(*, tenant_id: str | None, method: str, path: str, key: IdempotencyKey) -> RecordKey:
    """The key of a request's record; `path` is the concrete path with ids and query.

    Idempotency keys are scoped to tenant, method and path.
    """
    return RecordKey(sha256(prefixed(*map(_bytes, (tenant_id or "", method, path, key)))).hexdigest())
