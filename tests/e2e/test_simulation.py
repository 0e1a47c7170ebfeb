"""The invariants hold in simulated interleavings with fixed seeds; `PYOCO_TEST_LONG=1` plays more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.effort import effort

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = 1_000_000
INTERLEAVINGS = effort(2_000, 20_000)
# A fraction of it on an idle machine.
TIMEOUT_SEC = 900.0

pytestmark = pytest.mark.timeout(TIMEOUT_SEC + 60.0)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    search_path = os.pathsep.join((str(ROOT), str(ROOT / "src"), *sys.path))
    return subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SEC,
        check=False,
    )


def test_no_invariant_is_violated_in_any_interleaving(tmp_path: Path) -> None:
    outcome_file = tmp_path / "outcome.json"

    played = simulate(
        *("--seed", str(FIRST_SEED), "--interleavings", str(INTERLEAVINGS), "--processes", "2"),
        *("--json", str(outcome_file)),
    )

    assert played.returncode == 0, played.stdout + played.stderr
    outcome = json.loads(outcome_file.read_text())
    assert (outcome["clean"], outcome["interleavings"]) == (True, INTERLEAVINGS)
    figures = outcome["figures"]
    for name in ("crashes", "faults", "refusals", "lost", "ended COMPLETED", "ended FAILED", "ended CANCELED"):
        assert figures[name] > INTERLEAVINGS // 20, figures


def test_a_seed_gives_the_same_interleaving_in_every_process() -> None:
    first, second = simulate("--replay", "77"), simulate("--replay", "77")

    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout == second.stdout
    assert "EXECUTION_CREATED" in first.stdout


def test_an_invalid_number_of_interleavings_is_rejected() -> None:
    played = simulate("--interleavings", "0")

    assert played.returncode == 2
    assert "must be 1 or more" in played.stderr
