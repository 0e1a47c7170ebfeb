"""Requests to a gateway: method, path, query, body, and how the answer is read. Sends nothing and imports no httpx."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")
Strings = str | Iterable[str] | None
Time = datetime | float | str
"""Unix seconds, a date, RFC 3339 or a datetime; UTC without an offset or a time zone."""
AsOf = datetime | float | int | str
"""The same, or an integer: a version."""
Query = tuple[tuple[str, str], ...]

MAX_KEY_CHARS = 255
EVENT_STREAM = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """One request. Every change carries an idempotency key, so that repeating it has no further effect.

    `creates`: it creates something, so that a lost answer leaves open whether it exists. `partly_done`: an earlier
    request of the same operation already took effect. `hold_sec`: how long the gateway may hold the request before it
    answers; this time counts neither as silence nor as failure.
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
    creates: bool = False
    partly_done: bool = False
    hold_sec: float | None = None


def read_text(body: str) -> Any:
    return body


def read_object(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - one kind of error for every unreadable answer
    return value


def read_optional_object(body: str) -> Any:
    return read_object(body) if body else None


def read_array(body: str) -> Any:
    value = json.loads(body)
    if not isinstance(value, list):
        raise ValueError("expected a JSON array")  # noqa: TRY004 - as above
    return value


def read_page(items_name: str = "items") -> Callable[[str], Any]:
    def read(body: str) -> Any:
        value = read_object(body)
        if not isinstance(value.get(items_name), list):
            raise ValueError(f"expected a JSON object with {items_name}")  # noqa: TRY004 - as above
        return value

    return read


def read_nothing(body: str) -> Any:
    if body:
        raise ValueError("expected an empty answer")


BYTES_OF_WHEEL = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}


def get(
    path: str,
    *,
    read: Callable[[str], Any] = read_object,
    headers: Mapping[str, str] | None = None,
    hold_sec: float | None = None,
    **query: Any,
) -> Request[T]:
    return Request(
        method="GET", path=path, read=read, query=to_query(**query), headers=headers or {}, hold_sec=hold_sec
    )


def change(
    method: str,
    path: str,
    idempotency_key: str | None,
    body: Mapping[str, Any] | None = None,
    *,
    read: Callable[[str], Any] = read_object,
    **options: Any,
) -> Request[T]:
    """A request that changes something; `body` is sent as JSON, without the entries that are None."""
    if body is not None:
        options |= json_body({name: value for name, value in body.items() if value is not None})
    return Request(method=method, path=path, read=read, idempotency_key=checked_key(idempotency_key), **options)


def get_stream(path: str, last_event_id: str, **query: Any) -> Request[str]:
    """A request for server-sent events, after the given one if there is one."""
    resume = {"Last-Event-ID": last_event_id} if last_event_id else {}
    return get(path, read=read_text, headers=EVENT_STREAM | resume, **query)


def json_body(body: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {"content": text.encode(), "headers": {"Content-Type": "application/json"}}


def yaml_body(text: str | bytes) -> dict[str, Any]:
    content = text.encode() if isinstance(text, str) else text
    return {"content": content, "headers": {"Content-Type": "application/yaml"}}


def checked_key(given: str | None) -> str:
    """The idempotency key of the caller, or a new one."""
    if given is None:
        return new_key()
    if not 0 < len(given) <= MAX_KEY_CHARS or not given.isascii() or not given.isprintable() or given != given.strip():
        raise ValueError(
            f"idempotency_key must be 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces at its ends"
        )
    return given


def new_key() -> str:
    return str(uuid.uuid4())


def to_query(**values: Any) -> Query:
    """Query parameters without those that are None; a list repeats its name, as in `include=records&include=full`."""
    return tuple((name, text) for name, value in values.items() for text in to_strings(value))


def to_strings(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str | int | float):
        return [str(value)]
    return [str(item) for item in value]


def joined(values: Strings) -> str | None:
    """The values of a filter of a list by page, joined by commas; None if there are none."""
    return ",".join(to_strings(values)) or None


def ranges(submitted_after: Time | None, submitted_before: Time | None, id_prefix: str | None) -> dict[str, Any]:
    """The query parameters of the ranges that lists share."""
    return {
        "submitted_after": to_time(submitted_after),
        "submitted_before": to_time(submitted_before),
        "id_prefix": id_prefix or None,
    }


def to_time(value: AsOf | None) -> str | None:
    """The text of a time or a version in a query."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    # With a decimal point, which tells a time from a version, and without loss.
    return f"{value:.9f}" if isinstance(value, float) else None if value is None else str(value)


def id_path(prefix: str, name: str, value: str) -> str:
    """`prefix/value` for an id. Servers decode `%2F` and fold dots before they route, so quoting alone would let an id
    reach another path; such a value is refused."""
    return _path(prefix, f"{name} is not an id", value, forbidden="/\\?#%")


def name_path(prefix: str, name: str, value: str) -> str:
    """`prefix/value` for a name chosen by people, such as a node's: more characters than an id, but no slash."""
    return _path(prefix, f"{name} is not a name that can stand in a path", value, forbidden="/")


def tag_path(prefix: str, tag: str) -> str:
    """`prefix/tag`; a tag may contain slashes. Parts of dots alone are refused: a proxy that folds them would turn the
    removal of a tag into the deletion of the job."""
    return _path(prefix, "tag is not a label that can stand in a path", tag)


def _path(prefix: str, refusal: str, value: str, *, forbidden: str = "") -> str:
    if not value or not value.isprintable() or set(forbidden) & set(value) or {".", ".."} & set(value.split("/")):
        raise ValueError(f"{refusal}: {value[:80]!r}")
    return f"{prefix}/{quote(value, safe='')}"


def run_path(run_id: str) -> str:
    return id_path("/runs", "run_id", run_id)


def job_path(job_id: str) -> str:
    return id_path("/jobs", "job_id", job_id)


def execution_path(execution_id: str) -> str:
    return id_path("/executions", "execution_id", execution_id)
