"""Injects faults: kills, stops and suspends processes of this run, by pid."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence

import psutil

from chaos.fleet import Fleet
from chaos.folders import environments_in
from chaos.journal import Journal, Kill
from chaos.plan import KINDS, Kind, Plan
from chaos.processes import STOP_SEC, Broker, Member, poll_until
from chaos.wheel_changes import WheelChanger
from pyoco_server.worker.runner_process.process_tree import children_of
from support.processes import descendants_of, find_process, is_alive

MAX_DOWN_SEC = 3.0
# Longer than every timeout of the program, so that all processes are retrying.
LONG_DOWN_SEC = (10.0, 15.0)
# A second worker with the id of a live one is rejected when it registers.
TWIN_SEC = 20.0
REFUSED = 1
# A worker is suspended for longer than its jobs are reserved, so that another one takes them over; other processes for
# less than a client's timeout.
WORKER_PAUSE_SEC = (5.0, 10.0)
PAUSE_SEC = (0.5, 4.0)
# Share of the killed gateways that also lose their index.
INDEX_LOST = 0.3
# Share of the wheel changes during which a gateway is killed, and the maximum delay.
KILLED_DURING_UPLOAD = 0.3
INTO_UPLOAD_SEC = 0.3
# Time limit for an installation to begin after an upload, and the maximum delay until its worker is killed.
INSTALLING_SEC = 15.0
INTO_INSTALLING_SEC = 1.5
# Time limit for the descendants of a killed process to end.
ORPHAN_SEC = 5.0


class Killer:
    """Injects one fault after the other, as the seed chooses."""

    def __init__(self, plan: Plan, fleet: Fleet, journal: Journal, wheel_changer: WheelChanger) -> None:
        self._plan = plan
        self._fleet = fleet
        self._wheel_changer = wheel_changer
        self._journal = journal
        self._rng = random.Random(f"killer {plan.seed}")
        self._paused: set[str] = set()

    async def run(self, until: float) -> None:
        """Injects faults until then (loop time); all suspended processes are resumed before this returns."""
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            while True:
                pause_sec = self._plan.kill_every_sec * self._rng.uniform(0.5, 1.5)
                if clock() + pause_sec >= until:
                    return
                await asyncio.sleep(pause_sec)
                self._inject(group)

    def _inject(self, group: asyncio.TaskGroup) -> None:
        kinds = self._plan.kinds
        kind = self._rng.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        if kind == "wheels":
            group.create_task(self._change_wheels(group, kind))
            return
        if kind == "code":
            self._note(kind, self._fleet.code.change(), 0)
            return
        if kind == "installing":
            group.create_task(self._kill_installing(group, kind))
            return
        victims = self._victims(kind)
        if not victims:
            return
        victim = self._rng.choice(victims)
        if kind.endswith("_stop"):
            self._stop(group, kind, victim)
        elif kind.endswith("_pause"):
            seconds = self._rng.uniform(*(WORKER_PAUSE_SEC if kind == "worker_pause" else PAUSE_SEC))
            group.create_task(self._pause(kind, victim, seconds))
        elif kind == "worker_twin" and isinstance(victim, Member):
            group.create_task(self._twin(kind, victim))
        elif kind in ("runner", "fork_server"):
            self._kill_below(group, kind, victim.name, victim.pid or 0)
        else:
            self._kill(group, kind, victim)

    def _victims(self, kind: Kind) -> list[Broker | Member]:
        """The possible targets: no suspended process, and for a pause no starting one."""
        members: Sequence[Broker | Member] = [self._fleet.broker]
        if kind.startswith("gateway"):
            members = self._fleet.gateways
        elif not kind.startswith("nats"):
            members = self._fleet.workers
        up = [member for member in members if member.pid is not None and member.name not in self._paused]
        needs_ready = kind not in ("worker", "gateway", "nats", "nats_away")
        return [member for member in up if not needs_ready or member.is_ready]

    def _kill(self, group: asyncio.TaskGroup, kind: Kind, victim: Broker | Member) -> None:
        children = descendants_of(victim.pid or 0)
        down_sec = self._rng.uniform(*(LONG_DOWN_SEC if kind == "nats_away" else (0, MAX_DOWN_SEC)))
        self._note(kind, victim.name, victim.end(signal.SIGKILL, down_sec))
        group.create_task(self._check_orphans(victim.name, children))
        if kind == "gateway" and self._rng.random() < INDEX_LOST:
            self._fleet.lose_index(victim.name)

    def _stop(self, group: asyncio.TaskGroup, kind: Kind, victim: Broker | Member) -> None:
        process = find_process(victim.pid or 0)
        self._note(kind, victim.name, victim.end(signal.SIGTERM, self._rng.uniform(0, MAX_DOWN_SEC)))
        if process is not None:
            group.create_task(self._check_stopped(victim.name, process))

    def _kill_below(self, group: asyncio.TaskGroup, kind: Kind, name: str, worker_pid: int) -> None:
        fork_servers = children_of(worker_pid)
        victims = [pid for server in fork_servers for pid in children_of(server)] if kind == "runner" else fork_servers
        if not victims:
            return
        victim = self._rng.choice(victims)
        children = descendants_of(victim)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return  # it has already ended
        self._note(kind, name, victim)
        group.create_task(self._check_orphans(name, children))

    async def _pause(self, kind: Kind, victim: Broker | Member, seconds: float) -> None:
        self._paused.add(victim.name)
        self._note(kind, victim.name, victim.signal(signal.SIGSTOP))
        try:
            await asyncio.sleep(seconds)
        finally:
            victim.signal(signal.SIGCONT)
            self._paused.discard(victim.name)

    async def _change_wheels(self, group: asyncio.TaskGroup, kind: Kind) -> None:
        """Changes a wheel, and sometimes kills a gateway during it."""
        changing = group.create_task(self._wheel_changer.change())
        if "gateway" in self._plan.kinds and self._rng.random() < KILLED_DURING_UPLOAD:
            await asyncio.sleep(self._rng.uniform(0, INTO_UPLOAD_SEC))
            if victims := self._victims("gateway"):
                self._kill(group, "gateway", self._rng.choice(victims))
        self._note(kind, await changing, 0)

    async def _kill_installing(self, group: asyncio.TaskGroup, kind: Kind) -> None:
        """Uploads a wheel and kills a worker while it installs it."""
        await self._wheel_changer.upload()

        async def is_installing() -> bool:
            return bool(self._installing())

        if not await poll_until(is_installing, within_sec=INSTALLING_SEC):
            return
        victim = self._rng.choice(self._installing() or [self._fleet.workers[-1]])
        await asyncio.sleep(self._rng.uniform(0, INTO_INSTALLING_SEC))
        if victim.pid is not None and victim.name not in self._paused:
            self._kill(group, kind, victim)

    def _installing(self) -> list[Member]:
        """The workers whose folder contains an incomplete environment."""
        return [
            member
            for member in self._fleet.workers
            if (syncing := self._fleet.syncing.get(member.name)) is not None
            and any(not complete for complete in environments_in(syncing.folder).values())
        ]

    async def _twin(self, kind: Kind, living: Member) -> None:
        """Starts a second worker with the id of a live one, which must be rejected."""
        since, process = time.time(), find_process(living.pid or 0)
        twin = await living.twin()
        self._note(kind, living.name, twin.pid)
        try:
            async with asyncio.timeout(TWIN_SEC):
                await twin.wait()
        except TimeoutError:
            twin.kill()
            await twin.wait()
        lived = process is not None and is_alive(process) and living.name not in self._paused
        if lived and twin.returncode != REFUSED and not self._was_disturbed(living.name, since):
            self._journal.note_fault("worker ids in use twice", living.name, f"a twin ended with {twin.returncode}")

    def _was_disturbed(self, name: str, since: float) -> bool:
        """Whether a recent fault of the worker or the broker may have prevented the rejection."""
        hits = (kill for kill in self._journal.kills if kill.kind != "worker_twin" and kill.target in (name, "nats"))
        return any(kill.at > since - LONG_DOWN_SEC[1] for kill in hits)

    def _note(self, kind: Kind, target: str, pid: int | None) -> None:
        if pid is not None:
            self._journal.kills.append(Kill(kind=kind, target=target, pid=pid, at=time.time()))

    async def _check_stopped(self, name: str, process: psutil.Process) -> None:
        async def has_stopped() -> bool:
            return not is_alive(process)

        if not await poll_until(has_stopped, within_sec=STOP_SEC):
            self._journal.note_fault("processes that did not stop on SIGTERM", name, f"not within {STOP_SEC} s")

    async def _check_orphans(self, name: str, children: Sequence[psutil.Process]) -> None:
        async def are_gone() -> bool:
            return not any(map(is_alive, children))

        if not await poll_until(are_gone, within_sec=ORPHAN_SEC):
            left = [child.pid for child in children if is_alive(child)]
            self._journal.note_fault("orphan processes", name, f"still alive {ORPHAN_SEC} s after the kill: {left}")
