"""`python -m chaos`: bring everything up, kill parts of it under load, let it settle, judge. Exit status 1: broken."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import orjson

from chaos.clients import CLIENTS, Client
from chaos.collect import collect, settled, synced
from chaos.evidence import Evidence
from chaos.fleet import running_fleet
from chaos.invariants import violations
from chaos.journal import Journal
from chaos.killer import Killer
from chaos.metrics import figures
from chaos.node_workers import hands_at_work
from chaos.plan import KINDS, Kind, Plan
from chaos.processes import marked
from chaos.report import Outcome, to_plain, to_text
from chaos.watchers import WATCHERS, Reader
from chaos.wheel_changes import Wheelwright
from chaos.wheel_invariants import newest_for

# After the last run has ended, for whoever might still want to change it.
STILLNESS_SEC = 4.0


async def play(plan: Plan, folder: Path) -> Outcome:
    """One whole run of the chaos on an empty folder."""
    journal = Journal()
    evidence, settled_after_sec = Evidence(), None
    async with running_fleet(plan, folder, journal) as fleet:
        if not await fleet.until_ready():
            journal.note_fault("processes that ended by themselves", "fleet", "not ready in time, before any kill")
        wheelwright = Wheelwright(plan, fleet.urls, journal)
        if plan.syncs_wheels:
            await wheelwright.begin()
        async with hands_at_work(plan, fleet.urls, journal) as callers:
            until = asyncio.get_running_loop().time() + plan.seconds
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    group.create_task(Client(number, plan, fleet.urls, journal).run(until))
                for number in range(WATCHERS):
                    group.create_task(Reader(number, plan, fleet.urls, journal).run(until))
                for caller in callers:
                    group.create_task(caller.run(until))
                group.create_task(Killer(plan, fleet, journal, wheelwright).run(until))
            since = time.monotonic()
            await fleet.until_ready()
            if await settled(fleet, plan.settle_sec):
                settled_after_sec = time.monotonic() - since
        if plan.syncs_wheels:
            await wheelwright.close()
            await synced(fleet, partial(newest_for, changes=journal.changes), plan.settle_sec)
        await asyncio.sleep(STILLNESS_SEC)
        evidence = await collect(fleet, list(journal.accepted), journal.executions, folder)
    for pid, command in marked(fleet.marker):
        journal.note_fault("orphan processes", str(pid), command)
    return Outcome(
        plan=plan,
        evidence=evidence,
        journal=journal,
        figures=figures(evidence, journal),
        violations=violations(evidence, journal),
        settled_after_sec=settled_after_sec,
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to submit, cancel and kill (60)")
    parser.add_argument("--seed", type=int, help="makes the same choices as another run with this seed")
    parser.add_argument("--kill-every", type=float, default=2.5, metavar="SEC", help="on average (2.5)")
    parser.add_argument("--only", default=",".join(KINDS), help=f"what is killed: of {','.join(KINDS)} (all)")
    parser.add_argument("--rate", type=float, default=12.0, help="runs submitted per second (12)")
    parser.add_argument("--executions", type=float, default=2.0, help="executions created per second (2; 0: none)")
    parser.add_argument("--settle", type=float, default=90.0, metavar="SEC", help="patience after the last kill (90)")
    parser.add_argument("--gateways", type=int, default=2, help="how many gateways (2)")
    parser.add_argument("--workers", type=int, default=4, help="how many workers (4)")
    parser.add_argument(
        "--sync",
        choices=("always", "interval"),
        default=os.environ.get("PYOCO_NATS_SYNC", "always"),
        help="when nats-server writes to disk (PYOCO_NATS_SYNC, always)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there too")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data and logs")
    parsed = parser.parse_args(arguments)
    parsed.only = _kinds(parser, parsed.only)
    return parsed


def _kinds(parser: argparse.ArgumentParser, words: str) -> tuple[Kind, ...]:
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    for word in wanted:
        if word not in KINDS:
            parser.error(f"--only knows {', '.join(KINDS)}; not {word!r}")
    return tuple(kind for kind in KINDS if kind in wanted)


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    plan = Plan(
        seconds=asked.seconds,
        seed=asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000),
        kill_every_sec=asked.kill_every,
        settle_sec=asked.settle,
        runs_per_sec=asked.rate,
        gateways=asked.gateways,
        workers=asked.workers,
        kinds=asked.only,
        sync=asked.sync,
        executions_per_sec=asked.executions,
    )
    folder = Path(tempfile.mkdtemp(prefix="pyoco-chaos-"))
    print(
        f"chaos: seed {plan.seed}, {plan.seconds:g} s and up to {plan.settle_sec:g} s to settle; in {folder}",
        flush=True,
    )
    outcome = asyncio.run(play(plan, folder))
    print(to_text(outcome))
    if asked.json is not None:
        asked.json.write_bytes(orjson.dumps(to_plain(outcome), option=orjson.OPT_INDENT_2))
    if outcome.is_clean and not asked.keep:
        shutil.rmtree(folder)
    else:
        print(f"data and logs are in {folder}")
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
