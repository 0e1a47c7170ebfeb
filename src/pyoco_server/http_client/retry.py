"""Is a request to be sent again, and after how long? One pure function; it neither sleeps nor sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Trouble(Enum):
    """What is known of a request that did not succeed."""

    NOT_SENT = "no connection was made: the gateway has seen nothing"
    UNSURE = "the gateway may have done what was asked"
    FINAL = "asking again would get the same answer"


DEFAULT_RETRIES = 5
DEFAULT_WITHIN_SEC = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and for how long to try; no try begins later than `within_sec` after the first."""

    retries: int = DEFAULT_RETRIES
    within_sec: float = DEFAULT_WITHIN_SEC
    base_sec: float = 0.2
    cap_sec: float = 5.0


def pause_sec(
    trouble: Trouble,
    *,
    failures: int,
    elapsed_sec: float,
    patience: Patience,
    asked_sec: float | None = None,
    luck: float = 1.0,
) -> float | None:
    """How long to wait before the next try; None: do not try again. (What is tried twice is done once: it has a key.)

    `failures` counts this one too; `asked_sec` is what the gateway asked for (Retry-After) and is never undercut;
    `luck` in 0..1 spreads clients that failed together.
    """
    if failures > patience.retries or trouble is Trouble.FINAL:
        return None
    pause = max(backoff_sec(failures, patience, luck), asked_sec or 0.0)
    return pause if elapsed_sec + pause <= patience.within_sec else None


def backoff_sec(failures: int, patience: Patience, luck: float) -> float:
    """Doubles with each failure up to a cap; between half of that and all of it."""
    # The exponent is bounded too: a watch may fail for hours.
    whole = min(patience.cap_sec, patience.base_sec * 2.0 ** min(failures - 1, 30))
    return whole * (0.5 + luck / 2)
