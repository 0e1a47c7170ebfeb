"""The promises hold in every order of things that was tried, each from its seed; `PYOCO_TEST_LONG=1` tries more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.effort import effort

ROOT = Path(__file__).resolve().parents[2]
# Neighbouring seeds have nothing in common but their number. More of them are for `scripts/simulate`: one takes a core
# some 15 ms, most of which is the program's own work.
FIRST_SEED = 1_000_000
CHUNKS, INTERLEAVINGS = effort(1, 2), effort(1_000, 2_000)
# Of the core and its log alone: 2 ms each.
BARE_CHUNKS, BARE_INTERLEAVINGS = effort(1, 4), effort(20_000, 24_000)
# An idle machine of two cores takes a fraction of it; a busy one is not a broken one.
PATIENCE_SEC = 900.0

pytestmark = pytest.mark.timeout(PATIENCE_SEC + 60.0)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"), *sys.path))},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SEC,
        check=False,
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_order_of_things_breaks_a_promise(chunk: int, tmp_path: Path) -> None:
    first, outcome_file = FIRST_SEED + chunk * INTERLEAVINGS, tmp_path / "outcome.json"

    played = simulate(
        *("--seed", str(first), "--interleavings", str(INTERLEAVINGS), "--processes", "2"),
        *("--json", str(outcome_file)),
    )

    assert played.returncode == 0, played.stdout + played.stderr
    outcome = json.loads(outcome_file.read_text())
    assert outcome["clean"]
    assert outcome["interleavings"] == INTERLEAVINGS
    figures = outcome["figures"]
    for counters in ("crashes", "faults", "refusals", "lost", "ended COMPLETED", "ended FAILED", "ended CANCELED"):
        assert figures[counters] > INTERLEAVINGS // 20, figures


@pytest.mark.parametrize("chunk", range(BARE_CHUNKS))
def test_no_order_of_appends_breaks_the_core(chunk: int, tmp_path: Path) -> None:
    first, outcome_file = FIRST_SEED + chunk * BARE_INTERLEAVINGS, tmp_path / "outcome.json"

    played = simulate(
        *("--bare", "--seed", str(first), "--interleavings", str(BARE_INTERLEAVINGS), "--processes", "2"),
        *("--json", str(outcome_file)),
    )

    assert played.returncode == 0, played.stdout + played.stderr
    outcome = json.loads(outcome_file.read_text())
    assert (outcome["clean"], outcome["interleavings"]) == (True, BARE_INTERLEAVINGS)
    figures = outcome["figures"]
    for counters in ("deaths", "refusals", "lost", "ended COMPLETED", "ended FAILED", "ended CANCELED"):
        assert figures[counters] > BARE_INTERLEAVINGS // 40, figures


@pytest.mark.parametrize("kind", [(), ("--bare",)])
def test_a_seed_is_the_same_interleaving_in_every_process(kind: tuple[str, ...]) -> None:
    first, second = simulate(*kind, "--replay", "77"), simulate(*kind, "--replay", "77")

    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout == second.stdout
    assert "EXECUTION_CREATED" in first.stdout


def test_what_is_no_number_of_interleavings_is_refused() -> None:
    played = simulate("--interleavings", "0")

    assert played.returncode == 2
    assert "must be 1 or more" in played.stderr
