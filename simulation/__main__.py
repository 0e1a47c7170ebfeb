"""`python -m simulation`: play interleavings of many seeds, or one again, and judge. Exit status 1: broken."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

import orjson

from simulation.batch import Total, play_many
from simulation.core_only import Bare
from simulation.play import play, without_small_talk
from simulation.report import bare_to_text, played_to_text, progress_line, to_plain, to_text

INTERLEAVINGS = 10_000
# Sets of texts are gone through in an order that Python draws anew with each start, unless it is told not to.
HASH_SEED = "PYTHONHASHSEED"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--interleavings", type=_count, metavar="N", help=f"how many ({INTERLEAVINGS:,})")
    parser.add_argument("--seconds", type=float, metavar="N", help="as many as there is time for")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed; the others follow it (random)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play this one and tell its story")
    parser.add_argument("--bare", action="store_true", help="the core and its log alone, five times as fast")
    parser.add_argument("--processes", type=_count, default=os.cpu_count() or 1, metavar="N", help="(one per core)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there too")
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
    asked = parse(arguments)
    if asked.replay is not None:
        return _replay_bare(asked.replay) if asked.bare else _replay(asked.replay)
    first = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000_000)
    print(f"simulation: from seed {first} on", flush=True)
    progress = _show if sys.stderr.isatty() else _say_nothing
    total = play_many(
        first,
        asked.interleavings,
        seconds=asked.seconds,
        processes=asked.processes,
        progress=progress,
        bare=asked.bare,
    )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(to_text(total, first, bare=asked.bare))
    if asked.json is not None:
        asked.json.write_bytes(orjson.dumps(to_plain(total, first), option=orjson.OPT_INDENT_2))
    return 0 if total.is_clean else 1


def _replay(seed: int) -> int:
    with without_small_talk():
        played = play(seed, tell=True)
    print(played_to_text(played))
    return 1 if played.violations else 0


def _replay_bare(seed: int) -> int:
    bare = Bare(seed)
    violations = tuple(bare.play())
    print(bare_to_text(seed, bare.log.commits, violations))
    return 1 if violations else 0


def _show(total: Total) -> None:
    print(f"\r{progress_line(total)}\x1b[K", end="", file=sys.stderr, flush=True)


def _say_nothing(total: Total) -> None:
    return


def _with_fixed_hashes() -> None:
    """Begin this program anew where the same seed would not be the same interleaving."""
    if os.environ.get(HASH_SEED) != "0":
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])


if __name__ == "__main__":
    _with_fixed_hashes()
    sys.exit(main(sys.argv[1:]))
