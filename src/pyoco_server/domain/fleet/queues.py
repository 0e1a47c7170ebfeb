"""How the jobs of a tag stand in the queue, as a value; nothing here asks the queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The jobs of a tag: never handed out yet, handed out and not finished, and how many of these more than once.

    The rest is what the queue really keeps to, whatever the settings say now; None: nobody has pulled the tag yet.
    """

    waiting: int
    in_work: int
    redelivered: int
    most_in_work: int | None = None
    ack_wait_sec: float | None = None
    most_deliveries: int | None = None
    # Every job up to this place that is still stored was given up: delivered as often as the queue does it, in vain.
    given_up_through: int = 0
