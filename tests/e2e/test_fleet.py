"""Workers as real processes, and what a gateway says of them when they come, stop and die."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from support.programs import FLOWS, Program, address_of, up, worker

PATIENCE_SEC = 30.0
QUICK = {
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKERS_KV_TTL_SEC": "1",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "1.5",
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
}


def working(name: str, folder: Path) -> Program:
    arguments = ("--data-dir", "data", "--worker-id", name, "--flow-resolver", f"{FLOWS}:resolve")
    return worker(*arguments, "--concurrency", "1", cwd=folder, env=QUICK)


def until(ask: Callable[[], Any], true: Callable[[Any], bool]) -> Any:
    """The answer as soon as it is so."""
    end = time.monotonic() + PATIENCE_SEC
    while not true(answer := ask()):
        assert time.monotonic() < end, answer
    return answer


def test_a_killed_worker_is_disconnected_and_a_stopped_one_has_said_goodbye(tmp_path: Path) -> None:
    with up(tmp_path, env=QUICK) as program, httpx.Client(base_url=address_of(program), timeout=30.0) as client:

        def states() -> dict[str, str]:
            shown = client.get("/workers", params={"scope": "all"}).json()
            return {one["worker_id"]: one["state"] for one in shown}

        with working("polite", tmp_path) as polite, working("unlucky", tmp_path) as unlucky:
            until(states, lambda shown: shown == {"polite": "IDLE", "unlucky": "IDLE"})
            polite.signal(signal.SIGTERM)
            unlucky.signal(signal.SIGKILL)
            assert polite.exit_code() == 0, polite.said()

            ended = {"polite": "STOPPED_GRACEFUL", "unlucky": "DISCONNECTED"}
            assert until(states, lambda shown: shown == ended)

        assert client.get("/workers").json() == []
        with working("unlucky", tmp_path):
            until(states, lambda shown: shown["unlucky"] == "IDLE")


def test_a_run_explains_what_became_of_its_worker_and_goes_on_with_the_next(tmp_path: Path) -> None:
    with up(tmp_path, env=QUICK) as program, httpx.Client(base_url=address_of(program), timeout=30.0) as client:
        signpost = tmp_path / "go-on"
        asked = {"flow_name": "waits", "params": {"path": str(signpost)}}
        run_id = client.post("/runs", json=asked).json()["run_id"]

        def codes() -> list[str]:
            told = client.get(f"/runs/{run_id}/explain").json()
            return [reason["code"] for reason in told["reasons"]]

        def shown() -> dict[str, Any]:
            run: dict[str, Any] = client.get(f"/runs/{run_id}").json()
            return run

        assert codes() == ["no_worker_for_tag"]
        with working("unlucky", tmp_path) as unlucky:
            until(codes, lambda told: told == ["running"])
            assert until(shown, lambda run: run["worker_alive"])["worker_id"] == "unlucky"
            unlucky.signal(signal.SIGKILL)
            until(codes, lambda told: told == ["worker_silent", "workers_for_tag_are_gone"])
            lost = shown()
        with working("lucky", tmp_path):
            until(codes, lambda told: told == ["running", "tried_again"])
            signpost.touch()
            until(codes, lambda told: told == ["completed"])

    assert (lost["status"], lost["worker_alive"], lost["worker_tags"]) == ("RUNNING", False, ["default"])
