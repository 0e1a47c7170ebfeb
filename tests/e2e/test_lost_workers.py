"""Runs of workers that were lost, with real processes and the default AckWait of 30 s."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.programs import Program, connected, flow_worker, run_of, until, up

# A run is returned after five of them.
QUICK = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.4"}


working = partial(flow_worker, env=QUICK)


def submit(client: httpx.Client, signpost: Path) -> str:
    request = {"flow_name": "waits", "params": {"path": str(signpost)}}
    run_id: str = client.post("/runs", json=request).json()["run_id"]
    return run_id


def all_are(client: httpx.Client, run_ids: list[str], true: Callable[[dict[str, Any]], bool]) -> None:
    """Waits until the condition holds for every run."""
    for run_id in run_ids:
        until(partial(run_of, client, run_id), true)


def held_by(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda shown: shown["worker_id"] == name and shown["tasks"].get("wait_for_file") == "RUNNING"


def returned_by_gateway(program: Program) -> list[dict[str, Any]]:
    return [line for line in program.logs() if line["message"] == "returned the job of a lost worker"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_run_of_a_killed_worker_continues_elsewhere_before_its_ack_wait(
    tmp_path: Path, number: signal.Signals
) -> None:
    signpost = tmp_path / "go-on"
    with up(tmp_path, env=QUICK) as program, connected(program) as client, working("unlucky", tmp_path) as unlucky:
        run_id = submit(client, signpost)
        until(lambda: run_of(client, run_id), held_by("unlucky"))
        with working("lucky", tmp_path) as lucky:
            lucky.out.wait_for('"message":"worker ready"')
            unlucky.signal(number)

            taken_over = until(lambda: run_of(client, run_id), held_by("lucky"))
            if number is signal.SIGSTOP:
                unlucky.signal(signal.SIGCONT)
                unlucky.out.wait_for('"outcome":"Fenced"')
            signpost.touch()
            ended = until(lambda: run_of(client, run_id), lambda shown: shown["status"] == "COMPLETED")
        given_back = returned_by_gateway(program)

    assert (taken_over["attempt"], ended["attempt"], ended["worker_id"]) == (2, 2, "lucky")
    # By the gateway, before AckWait; perhaps twice, because a stopped worker still requests jobs.
    assert {(line["run_id"], line["attempt"]) for line in given_back} == {(run_id, 1)}


def test_a_restarted_gateway_returns_the_run_of_a_killed_worker(tmp_path: Path) -> None:
    signpost = tmp_path / "go-on"
    with up(tmp_path, env=QUICK) as program, connected(program) as client, working("unlucky", tmp_path) as unlucky:
        run_id = submit(client, signpost)
        until(lambda: run_of(client, run_id), held_by("unlucky"))
        unlucky.signal(signal.SIGKILL)
        program.signal(signal.SIGKILL)
        program.exit_code()
    with up(tmp_path, env=QUICK) as program, connected(program) as client, working("lucky", tmp_path):
        until(lambda: run_of(client, run_id), held_by("lucky"))
        signpost.touch()
        ended = until(lambda: run_of(client, run_id), lambda shown: shown["status"] == "COMPLETED")

    assert ended["attempt"] == 2


def test_many_runs_of_a_killed_worker_continue_elsewhere(tmp_path: Path) -> None:
    signpost = tmp_path / "go-on"
    with (
        up(tmp_path, env=QUICK) as program,
        connected(program) as client,
        working("unlucky", tmp_path, concurrency=12) as unlucky,
    ):
        run_ids = [submit(client, signpost) for _ in range(12)]
        all_are(client, run_ids, held_by("unlucky"))
        with working("lucky", tmp_path, concurrency=12) as lucky:
            lucky.out.wait_for('"message":"worker ready"')
            unlucky.signal(signal.SIGKILL)

            all_are(client, run_ids, held_by("lucky"))
            signpost.touch()
            all_are(client, run_ids, lambda shown: shown["status"] == "COMPLETED")
        given_back = returned_by_gateway(program)

    assert sorted(line["run_id"] for line in given_back) == sorted(run_ids)
