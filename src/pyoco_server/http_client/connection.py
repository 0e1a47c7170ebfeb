"""The address, credentials, timeouts and retry policy of a client, checked once. `repr` shows no secrets."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from pyoco_server import __version__

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_SEC = 30.0
DEFAULT_RETRIES = 5
DEFAULT_RETRY_WITHIN_SEC = 30.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9_-]+")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Clocks, sleep and random numbers, replaceable by tests. `sleep_async` defaults to `asyncio.sleep`, which is not
    imported here."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] | None = None
    luck: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and for how long to retry; no attempt begins later than `within_sec` after the first."""

    retries: int = DEFAULT_RETRIES
    within_sec: float = DEFAULT_RETRY_WITHIN_SEC
    base_sec: float = 0.2
    cap_sec: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    basic_auth: tuple[str, str] | None = field(repr=False)
    timeout_sec: float
    policy: RetryPolicy
    timing: Timing = field(repr=False)
    # Called with the seconds before a wait that a rate limit causes.
    on_rate_limit: Callable[[float], None] | None = field(default=None, repr=False)


def on_this_machine(address: str) -> bool:
    """Whether the address is a loopback address, which no proxy can reach."""
    return urlsplit(address).hostname in _LOOPBACK


def resolve_connection(
    base_url: str | None,
    *,
    api_key: str | None,
    token: str | None,
    timeout: float,
    policy: RetryPolicy,
    api_key_header: str,
    language: str | None,
    timing: Timing,
    on_rate_limit: Callable[[float], None] | None = None,
) -> Connection:
    """Arguments first, then the environment (PYOCO_SERVER, PYOCO_API_KEY, PYOCO_TOKEN), then the default."""
    if timeout <= 0:
        raise ValueError("timeout must be more than 0 seconds")
    url, basic_auth = _address(base_url or os.environ.get("PYOCO_SERVER") or DEFAULT_URL)
    if api_key is None and token is None and basic_auth is None:
        api_key, token = os.environ.get("PYOCO_API_KEY") or None, os.environ.get("PYOCO_TOKEN") or None
    headers = {"User-Agent": f"pyoco-client/{__version__}"}
    if language is not None:
        headers["Accept-Language"] = _sendable("language", language)
    if api_key is not None:
        if not _HEADER_NAME.fullmatch(api_key_header):
            raise ValueError("api_key_header must be the name of a header: letters, digits, - and _")
        headers[api_key_header] = _sendable("api_key", api_key)
    if token is not None:
        headers["Authorization"] = f"Bearer {_sendable('token', token)}"
        basic_auth = None
    return Connection(
        base_url=url,
        headers=headers,
        basic_auth=basic_auth,
        timeout_sec=timeout,
        policy=policy,
        timing=timing,
        on_rate_limit=on_rate_limit,
    )


def _address(text: str) -> tuple[str, tuple[str, str] | None]:
    """The address without user and password, because errors show it, and the two separately."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        # The message does not repeat the text: it may contain a password.
        raise ValueError(f"the gateway's address must look like {DEFAULT_URL} or https://host/prefix")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port is None else f"{shown}:{port}"
    user = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")), user


def _sendable(name: str, value: str) -> str:
    """A valid header value. httpx would refuse a bad one too, but with the value in its message."""
    if not value or not value.isascii() or not value.isprintable() or value != value.strip():
        raise ValueError(f"{name} must be printable ASCII without spaces at its ends, and not empty")
    return value
