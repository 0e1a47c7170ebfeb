"""Plays many seeds in a row, in this process or in several, and adds up; keeps the seeds that broke a promise."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from simulation.core_only import play_bare
from simulation.invariants import Violation
from simulation.play import play, without_small_talk

# Seeds that a process plays before it says how far it is.
AT_A_TIME = 200
# What an interleaving leaves behind refers to itself in circles, in the thousands: to look for them after every few
# hundred objects, as is usual, would look at the same living ones again and again.
OBJECTS_BETWEEN_LOOKS = 50_000

Progress = Callable[["Total"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A seed whose interleaving broke promises; without any, it could not be played to its end."""

    seed: int
    violations: tuple[Violation, ...]


@dataclass(slots=True, kw_only=True)
class Total:
    """What came of the interleavings so far."""

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


def play_some(first: int, number: int, bare: bool = False) -> Total:
    """These seeds, one after the other; `bare`: the core and its log alone."""
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS)
    total = Total(interleavings=number)
    with without_small_talk():
        for seed in range(first, first + number):
            violations, figures = play_bare(seed) if bare else _whole(seed)
            total.figures.update(figures)
            if violations:
                total.broken.append(Broken(seed=seed, violations=violations))
    return total


def _whole(seed: int) -> tuple[tuple[Violation, ...], Counter[str]]:
    played = play(seed)
    return played.violations, played.figures


def play_many(
    first: int,
    number: int | None,
    *,
    seconds: float | None,
    processes: int,
    progress: Progress = lambda total: None,
    bare: bool = False,
) -> Total:
    """The seeds from the first on: so many, or for so long."""
    total, began = Total(), time.monotonic()

    def note(some: Total) -> None:
        total.add(some)
        total.seconds = time.monotonic() - began
        progress(total)

    def is_time() -> bool:
        return seconds is not None and time.monotonic() - began >= seconds

    parts = _parts(first, number)
    if processes == 1:
        for part in parts:
            note(play_some(*part, bare))
            if is_time():
                break
        return total
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        playing = {pool.submit(play_some, *part, bare) for part in islice(parts, 2 * processes)}
        while playing:
            done, playing = wait(playing, return_when=FIRST_COMPLETED)
            for one in done:
                note(one.result())
            if not is_time():
                playing |= {pool.submit(play_some, *part, bare) for part in islice(parts, len(done))}
    total.broken.sort(key=lambda broken: broken.seed)
    return total


def _parts(first: int, number: int | None) -> Iterator[tuple[int, int]]:
    """The seeds in parts; without a number there is no end to them."""
    last = None if number is None else first + number
    while last is None or first < last:
        some = AT_A_TIME if last is None else min(AT_A_TIME, last - first)
        yield first, some
        first += some
