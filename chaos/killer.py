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
from chaos.processes import Identity, Member, family_of
from pyoco_server.worker.process_tree import children_of

LONGEST_DOWN_SEC = 2.0
# Longer than a job is reserved for a silent worker, so that another one takes over.
PAUSE_SEC = (4.0, 7.0)
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
        """Kill until then (loop time); everything that was stopped goes on again before this returns."""
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            while True:
                pause = self._plan.kill_every_sec * self._rng.uniform(0.5, 1.5)
                if clock() + pause >= until:
                    return
                await asyncio.sleep(pause)
                self._strike(group, until - clock())

    def _strike(self, group: asyncio.TaskGroup, left_sec: float) -> None:
        kinds = self._plan.kinds
        kind = self._rng.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        match kind:
            case "nats":
                self._kill(kind, "nats", self._fleet.nats.pid)
            case "gateway":
                self._kill_member(group, kind, self._fleet.gateways)
            case "worker":
                self._kill_member(group, kind, self._fleet.workers)
            case "pause":
                group.create_task(self._pause(min(self._rng.uniform(*PAUSE_SEC), left_sec)))
            case "runner" | "fork_server":
                self._kill_below_worker(group, kind)

    def _kill_member(self, group: asyncio.TaskGroup, kind: Kind, members: Sequence[Member]) -> None:
        up = [member for member in members if member.pid is not None and member.name not in self._paused]
        if not up:
            return
        member = self._rng.choice(up)
        family = family_of(member.pid or 0)
        pid = member.kill(self._rng.uniform(0, LONGEST_DOWN_SEC))
        self._note(kind, member.name, pid)
        group.create_task(self._until_gone(member.name, family))

    def _kill_below_worker(self, group: asyncio.TaskGroup, kind: Kind) -> None:
        ready = [worker for worker in self._fleet.workers if worker.is_ready and worker.name not in self._paused]
        if not ready:
            return
        worker = self._rng.choice(ready)
        fork_servers = children_of(worker.pid or 0)
        victims = [pid for server in fork_servers for pid in children_of(server)] if kind == "runner" else fork_servers
        if victims:
            victim = self._rng.choice(victims)
            family = family_of(victim)
            self._kill(kind, worker.name, victim)
            group.create_task(self._until_gone(worker.name, family))

    async def _pause(self, seconds: float) -> None:
        ready = [worker for worker in self._fleet.workers if worker.is_ready and worker.name not in self._paused]
        if not ready:
            return
        worker = self._rng.choice(ready)
        self._paused.add(worker.name)
        self._note("pause", worker.name, worker.signal(signal.SIGSTOP))
        try:
            await asyncio.sleep(seconds)
        finally:
            worker.signal(signal.SIGCONT)
            self._paused.discard(worker.name)

    def _kill(self, kind: Kind, target: str, pid: int | None) -> None:
        if pid is None:
            return
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it was quicker
        self._note(kind, target, pid)

    def _note(self, kind: Kind, target: str, pid: int | None) -> None:
        if pid is not None:
            self._journal.kills.append(Kill(kind=kind, target=target, pid=pid, at=time.time()))

    async def _until_gone(self, name: str, family: Sequence[Identity]) -> None:
        async def are_gone() -> bool:
            return not any(identity.is_alive() for identity in family)

        if not await comes_true(are_gone, within_sec=ORPHAN_SEC):
            left = [identity.pid for identity in family if identity.is_alive()]
            self._journal.note_fault("orphan processes", name, f"still there {ORPHAN_SEC} s after the kill: {left}")
