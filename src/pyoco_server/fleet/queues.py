"""How the jobs of a tag stand in the queue, as a value; nothing here asks the queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The jobs of a tag: never handed out yet, handed out and not finished, and how many of these more than once."""

    waiting: int
    in_work: int
    redelivered: int
