"""Wheels uploaded over HTTP and used by runs on real workers: new versions, deletions, broken ones, and a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.test_first_run import begun, wait_for_status
from support.processes import descendants, wait_for_exit
from support.programs import Program, connected, until, up, worker
from support.wheels import installable

QUICK = {"PYOCO_WHEEL_SYNC_INTERVAL_SEC": "0.3", "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2", "PIP_NO_INDEX": "1"}
MODULE = """\
import subprocess, sys, time
from pathlib import Path

VERSION = {version!r}

def version():
    return VERSION

def version_later(path):
    while not Path(path).exists():
        time.sleep(0.01)
    program = "import tools_of_ours; print(tools_of_ours.VERSION)"
    return [VERSION, subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip()]
"""
ONE_TASK = "tasks: {only: {callable: 'tools_of_ours:%s'}}\nflow: {graph: only, defaults: {path: '%s'}}\n"


def tools(version: str) -> tuple[str, bytes]:
    return installable("tools_of_ours", version, files={"tools_of_ours.py": MODULE.format(version=version)})


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The worker of `up` has the setting, too."""
    environment = QUICK | {"PYOCO_WHEEL_SYNC_ENABLED": "1"}
    folder = tmp_path_factory.mktemp("wheels")
    with up(folder, "--with-worker", "--worker-concurrency", "1", env=environment) as program:
        yield program


@pytest.fixture(scope="module")
def client(system: Program) -> Iterator[httpx.Client]:
    with connected(system) as opened:
        yield opened


def upload(client: httpx.Client, wheel: tuple[str, bytes], tags: str = "") -> dict[str, Any]:
    response = client.post("/wheels", files={"wheel": wheel}, data={"tags": tags})
    assert response.status_code == 200, response.text
    stored: dict[str, Any] = response.json()
    return stored


def submit(client: httpx.Client, function: str, path: object = "", tag: str = "default") -> str:
    response = client.post(
        "/runs/yaml",
        files={"workflow": ("flow.yaml", ONE_TASK % (function, path))},
        data={"flow_name": "with wheels", "tag": tag},
    )
    assert response.status_code == 200, response.text
    run_id: str = response.json()["run_id"]
    return run_id


def synced(client: httpx.Client, *wheel_names: str, tag: str = "default") -> dict[str, Any]:
    """Waits until the worker of the tag has installed exactly these wheels, and returns its sync report."""

    def found() -> dict[str, Any]:
        for record in client.get("/workers").json():
            reported = record["wheel_sync"]
            installed = [one["wheel_name"] for one in reported["installed"]] if reported else None
            if tag in record["tags"] and installed == list(wheel_names):
                return dict(reported)
        return {}

    return until(found, bool)


def outcome(client: httpx.Client, run_id: str) -> Any:
    run = wait_for_status(client, run_id, "COMPLETED", "FAILED")
    assert (run["status"], run["error"]) == ("COMPLETED", None)
    return run["task_records"]["only"]["output"], [wheel["name"] for wheel in run.get("wheels", [])]


def test_runs_use_and_record_the_wheel_of_their_start(client: httpx.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = upload(client, tools("1.0"))
    synced(client, first["name"])
    running = submit(client, "version_later", go)
    begun(client, running)
    second = upload(client, tools("2.0"))
    reported = synced(client, second["name"])
    go.touch()

    assert outcome(client, running) == (["1.0", "1.0"], [first["name"]])
    later = submit(client, "version")
    assert outcome(client, later) == ("2.0", [second["name"]])
    assert client.get(f"/runs/{later}").json()["wheels"] == [{"name": second["name"], "sha256": second["sha256_hex"]}]
    assert (reported["enabled"], reported["last_result"]) == (True, "ok")


def test_a_worker_killed_during_an_installation_does_not_block_the_next(
    client: httpx.Client, system: Program, tmp_path: Path
) -> None:
    data = ("--data-dir", str(data_folder(system)), "--tags", "gpu", "--concurrency", "1")
    arguments = (*data, "--wheel-sync", "--wheel-sync-dir", "sync", "--wheel-sync-interval-sec", "0.3")
    environments = tmp_path / "sync" / "envs"
    for number in range(20):
        upload(client, installable(f"filler{number}"), "gpu")
    wheel = upload(client, tools("9.0"), "gpu")
    with worker(*arguments, cwd=tmp_path, env=QUICK) as first:
        until(lambda: environments.is_dir() and list(environments.iterdir()), bool)
        (folder,) = environments.iterdir()
        started = descendants(first.pid)
        first.signal(signal.SIGKILL)
        assert not (folder / "environment.json").exists()
        assert all(wait_for_exit(pid) for pid in started)

    with worker(*arguments, cwd=tmp_path, env=QUICK):
        run = wait_for_status(client, submit(client, "version", tag="gpu"), "COMPLETED", "FAILED")

    assert (run["status"], run["error"]) == ("COMPLETED", None)
    assert wheel["name"] in [one["name"] for one in run["wheels"]]
    (only,) = json.loads((tmp_path / "sync" / ".installed.json").read_text())["sets"]
    assert len(only["wheels"]) == 21
    assert [folder.name for folder in environments.iterdir()] == [only["environment"]]


def data_folder(system: Program) -> Path:
    return Path(f"/proc/{system.pid}/cwd").resolve() / "data"
