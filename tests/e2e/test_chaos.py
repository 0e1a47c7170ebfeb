"""The invariants hold while real processes are killed: a short chaos run with little load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT = ("--seconds", "15", "--kill-every", "1.5", "--seed", "20", "--settle", "90")
LOAD = ("--rate", "6", "--executions", "1", "--rechecks", "3")
# Long outages of the broker and wheel changes take longer; `scripts/chaos` has them.
KINDS = (
    "worker,gateway,nats,runner,fork_server,worker_stop,gateway_stop,worker_pause,gateway_pause,nats_pause,worker_twin"
)
# The sum of its own limits: start, faults, idle, collection, stop.
TIMEOUT_SEC = 240.0


def test_no_invariant_is_violated_while_processes_are_killed(tmp_path: Path) -> None:
    outcome_file = tmp_path / "outcome.json"
    search_path = os.pathsep.join((str(ROOT), str(ROOT / "src"), *sys.path))

    chaos = subprocess.run(
        [sys.executable, "-m", "chaos", *SHORT, *LOAD, "--only", KINDS, "--json", str(outcome_file)],
        env={**os.environ, "PYTHONPATH": search_path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SEC,
        check=False,
    )

    assert chaos.returncode == 0, chaos.stdout + chaos.stderr
    outcome = json.loads(outcome_file.read_text())
    assert outcome["clean"]
    assert set(outcome["invariants"].values()) == {0}
    assert outcome["figures"]["accepted"] > 0
    assert outcome["figures"]["commands"]["accepted"] > 0
    assert sum(outcome["figures"]["batches"].values()) > 0
    assert sum(outcome["figures"]["followed"].values()) > 0
    assert sum(outcome["figures"]["kills"].values()) > 0


def test_an_unknown_kind_of_fault_is_rejected() -> None:
    search_path = os.pathsep.join((str(ROOT), str(ROOT / "src"), *sys.path))

    chaos = subprocess.run(
        [sys.executable, "-m", "chaos", "--only", "worker,everything"],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert chaos.returncode == 2
    assert "not 'everything'" in chaos.stderr
