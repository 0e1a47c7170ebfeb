"""Plays the interleaving of one seed and checks it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random

from pyoco_server.domain.execution import codec
from simulation.actors import batch_runner, canceller, client, driver, person, worker
from simulation.evidence import Evidence
from simulation.invariants import Violation, violations
from simulation.plan import drawn
from simulation.world import World

# By the seed and not by chance: the plans of all other seeds stay as they are.
REQUESTS_EVERY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One interleaving and its violations."""

    seed: int
    evidence: Evidence
    violations: tuple[Violation, ...]
    figures: Counter[str]
    trace: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Hash over every byte of every log; two plays of a seed have the same."""
        logs = sha256()
        for run_id, log in self.evidence.logs.items():
            for stored in log:
                logs.update(b"%d " % stored.sequence + codec.encode(run_id, stored.commit))
        return logs.hexdigest()


def play(seed: int, *, trace: bool = False) -> Played:
    """Plays and checks the interleaving of this seed."""
    random = Random(seed)
    plan = drawn(random)
    if seed % REQUESTS_EVERY == REQUESTS_EVERY - 1:
        plan = replace(plan, requests=1)
    world = World(random, plan, trace=trace)
    with recorded_errors(world.troubles):
        evidence: Evidence = world.loop.run_until_complete(_life(world))
    return Played(
        seed=seed,
        evidence=evidence,
        violations=tuple(violations(evidence)),
        figures=_figures(world, evidence),
        trace=tuple(world.trace or ()),
    )


async def _life(world: World) -> Evidence:
    await world.begin()
    for place in range(0 if world.plan.are_begun else len(world.plan.graphs)):
        world.busy(client(world, f"g{place}"))
    for _ in range(world.plan.open_executions):
        world.busy(driver(world))
    for _ in range(world.plan.cancels):
        world.busy(canceller(world))
    for number in range(world.plan.workers):
        world.idle(worker(world, f"worker-{number + 1}"))
    if world.plan.requests:
        world.idle(batch_runner(world))
    if world.plan.people:
        world.idle(person(world))
    return await world.live(worker(world, "steady", steady=True))


def _figures(world: World, evidence: Evidence) -> Counter[str]:
    figures = Counter(
        steps=world.loop.steps,
        calls=world.faults.ways,
        faults=world.faults.met,
        crashes=world.crashes,
        answers=len(evidence.responses),
        lost=world.lost,
        refusals=sum(not response.accepted for response in evidence.responses),
        executions=len(evidence.logs),
        events=sum(len(stored.commit.events) for log in evidence.logs.values() for stored in log),
    )
    figures.update(f"ended {execution.status.value}" for execution in evidence.ends.values())
    return figures


class _Listener(logging.Handler):
    def __init__(self, troubles: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._troubles = troubles

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._troubles.append(f"{record.getMessage()}: {error!r}")


@contextmanager
def recorded_errors(troubles: list[str]) -> Iterator[None]:
    """Records what the program logs as an error."""
    program, listener = logging.getLogger("pyoco_server"), _Listener(troubles)
    program.addHandler(listener)
    try:
        yield
    finally:
        program.removeHandler(listener)


@contextmanager
def without_logs() -> Iterator[None]:
    """Disables all logs below ERROR, which saves time."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
