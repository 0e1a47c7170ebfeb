"""`python -m chaos`: start the system, kill parts of it under load, wait until idle, check. Exit 1: violations."""

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
from chaos.collect import collect, wait_until_idle, wait_until_synced
from chaos.evidence import Evidence
from chaos.fleet import running_fleet
from chaos.invariants import violations
from chaos.jobs import CLIENTS as JOB_CLIENTS
from chaos.jobs import JobClient
from chaos.journal import Journal
from chaos.keyed_client import KeyedClient
from chaos.killer import Killer
from chaos.metrics import statistics
from chaos.node_workers import running_node_workers
from chaos.plan import KINDS, Kind, Plan
from chaos.processes import marked
from chaos.rechecks import CLIENTS as RECHECK_CLIENTS
from chaos.rechecks import RecheckClient
from chaos.report import Outcome, to_plain, to_text
from chaos.watchers import WATCHERS, Reader
from chaos.wheel_changes import WheelChanger
from chaos.wheel_invariants import newest_for

# Pause after the last run has ended, in which a late write would show.
IDLE_SEC = 4.0


async def play(plan: Plan, folder: Path) -> Outcome:
    """Runs the whole test in an empty folder."""
    journal = Journal()
    evidence, settled_after_sec = Evidence(), None
    async with running_fleet(plan, folder, journal) as fleet:
        if not await fleet.wait_until_ready():
            journal.note_fault("processes that exited unexpectedly", "fleet", "not ready in time, before any kill")
        wheel_changer = WheelChanger(plan, fleet.urls, journal)
        if plan.syncs_wheels:
            await wheel_changer.begin()
        async with running_node_workers(plan, fleet.urls, journal) as execution_clients:
            until = asyncio.get_running_loop().time() + plan.seconds
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    group.create_task(Client(number, plan, fleet.urls, journal).run(until))
                for number in range(WATCHERS):
                    group.create_task(Reader(number, plan, fleet.urls, journal).run(until))
                for number in range(JOB_CLIENTS if plan.jobs_per_sec else 0):
                    keyed = KeyedClient(f"job-client-{number}", plan.seed, fleet.urls, journal)
                    group.create_task(JobClient(keyed, plan, journal).run(until))
                for number in range(RECHECK_CLIENTS if plan.rechecks_per_sec else 0):
                    keyed = KeyedClient(f"recheck-client-{number}", plan.seed, fleet.urls, journal)
                    group.create_task(RecheckClient(keyed, plan, journal).run(until))
                for client in execution_clients:
                    group.create_task(client.run(until))
                group.create_task(Killer(plan, fleet, journal, wheel_changer).run(until))
            since = time.monotonic()
            await fleet.wait_until_ready()
            if await wait_until_idle(fleet, plan.settle_sec):
                settled_after_sec = time.monotonic() - since
        if plan.syncs_wheels:
            await wheel_changer.close()
            await wait_until_synced(fleet, partial(newest_for, changes=journal.changes), plan.settle_sec)
        await asyncio.sleep(IDLE_SEC)
        evidence = await collect(fleet, journal, folder)
    for pid, command in marked(fleet.marker):
        journal.note_fault("orphan processes", str(pid), command)
    return Outcome(
        plan=plan,
        evidence=evidence,
        journal=journal,
        figures=statistics(evidence, journal),
        violations=violations(evidence, journal),
        settled_after_sec=settled_after_sec,
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of load and kills (60)")
    parser.add_argument("--seed", type=int, help="repeat the random choices of an earlier run")
    parser.add_argument(
        "--kill-every", type=float, default=2.5, metavar="SEC", help="average interval between kills (2.5)"
    )
    parser.add_argument(
        "--only", default=",".join(KINDS), help=f"kinds of faults, comma-separated: {','.join(KINDS)} (all)"
    )
    parser.add_argument("--rate", type=float, default=12.0, help="runs submitted per second (12)")
    parser.add_argument("--executions", type=float, default=2.0, help="executions created per second (2; 0: none)")
    parser.add_argument("--jobs", type=float, default=1.0, help="jobs submitted per second (1; 0: none)")
    parser.add_argument("--rechecks", type=float, default=1.0, help="rechecks requested per second (1; 0: none)")
    parser.add_argument(
        "--settle", type=float, default=90.0, metavar="SEC", help="time limit to become idle after the last kill (90)"
    )
    parser.add_argument("--gateways", type=int, default=2, help="number of gateways (2)")
    parser.add_argument("--workers", type=int, default=4, help="number of workers (4)")
    parser.add_argument(
        "--sync",
        choices=("always", "interval"),
        default=os.environ.get("PYOCO_NATS_SYNC", "always"),
        help="when nats-server writes to disk (PYOCO_NATS_SYNC, always)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcome as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the data and log folder")
    parsed = parser.parse_args(arguments)
    parsed.only = _kinds(parser, parsed.only)
    return parsed


def _kinds(parser: argparse.ArgumentParser, text: str) -> tuple[Kind, ...]:
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in KINDS:
            parser.error(f"--only accepts {', '.join(KINDS)}; not {name!r}")
    return tuple(kind for kind in KINDS if kind in wanted)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    plan = Plan(
        seconds=options.seconds,
        seed=options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000),
        kill_every_sec=options.kill_every,
        settle_sec=options.settle,
        runs_per_sec=options.rate,
        gateways=options.gateways,
        workers=options.workers,
        kinds=options.only,
        sync=options.sync,
        executions_per_sec=options.executions,
        jobs_per_sec=options.jobs,
        rechecks_per_sec=options.rechecks,
    )
    folder = Path(tempfile.mkdtemp(prefix="pyoco-chaos-"))
    print(
        f"chaos: seed {plan.seed}, {plan.seconds:g} s and up to {plan.settle_sec:g} s to settle; in {folder}",
        flush=True,
    )
    outcome = asyncio.run(play(plan, folder))
    print(to_text(outcome))
    if options.json is not None:
        options.json.write_bytes(orjson.dumps(to_plain(outcome), option=orjson.OPT_INDENT_2))
    if outcome.is_clean and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"data and logs are in {folder}")
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
