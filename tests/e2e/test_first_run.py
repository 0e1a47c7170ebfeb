"""The first steps of a new user with one `pyoco-server up --with-worker`; all processes are real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import locate_broker, open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.stores import DeadLetter
from support.programs import Program, address_of, connected, until, up_with_worker

PATIENCE_SEC = 30.0
LOG_FIELDS = {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func"}
QUICK = {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5", "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def system(folder: Path) -> Iterator[Program]:
    with up_with_worker(folder, "--worker-concurrency", "2", "--worker-id", "local", env=QUICK) as program:
        yield program


@pytest.fixture
def client(system: Program) -> Iterator[httpx.Client]:
    with connected(system) as opened:
        yield opened


def submit(client: httpx.Client, flow_name: str, **params: Any) -> str:
    response = client.post("/runs", json={"flow_name": flow_name, "params": params})
    assert response.status_code == 200, response.text
    run_id: str = response.json()["run_id"]
    return run_id


def wait_for_status(client: httpx.Client, run_id: str, *statuses: str) -> dict[str, Any]:
    """Polls the run until it has one of these statuses."""

    def ask() -> dict[str, Any]:
        run: dict[str, Any] = client.get(f"/runs/{run_id}", params={"include": "records"}).json()
        return run

    return until(ask, lambda run: run.get("status") in statuses)


def begun(client: httpx.Client, run_id: str) -> None:
    """Waits until the task of the flow runs."""
    until(lambda: client.get(f"/runs/{run_id}").json()["tasks"], lambda tasks: "RUNNING" in tasks.values())


def test_an_accepted_run_is_on_disk(client: httpx.Client) -> None:
    assert client.post("/runs", json={"flow_name": "hello"}).json()["durability"] == "fsynced"


def test_output_of_a_flow_is_in_the_run_log_and_not_in_the_worker_log(client: httpx.Client, system: Program) -> None:
    run_id = submit(client, "hello", name="log")
    wait_for_status(client, run_id, "COMPLETED")

    log = client.get(f"/runs/{run_id}/logs").json()

    assert [(item["message"], item["task"]) for item in log["items"]] == [("saying hello to log", "greet")]
    assert log["complete"] is True
    assert not [line for line in system.logs() if "saying hello to log" in line["message"]]


def test_an_unknown_flow_fails_its_run_and_leaves_a_dead_letter(client: httpx.Client, folder: Path) -> None:
    run_id = submit(client, "no-such-flow")
    run = wait_for_status(client, run_id, "FAILED")

    assert "no-such-flow" in run["error"]
    letter = next(letter for letter in asyncio.run(dead_letters(folder)) if letter.run_id == run_id)
    assert (letter.reason, letter.flow_name, letter.worker_id) == (
        "flow_not_found",
        "no-such-flow",
        "local",
    )


async def dead_letters(folder: Path) -> list[DeadLetter]:
    config = locate_broker(replace(NatsBackendConfig(), data_dir=str(folder / "data")))
    async with open_stores(config, name="test") as stores:
        return list(await stores.dead_letters.recent())


def test_a_flow_that_ignores_its_cancel_is_killed_after_the_grace_period(client: httpx.Client, system: Program) -> None:
    run_id = submit(client, "deaf")
    begun(client, run_id)

    client.post(f"/runs/{run_id}/cancel")
    run = wait_for_status(client, run_id, "CANCELLED")

    assert run["cancel"]["how"] == "killed"
    assert 0.5 <= run["cancel"]["stopped_at"] - run["cancel"]["delivered_at"] < 1.5
    system.out.wait_for(rf'"err_id":"ERR-PYOCO-0021"|"run_id":"{run_id}".*"err_id":"ERR-PYOCO-0021"')


def test_every_line_on_stdout_is_a_json_object_with_the_fields_of_the_contract(
    client: httpx.Client, system: Program
) -> None:
    wait_for_status(client, submit(client, "fails"), "FAILED")

    lines = system.logs()

    assert all(line.keys() >= LOG_FIELDS for line in lines)
    assert {line["service"] for line in lines} == {"pyoco-server:http", "pyoco-server:worker"}
    failed = [line for line in lines if line["message"] == "run failed"]
    assert failed
    assert all(line.keys() >= {"run_id", "flow_name", "tag", "worker_id", "reason"} for line in failed)


def test_messages_for_people_are_on_stderr_with_the_next_command(system: Program) -> None:
    words = system.err.all()

    assert any("Ctrl-C" in line for line in words)
    assert any(line.startswith("try: curl") for line in words)
    assert not any(line.startswith("{") for line in words)


def test_only_the_owner_can_read_the_data_folder(folder: Path, system: Program) -> None:
    address_of(system)

    assert os.stat(folder / "data").st_mode & 0o077 == 0
