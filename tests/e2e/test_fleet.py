"""Workers as real processes, and their states at a gateway when they start, stop and die."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from support.broker import Broker
from support.programs import FLOWS, Program, connected, flow_worker, run_of, until, up, worker

PATIENCE_SEC = 30.0
QUICK = {
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKERS_KV_TTL_SEC": "1",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "1.5",
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "2",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5",
}


working = partial(flow_worker, env=QUICK)


def test_a_killed_worker_is_disconnected_and_a_stopped_one_graceful(tmp_path: Path) -> None:
    with up(tmp_path, env=QUICK) as program, connected(program) as client:

        def states() -> dict[str, str]:
            shown = client.get("/workers", params={"scope": "all"}).json()
            return {one["worker_id"]: one["state"] for one in shown}

        with working("polite", tmp_path) as polite, working("unlucky", tmp_path) as unlucky:
            until(states, lambda shown: shown == {"polite": "IDLE", "unlucky": "IDLE"})
            polite.signal(signal.SIGTERM)
            unlucky.signal(signal.SIGKILL)
            assert polite.exit_code() == 0, polite.output()

            ended = {"polite": "STOPPED_GRACEFUL", "unlucky": "DISCONNECTED"}
            assert until(states, lambda shown: shown == ended)

        assert client.get("/workers").json() == []
        with working("unlucky", tmp_path):
            until(states, lambda shown: shown["unlucky"] == "IDLE")


def test_a_worker_announces_its_flows_and_explain_names_an_unannounced_one(tmp_path: Path) -> None:
    with (
        up(tmp_path, env=QUICK) as program,
        connected(program) as client,
        working("one", tmp_path),
    ):
        (shown,) = until(lambda: client.get("/workers").json(), lambda found: len(found) == 1)
        signpost = tmp_path / "go-on"
        client.post("/runs", json={"flow_name": "waits", "params": {"path": str(signpost)}})
        until(lambda: client.get("/workers").json(), lambda found: found[0]["state"] == "RUNNING")
        run_id = client.post("/runs", json={"flow_name": "helo"}).json()["run_id"]
        explained = client.get(f"/runs/{run_id}/explain").json()
        signpost.touch()

    assert shown["flows"][:3] == ["hello", "sum", "fails"]
    assert [reason["code"] for reason in explained["reasons"]] == ["all_slots_busy", "flow_not_announced"]
    assert explained["reasons"][1]["facts"]["announced_flows"][0] == "hello"


def test_a_run_of_a_lost_worker_explains_it_and_continues_on_another(tmp_path: Path) -> None:
    with up(tmp_path, env=QUICK) as program, connected(program) as client:
        signpost = tmp_path / "go-on"
        request = {"flow_name": "waits", "params": {"path": str(signpost)}}
        run_id = client.post("/runs", json=request).json()["run_id"]

        def codes() -> list[str]:
            explained = client.get(f"/runs/{run_id}/explain").json()
            assert "reasons" in explained, explained
            return [reason["code"] for reason in explained["reasons"]]

        shown = partial(run_of, client, run_id)
        assert codes() == ["no_worker_for_tag"]
        with working("unlucky", tmp_path) as unlucky:
            until(codes, lambda explained: explained == ["running"])
            assert until(shown, lambda run: run["worker_alive"])["worker_id"] == "unlucky"
            unlucky.signal(signal.SIGKILL)
            until(codes, lambda explained: explained == ["worker_silent", "workers_for_tag_are_gone"])
            lost = shown()
        with working("lucky", tmp_path):
            until(codes, lambda explained: explained == ["running", "tried_again"])
            signpost.touch()
            until(codes, lambda explained: explained == ["completed"])

    assert (lost["status"], lost["worker_alive"], lost["worker_tags"]) == ("RUNNING", False, ["default"])


def test_a_worker_id_in_use_is_rejected_until_its_owner_is_dead(tmp_path: Path) -> None:
    with up(tmp_path, env=QUICK) as program, connected(program) as client:

        def instances() -> list[tuple[str, str]]:
            shown = client.get("/workers", params={"scope": "all"}).json()
            return [(one["instance_id"], one["state"]) for one in shown]

        with working("twin", tmp_path) as first:
            first.out.wait_for('"message":"worker ready"')
            ((instance, _),) = instances()
            with working("twin", tmp_path) as second:
                assert second.exit_code() == 1, second.output()
                assert "'twin' is running" in second.output()
                assert "--worker-id" in second.output()
            assert instances() == [(instance, "IDLE")]
            first.signal(signal.SIGKILL)
            with working("twin", tmp_path) as heir:
                heir.out.wait_for('"message":"worker ready"')
                ((after, state),) = until(instances, lambda shown: shown[0][0] != instance)

    assert (after != instance, state) == (True, "IDLE")


def test_the_registry_shows_the_current_runs_of_a_worker_or_idle(tmp_path: Path) -> None:
    with up(tmp_path) as program, connected(program) as client:
        signpost = tmp_path / "go-on"

        def shown() -> dict[str, Any]:
            (one,) = client.get("/workers").json()
            return {name: one[name] for name in ("state", "current_run_id", "current_run_ids", "slots", "slots_busy")}

        with worker(
            *("--data-dir", "data", "--flow-resolver", f"{FLOWS}:resolve", "--worker-id", "one"), cwd=tmp_path
        ) as one:
            one.out.wait_for('"message":"worker ready"')
            request = {"flow_name": "waits", "params": {"path": str(signpost)}}
            run_id = client.post("/runs", json=request).json()["run_id"]
            busy = until(shown, lambda record: record["state"] == "RUNNING")
            signpost.touch()
            idle = until(shown, lambda record: record["state"] == "IDLE")

    assert (busy["current_run_id"], busy["current_run_ids"], busy["slots_busy"]) == (run_id, [run_id], 1)
    assert (idle["current_run_id"], idle["current_run_ids"], idle["slots_busy"]) == (None, [], 0)
    assert busy["slots"] == os.cpu_count()


def test_a_stopped_worker_finishes_or_returns_its_runs_within_the_grace_period(tmp_path: Path) -> None:
    grace = {**QUICK, "PYOCO_WORKER_STOP_GRACE_PERIOD_SEC": "3"}
    arguments = ("--data-dir", "data", "--flow-resolver", f"{FLOWS}:resolve")
    with up(tmp_path, env=grace) as program, connected(program) as client:
        soon, late = tmp_path / "soon", tmp_path / "late"

        def submit(signpost: Path) -> str:
            request = {"flow_name": "waits", "params": {"path": str(signpost)}}
            run_id: str = client.post("/runs", json=request).json()["run_id"]
            return run_id

        first_args = (*arguments, "--worker-id", "first", "--concurrency", "2")
        with worker(*first_args, cwd=tmp_path, env=grace) as first:
            finishes, outlasts = submit(soon), submit(late)
            for run_id in (finishes, outlasts):
                until(partial(run_of, client, run_id), lambda shown: shown["tasks"].get("wait_for_file") == "RUNNING")
            first.signal(signal.SIGTERM)
            first.out.wait_for("finishing runs")
            soon.touch()
            assert first.exit_code() == 0, first.output()
        finished = run_of(client, finishes)
        with worker(*arguments, "--worker-id", "second", "--concurrency", "2", cwd=tmp_path, env=grace):
            late.touch()
            handed_over = until(partial(run_of, client, outlasts), lambda shown: shown["status"] == "COMPLETED")

    assert (finished["status"], finished["worker_id"], finished["attempt"]) == ("COMPLETED", "first", 1)
    assert (handed_over["worker_id"], handed_over["attempt"]) == ("second", 2)


def test_a_long_broker_outage_neither_loses_nor_repeats_runs(tmp_path: Path) -> None:
    arguments = ("--worker-id", "one", "--flow-resolver", f"{FLOWS}:resolve", "--concurrency", "2")
    witness = tmp_path / "begun"
    with Broker(tmp_path) as broker:
        env = {"PYOCO_NATS_URL": broker.url}
        with (
            up(tmp_path, "--nats-url", broker.url, env=env) as program,
            connected(program) as client,
            worker("--nats-url", broker.url, *arguments, cwd=tmp_path, env=env) as one,
        ):

            def run(run_id: str) -> dict[str, Any]:
                shown: dict[str, Any] = client.get(f"/runs/{run_id}").json()
                return shown

            done = client.post("/runs", json={"flow_name": "hello"}).json()["run_id"]
            until(partial(run_of, client, done), lambda shown: shown["status"] == "COMPLETED")
            signpost = tmp_path / "go-on"
            request = {"flow_name": "notes", "params": {"path": str(signpost), "witness": str(witness)}}
            run_id = client.post("/runs", json=request).json()["run_id"]
            until(partial(run_of, client, run_id), lambda shown: shown["tasks"].get("note_and_wait") == "RUNNING")
            broker.kill()
            one.out.wait_for("no heartbeat: the broker is away")
            signpost.touch()
            one.out.wait_for("ERR-PYOCO-0008")
            broker.start()

            ended = until(partial(run_of, client, run_id), lambda shown: shown.get("status") == "COMPLETED")
            after = until(
                lambda: client.post("/runs", json={"flow_name": "hello"}), lambda response: response.status_code == 200
            ).json()["run_id"]
            until(partial(run_of, client, after), lambda shown: shown.get("status") == "COMPLETED")
            untouched = run(done)

    assert (ended["attempt"], untouched["attempt"]) == (1, 1)
    assert witness.read_text() == "begun\n"


def test_a_worker_that_cannot_write_its_log_reports_it_and_continues(tmp_path: Path) -> None:
    arguments = f"--data-dir data --worker-id mute --flow-resolver {FLOWS}:resolve"
    command = f"exec {sys.executable} -m pyoco_server.cli.worker {arguments} > /dev/full"
    with (
        up(tmp_path, env=QUICK) as program,
        connected(program) as client,
        Program("-c", f"import os; os.execv('/bin/sh', ['sh', '-c', {command!r}])", cwd=tmp_path, env=QUICK) as mute,
    ):
        mute.err.wait_for("ERR-PYOCO-0013")
        run_id = client.post("/runs", json={"flow_name": "hello"}).json()["run_id"]

        ended = until(lambda: client.get(f"/runs/{run_id}").json(), lambda run: run["status"] == "COMPLETED")

    assert ended["worker_id"] == "mute"
