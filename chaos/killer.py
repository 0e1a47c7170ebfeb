"""Chooses what to kill, and kills it: by pid, with -9, only processes that this run has started."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence

from chaos.fleet import Fleet
from chaos.journal import Journal, Kill
from chaos.patience import comes_true
from chaos.plan import KINDS, Kind, Plan
from chaos.processes import STOP_SEC, Broker, Identity, Member, family_of, identity_of
from pyoco_server.worker.process_tree import children_of

LONGEST_DOWN_SEC = 3.0
# A worker is halted for longer than its jobs are reserved for it, so that another one takes them over; the others for
# less than a client waits for its answer.
WORKER_PAUSE_SEC = (5.0, 10.0)
PAUSE_SEC = (0.5, 4.0)
# Which part of the killed gateways also finds its index gone when it comes back.
LOST_INDEXES = 0.3
# How long the descendants of a killed process may take to be gone.
ORPHAN_SEC = 5.0


class Killer:
    """One victim after the other, by the seed's choice."""

    def __init__(self, plan: Plan, fleet: Fleet, journal: Journal) -> None:
        self._plan = plan
        self._fleet = fleet
        self._journal = journal
        self._rng = random.Random(f"killer {plan.seed}")
        self._paused: set[str] = set()

    async def run(self, until: float) -> None:
        """Kill until then (loop time); everything that was halted goes on again before this returns."""
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            while True:
                pause_sec = self._plan.kill_every_sec * self._rng.uniform(0.5, 1.5)
                if clock() + pause_sec >= until:
                    return
                await asyncio.sleep(pause_sec)
                self._strike(group)

    def _strike(self, group: asyncio.TaskGroup) -> None:
        kinds = self._plan.kinds
        kind = self._rng.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        victims = self._victims(kind)
        if not victims:
            return
        victim = self._rng.choice(victims)
        if kind.endswith("_stop"):
            self._stop(group, kind, victim)
        elif kind.endswith("_pause"):
            seconds = self._rng.uniform(*(WORKER_PAUSE_SEC if kind == "worker_pause" else PAUSE_SEC))
            group.create_task(self._pause(kind, victim, seconds))
        elif kind in ("runner", "fork_server"):
            self._kill_below(group, kind, victim.name, victim.pid or 0)
        else:
            self._kill(group, kind, victim)

    def _victims(self, kind: Kind) -> list[Broker | Member]:
        """Who can be hit: a process that is halted is let go on first, and what is being started cannot be paused."""
        members: Sequence[Broker | Member] = [self._fleet.broker]
        if kind.startswith("gateway"):
            members = self._fleet.gateways
        elif not kind.startswith("nats"):
            members = self._fleet.workers
        up = [member for member in members if member.pid is not None and member.name not in self._paused]
        needs_ready = kind not in ("worker", "gateway", "nats")
        return [member for member in up if not needs_ready or member.is_ready]

    def _kill(self, group: asyncio.TaskGroup, kind: Kind, victim: Broker | Member) -> None:
        family = family_of(victim.pid or 0)
        self._note(kind, victim.name, victim.end(signal.SIGKILL, self._rng.uniform(0, LONGEST_DOWN_SEC)))
        group.create_task(self._until_gone(victim.name, family))
        if kind == "gateway" and self._rng.random() < LOST_INDEXES:
            self._fleet.lose_index(victim.name)

    def _stop(self, group: asyncio.TaskGroup, kind: Kind, victim: Broker | Member) -> None:
        process = identity_of(victim.pid or 0)
        self._note(kind, victim.name, victim.end(signal.SIGTERM, self._rng.uniform(0, LONGEST_DOWN_SEC)))
        if process is not None:
            group.create_task(self._until_stopped(victim.name, process))

    def _kill_below(self, group: asyncio.TaskGroup, kind: Kind, name: str, worker_pid: int) -> None:
        fork_servers = children_of(worker_pid)
        victims = [pid for server in fork_servers for pid in children_of(server)] if kind == "runner" else fork_servers
        if not victims:
            return
        victim = self._rng.choice(victims)
        family = family_of(victim)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return  # it was quicker
        self._note(kind, name, victim)
        group.create_task(self._until_gone(name, family))

    async def _pause(self, kind: Kind, victim: Broker | Member, seconds: float) -> None:
        self._paused.add(victim.name)
        self._note(kind, victim.name, victim.signal(signal.SIGSTOP))
        try:
            await asyncio.sleep(seconds)
        finally:
            victim.signal(signal.SIGCONT)
            self._paused.discard(victim.name)

    def _note(self, kind: Kind, target: str, pid: int | None) -> None:
        if pid is not None:
            self._journal.kills.append(Kill(kind=kind, target=target, pid=pid, at=time.time()))

    async def _until_stopped(self, name: str, process: Identity) -> None:
        async def has_stopped() -> bool:
            return not process.is_alive()

        if not await comes_true(has_stopped, within_sec=STOP_SEC):
            self._journal.note_fault("processes that did not stop when asked", name, f"not within {STOP_SEC} s")

    async def _until_gone(self, name: str, family: Sequence[Identity]) -> None:
        async def are_gone() -> bool:
            return not any(identity.is_alive() for identity in family)

        if not await comes_true(are_gone, within_sec=ORPHAN_SEC):
            left = [identity.pid for identity in family if identity.is_alive()]
            self._journal.note_fault("orphan processes", name, f"still there {ORPHAN_SEC} s after the kill: {left}")
