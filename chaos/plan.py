"""The plan of one run (duration, load, faults) and the settings of all processes.

Detection times are shortened, so that one minute contains many recoveries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pyoco_server.adapters.embedded_nats.server import Sync

Kind = Literal[
    "worker",
    "gateway",
    "nats",
    "runner",
    "fork_server",
    "worker_stop",
    "gateway_stop",
    "worker_pause",
    "gateway_pause",
    "nats_pause",
    "nats_away",
    "worker_twin",
    "wheels",
    "installing",
    "code",
]

# Relative frequency of each fault. `_stop` sends SIGTERM, as a deployment does. `_pause` suspends a process and resumes
# it: a worker returns as a zombie whose runs were taken over, a broker makes all clients wait. `worker_twin` starts a
# second worker with the id of a live one. `wheels` changes the registry; `installing` kills a worker that installs.
# `code` saves a new version of the flows' code.
KINDS: Mapping[Kind, int] = {
    "worker": 4,
    "gateway": 2,
    "nats": 3,
    "runner": 2,
    "fork_server": 1,
    "worker_stop": 2,
    "gateway_stop": 1,
    "worker_pause": 2,
    "gateway_pause": 1,
    "nats_pause": 1,
    "nats_away": 1,
    "worker_twin": 1,
    "wheels": 4,
    "installing": 2,
    "code": 3,
}

FLOWS = Path(__file__).with_name("flows.py")
TAGS = ("default", "blue", "green")
# Runs with the first tag need workers that sync wheels; the second tag has only wheels, no runs.
WHEELS_TAG, RED_TAG = "wheels", "red"
WITH_WHEELS: tuple[Kind, ...] = ("wheels", "installing")
SLOTS = 4
# In the environment of every process: a process that still has it at the end is an orphan.
MARKER = "PYOCO_CHAOS_RUN"
SIDE_EFFECTS_FILE = "side-effects.txt"

SETTINGS = {
    "PYOCO_LOAD_DOTENV": "0",
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "3",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "1",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "1",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "1",
    "PYOCO_WORKERS_KV_TTL_SEC": "4",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "5",
    "PYOCO_WORKER_STOP_GRACE_PERIOD_SEC": "2",
    "PYOCO_WHEEL_SYNC_INTERVAL_SEC": "1",
    # All clients are one caller.
    "PYOCO_RATE_LIMIT_READ_PER_MIN": "0",
    "PYOCO_RATE_LIMIT_WRITE_PER_MIN": "0",
    "PYOCO_RATE_LIMIT_BULK_PER_MIN": "0",
    "PIP_NO_INDEX": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of one run."""

    seconds: float
    seed: int
    kill_every_sec: float
    settle_sec: float
    runs_per_sec: float
    gateways: int
    workers: int
    kinds: tuple[Kind, ...]
    sync: Sync
    executions_per_sec: float = 0.0
    jobs_per_sec: float = 0.0
    rechecks_per_sec: float = 0.0

    @property
    def syncs_wheels(self) -> bool:
        """Whether the run includes wheels; otherwise no worker syncs."""
        return any(kind in WITH_WHEELS for kind in self.kinds)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)


def environment(plan: Plan, folder: Path, nats_url: str, nats_token: str, marker: str) -> dict[str, str]:
    """The environment of every process; variables of the calling process override SETTINGS."""
    ours = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYOCO_DATA_DIR": str(folder / "data"),
        "PYOCO_NATS_URL": nats_url,
        "PYOCO_NATS_TOKEN": nats_token,
        "PYOCO_NATS_SYNC": plan.sync,
        "PYOCO_CHAOS_SIDE_EFFECTS": str(folder / SIDE_EFFECTS_FILE),
        MARKER: marker,
    }
    return {**SETTINGS, **os.environ, **ours}
