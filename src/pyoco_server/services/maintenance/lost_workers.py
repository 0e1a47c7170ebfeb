"""Runs of dead workers go on elsewhere: who hears no heartbeat of a run asks its holder, and gives the job back.

    snapshot renewed (heartbeat) ──▶ heard
    five heartbeats missed ──▶ ask the holder ── "I have it" ──▶ heard
                                   │ no word, or "not I"
                                   ▼
                               claim (compare-and-set on the snapshot: one gateway wins) ──▶ NAK ──▶ delivered again

Silence is timed by this gateway's own monotonic clock and begins anew when the gateway itself was out of touch. The
claim renews the snapshot too, so that everybody else waits another five heartbeats before the next try. Jobs that a
lost worker had taken ahead and not begun are known to nobody: with the first of its runs all jobs of that tag are given
back that are in anybody's hands and not begun, which those who live do not notice. Nothing here
ends a run: the next holder takes over with a higher attempt, and the log then refuses the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import InstanceId, RunId
from pyoco_server.ports import RunIndex
from pyoco_server.services.context import Stores
from pyoco_server.services.maintenance.error_handling import log_and_continue
from pyoco_server.services.maintenance.job_messages import plain_of, run_id_of
from pyoco_server.stores import LoadedSnapshot

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 0.5
MISSED_HEARTBEATS = 5
# What was given back may go to another dead one, whose open requests the broker still knows: it is asked for once more
# soon, some times, and then as seldom as everything else (perhaps nobody is free). But not for ever: each delivery
# counts towards the broker's limit, and somebody may have it in hand by now and wait for a free slot.
AGAIN_SEC = 2.0
SOON_AGAIN = 3
MOST_TIMES = 5
# Longer than a look that comes late. Who was stopped or cut off for longer has heard nobody, which proves nothing.
AWAY_AFTER_SEC = 3.0
# More than a fleet has at work at a time; what is beyond comes back after AckWait, as everything does in the end.
MOST_RUNS = 10_000
# More than a few workers take ahead. They are the oldest of their tag, apart from those that are at work.
MOST_AHEAD = 200
NOT_BEGUN = "PENDING"


class _GivenBack(NamedTuple):
    attempt: int
    times: int


class _Heard(NamedTuple):
    revision: int
    at: float


class LostWorkerRescuer:
    """The ear of one gateway for the runs at work."""

    def __init__(self, stores: Stores, index: RunIndex, config: NatsBackendConfig) -> None:
        self._stores = stores
        self._index = index
        self._silence_sec = MISSED_HEARTBEATS * config.run_heartbeat_interval_sec
        self._heard: dict[RunId, _Heard] = {}
        self._given_back: dict[RunId, _GivenBack] = {}
        self._looked_at = stores.clock.monotonic()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SEC)
            with log_and_continue("rescue"):
                await self.look()

    async def look(self) -> None:
        """Note who was heard of, and give back what the silent ones had."""
        now = self._stores.clock.monotonic()
        if not self._stores.broker.connected or now - self._looked_at > AWAY_AFTER_SEC:
            self._heard.clear()
        self._note(self._index.at_work(MOST_RUNS), now)
        silent = {run_id: one.revision for run_id, one in self._heard.items() if now - one.at >= self._patience(run_id)}
        try:
            if silent:
                await self._look_after(silent)
        finally:
            self._looked_at = self._stores.clock.monotonic()

    def _note(self, shown: Mapping[RunId, int], now: float) -> None:
        before = self._heard
        self._heard = {
            run_id: known if (known := before.get(run_id)) and known.revision == revision else _Heard(revision, now)
            for run_id, revision in shown.items()
        }
        self._given_back = {run_id: past for run_id, past in self._given_back.items() if run_id in shown}

    def _patience(self, run_id: RunId) -> float:
        past = self._given_back.get(run_id)
        soon = past is not None and past.times <= SOON_AGAIN
        return min(AGAIN_SEC, self._silence_sec) if soon else self._silence_sec

    async def _look_after(self, silent: Mapping[RunId, int]) -> None:
        by_holder: dict[InstanceId, list[LoadedSnapshot]] = {}
        for run_id, revision in silent.items():
            loaded = await self._stores.snapshots.load(run_id)
            # Another revision than the one that was silent: it is our index that is behind, or somebody was faster.
            if loaded is not None and loaded.revision == revision and loaded.execution.is_held:
                holder = loaded.execution.holder
                if holder is not None and holder.instance_id is not None and holder.return_to is not None:
                    by_holder.setdefault(holder.instance_id, []).append(loaded)
        # Side by side: one that hangs makes us wait for its answer, and must not make all others wait too.
        asking = [self._ask(instance_id, runs) for instance_id, runs in by_holder.items()]
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ask(self, instance_id: InstanceId, runs: Sequence[LoadedSnapshot]) -> None:
        there = await self._stores.signals.answers(instance_id)
        lost: dict[str, str] = {}
        for loaded in runs:
            run_id = loaded.execution.execution_id
            if there and await self._stores.signals.holds(instance_id, run_id):
                self._heard[run_id] = _Heard(loaded.revision, self._stores.clock.monotonic())
                self._given_back.pop(run_id, None)
            elif (returned_to := await self._give_back(loaded)) is not None and not there:
                lost[loaded.execution.request.tag] = returned_to
        for tag, like in lost.items():
            await self._take_back_what_was_not_begun(tag, like)

    async def _take_back_what_was_not_begun(self, tag: str, like: str) -> None:
        stored = await self._stores.queue.stored(tag, limit=MOST_AHEAD)
        jobs = {run_id: job for job in stored if (run_id := run_id_of(plain_of(job))) is not None}
        known = self._index.known(list(jobs))
        waiting = [jobs[run_id] for run_id, (_, status) in known.items() if status == NOT_BEGUN]
        if waiting:
            await self._stores.queue.take_back(waiting, like=like)

    async def _give_back(self, loaded: LoadedSnapshot) -> str | None:
        """Where it was given back; None when somebody else does so, or nobody any more."""
        run_id, holder = loaded.execution.execution_id, loaded.execution.holder
        if holder is None or holder.return_to is None:
            return None
        past = self._given_back.get(run_id)
        times = past.times if past is not None and past.attempt == holder.attempt else 0
        if times >= MOST_TIMES or not await self._stores.snapshots.claim(loaded):
            return None
        self._given_back[run_id] = _GivenBack(holder.attempt, times + 1)
        await self._stores.queue.give_back(holder.return_to)
        facts = {"run_id": run_id, "worker_id": holder.worker_id, "attempt": holder.attempt}
        logger.warning("gave back the job of a worker that was lost", extra=facts)
        return holder.return_to
