"""The samples and failures of each round; it computes nothing but their median."""

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import nats.errors

from bench.connection import StepFailed

Side = Literal["ours", "peer", "limit"]
# The exceptions of dead processes, broken connections and changed responses: one figure is lost, others are kept.
STEP_ERRORS = (
    StepFailed,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
    subprocess.SubprocessError,
    nats.errors.Error,
    ExceptionGroup,
    ValueError,
    LookupError,
)


class Journal:
    """Samples by side and row; `step` turns a failure into a note, so that the rest continues."""

    def __init__(self) -> None:
        self._samples: dict[tuple[Side, str], list[float]] = {}
        self.notes: list[str] = []
        self.round = 0

    def add(self, side: Side, row: str, value: float) -> None:
        self._samples.setdefault((side, row), []).append(value)

    def samples(self, side: Side, row: str) -> list[float]:
        return self._samples.get((side, row), [])

    def median(self, side: Side, row: str) -> float | None:
        samples = self.samples(side, row)
        return statistics.median(samples) if samples else None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            progress(f"note: {text}")

    @contextmanager
    def step(self, side: Side, what: str) -> Iterator[None]:
        progress(f"round {self.round}: {side}: {what}")
        try:
            yield
        except STEP_ERRORS as failure:
            self.note(f"{side}: {what} failed: {type(failure).__name__}: {failure}")


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
