"""What a script can ask of the world: send, sleep, open a stream, read it, tell the caller something.

A script is a generator that yields these and is sent what came of them; it holds the logic, once, and does no I/O. The
wires carry effects out: one with threads' I/O, one with asyncio's.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pyoco_server.http_client.call_parts import Call

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Transmit:
    """Send the call and read the whole answer. Comes back as a response or a request error.

    `silence_sec`: how long the answer may take to begin, where that is another time than usual.
    """

    call: Call[Any]
    silence_sec: float | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Send the call and leave the answer open if it is a success. Comes back as a response or a request error."""

    call: Call[Any]
    silence_sec: float


@dataclass(frozen=True, slots=True)
class Read:
    """Read on in what was opened. Comes back as bytes, None at the end, or a request error."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close what was opened."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Give the caller one item of what it iterates over."""

    item: Any


Effect = Transmit | Open | Read | Close | Sleep | Tell
Script: TypeAlias = Generator[Effect, Any, T]
