"""The circuit breaker of the requests to Airflow.

closed ──several failures in a row──▶ open ──after a pause──▶ half open: one request probes
   ▲                                    ▲                                    │
   └────────────── it succeeds ─────────┼────────────────────────────────────┤
                                        └── it fails: a longer pause ────────┘
"""

from __future__ import annotations

from enum import Enum

from pyoco_server.errors import EngineDown
from pyoco_server.ports import Clock

FAILURES_TO_OPEN = 3
FIRST_PAUSE_SEC = 1.0
# A recovered Airflow is noticed at most this late.
LONGEST_PAUSE_SEC = 5.0


class CircuitState(Enum):
    """The states of the circuit; their values are labels of a metric."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"

    __hash__ = object.__hash__


class Circuit:
    """Lets requests through, or refuses them at once with the failure that opened it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._last_failure = EngineDown()
        self._open_until = 0.0
        self._is_probed = False

    @property
    def state(self) -> CircuitState:
        if self._failures < FAILURES_TO_OPEN:
            return CircuitState.CLOSED
        is_open = self._clock.monotonic() < self._open_until
        return CircuitState.OPEN if is_open and not self._is_probed else CircuitState.HALF_OPEN

    def admit(self) -> None:
        """Let a request through, or raise the last failure. One of `succeeded`, `failed`, `abandoned` follows."""
        state = self.state
        if state is CircuitState.CLOSED:
            return
        if state is CircuitState.OPEN or self._is_probed:
            raise type(self._last_failure)(self._last_failure.detail)
        self._is_probed = True

    def succeeded(self) -> None:
        self._failures = 0
        self._is_probed = False

    def failed(self, failure: EngineDown) -> None:
        self._failures += 1
        self._last_failure = failure
        self._is_probed = False
        if (times := self._failures - FAILURES_TO_OPEN) >= 0:
            # The power is bounded: Airflow may be away for weeks.
            pause_sec = min(FIRST_PAUSE_SEC * 2 ** min(times, 8), LONGEST_PAUSE_SEC)
            self._open_until = self._clock.monotonic() + pause_sec

    def abandoned(self) -> None:
        """The request ended without a verdict: its caller has gone, or Airflow wants another login."""
        self._is_probed = False
