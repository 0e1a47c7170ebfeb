"""`python -m simulation`: play the interleavings of many seeds, or replay one, and check them. Exit 1: violations."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

import orjson

from simulation.batch import Total, play_many
from simulation.play import play, without_logs
from simulation.report import played_to_text, progress_line, to_plain, to_text

INTERLEAVINGS = 10_000
# The order of sets of strings depends on a random value of each Python process, unless this is set.
HASH_SEED = "PYTHONHASHSEED"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--interleavings", type=_count, metavar="N", help=f"how many ({INTERLEAVINGS:,})")
    parser.add_argument("--seconds", type=float, metavar="N", help="as many as possible in this time")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed; the others follow it (random)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play this one and print its trace")
    parser.add_argument("--processes", type=_count, default=os.cpu_count() or 1, metavar="N", help="(one per core)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcome as JSON")
    parsed = parser.parse_args(arguments)
    if parsed.interleavings is None and parsed.seconds is None:
        parsed.interleavings = INTERLEAVINGS
    return parsed


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000_000)
    print(f"simulation: seeds from {first}", flush=True)
    is_terminal = sys.stderr.isatty()
    total = play_many(
        first,
        options.interleavings,
        seconds=options.seconds,
        processes=options.processes,
        progress=_show if is_terminal else lambda total: None,
    )
    if is_terminal:
        print(file=sys.stderr)
    print(to_text(total, first))
    if options.json is not None:
        options.json.write_bytes(orjson.dumps(to_plain(total, first), option=orjson.OPT_INDENT_2))
    return 0 if total.is_clean else 1


def _replay(seed: int) -> int:
    with without_logs():
        played = play(seed, trace=True)
    print(played_to_text(played))
    return 1 if played.violations else 0


def _show(total: Total) -> None:
    print(f"\r{progress_line(total)}\x1b[K", end="", file=sys.stderr, flush=True)


def _with_fixed_hashes() -> None:
    """Restarts this program with fixed hashes, so that a seed is the same interleaving in every process."""
    if os.environ.get(HASH_SEED) != "0":
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])


if __name__ == "__main__":
    _with_fixed_hashes()
    sys.exit(main(sys.argv[1:]))
