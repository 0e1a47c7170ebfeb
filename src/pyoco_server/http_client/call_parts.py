"""What calls are made of: the call itself, keys, segments of paths, queries, bodies, and readers of answers. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")
Words = str | Iterable[str] | None
Query = tuple[tuple[str, str], ...]

MAX_KEY_CHARS = 255
EVENT_STREAM = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
_JSON_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. Whatever changes something has an idempotency key, so that sending it twice is sending it once.

    `makes`: it makes something new; whoever never gets its answer cannot know whether that is there.
    """

    method: str
    path: str
    read: Callable[[str], T]
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, tuple[str, bytes | IO[bytes], str]] = field(default_factory=dict)
    idempotency_key: str | None = None
    makes: bool = False


def key(given: str | None) -> str:
    """The key by which a gateway recognises the call, however often it is sent."""
    if given is None:
        return new_key()
    if not 0 < len(given) <= MAX_KEY_CHARS or not given.isascii() or not given.isprintable() or given != given.strip():
        raise ValueError(
            f"idempotency_key must be 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces at its ends"
        )
    return given


def new_key() -> str:
    """A key that nobody has used: a UUID of version 4. (Python's module for them loads longer than this package.)"""
    number = int.from_bytes(os.urandom(16), "big") & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def segment(name: str, value: str) -> str:
    """One segment of a path. Servers decode `%2F` and fold dots before they route, so that quoting alone would let an
    id reach another path than the one that is meant; such an id is nobody's."""
    if value in ("", ".", "..") or not value.isprintable() or any(sign in value for sign in "/\\?#%"):
        raise ValueError(f"{name} is not an id: {value[:80]!r}")
    return quote(value, safe="")


def name_segment(name: str, value: str) -> str:
    """One segment for a name that people chose, as that of a node: it may hold what an id may not, but no slash."""
    if value in ("", ".", "..") or not value.isprintable() or "/" in value:
        raise ValueError(f"{name} is not a name that can stand in a path: {value[:80]!r}")
    return quote(value, safe="")


def query(**values: Any) -> Query:
    """Those that are given; a list is repeated, as in `include=records&include=full`."""
    return tuple((name, word) for name, value in values.items() for word in words(value))


def words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str | int | float):
        return [str(value)]
    return [str(word) for word in value]


def json_body(body: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {"content": text.encode(), "headers": _JSON_HEADERS}


def read_text(body: str) -> str:
    return body


def read_object(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - one kind of error for every unreadable answer
    return value


def read_object_or_nothing(body: str) -> Any:
    """For an endpoint that may have nothing to say: None then."""
    return read_object(body) if body else None


def read_array(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, list):
        raise ValueError("expected a JSON array")  # noqa: TRY004 - as above
    return value


def read_page(body: str) -> Any:
    return read_list("items")(body)


def read_list(name: str) -> Callable[[str], Any]:
    """The reader of an object that has a list of this name."""

    def read(body: str) -> Any:
        value = read_object(body)
        if not isinstance(value.get(name), list):
            raise ValueError(f"expected a JSON object with {name}")  # noqa: TRY004 - as above
        return value

    return read


def read_nothing(body: str) -> None:
    """For an endpoint that has nothing to say but that it is done."""
    if body:
        raise ValueError("expected an empty answer")
