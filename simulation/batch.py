"""Plays many seeds, in one process or several, and sums up; keeps the seeds with violations."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from simulation.invariants import Violation
from simulation.play import play, without_logs

# Seeds that a process plays between two progress reports.
BATCH = 200
# An interleaving leaves thousands of cyclic objects behind; collecting after every few hundred would be slow.
GC_THRESHOLD = 50_000

Progress = Callable[["Total"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A seed with violations."""

    seed: int
    violations: tuple[Violation, ...]


@dataclass(slots=True, kw_only=True)
class Total:
    """The sum of the interleavings so far."""

    interleavings: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.broken

    def add(self, other: Total) -> None:
        self.interleavings += other.interleavings
        self.figures.update(other.figures)
        self.broken.extend(other.broken)


def play_some(first: int, number: int) -> Total:
    """Plays these seeds one after the other."""
    gc.set_threshold(GC_THRESHOLD)
    total = Total(interleavings=number)
    with without_logs():
        for seed in range(first, first + number):
            played = play(seed)
            total.figures.update(played.figures)
            if played.violations:
                total.broken.append(Broken(seed=seed, violations=played.violations))
    return total


def play_many(
    first: int,
    number: int | None,
    *,
    seconds: float | None,
    processes: int,
    progress: Progress = lambda total: None,
) -> Total:
    """Plays the seeds from `first`, that many or for that long."""
    total, began = Total(), time.monotonic()

    def note(some: Total) -> None:
        total.add(some)
        total.seconds = time.monotonic() - began
        progress(total)

    def is_time_over() -> bool:
        return seconds is not None and time.monotonic() - began >= seconds

    parts = _parts(first, number)
    if processes == 1:
        for part in parts:
            note(play_some(*part))
            if is_time_over():
                break
        return total
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        playing = {pool.submit(play_some, *part) for part in islice(parts, 2 * processes)}
        while playing:
            done, playing = wait(playing, return_when=FIRST_COMPLETED)
            for one in done:
                note(one.result())
            if not is_time_over():
                playing |= {pool.submit(play_some, *part) for part in islice(parts, len(done))}
    total.broken.sort(key=lambda broken: broken.seed)
    return total


def _parts(first: int, number: int | None) -> Iterator[tuple[int, int]]:
    """First seed and count of each part; endless without a number."""
    last = None if number is None else first + number
    while last is None or first < last:
        some = BATCH if last is None else min(BATCH, last - first)
        yield first, some
        first += some
