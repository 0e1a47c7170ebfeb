"""A data folder of the previous release starts under this one: all of it is readable, and what is open goes on.

`tests/support/make_data_folder.py` makes the fixture. A change of what is stored is made by an upgrade too, so it
belongs into this test.
"""

from __future__ import annotations

import json
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from support.executions import Caller
from support.make_data_folder import FIXTURE, SETTINGS
from support.programs import FLOWS, Program, address_of, until, up, worker


class Upgraded(NamedTuple):
    """A gateway of this version on the old folder, and what the old one had stored."""

    program: Program
    client: httpx.Client
    folder: Path
    known: dict[str, Any]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    folder = tmp_path_factory.mktemp("upgrade")
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(folder, filter="data")
    known = json.loads((folder / "known.json").read_text("utf-8"))
    with up(folder, env=SETTINGS) as program:
        address, headers = address_of(program), {"X-API-Key": known["api_key"]}
        with httpx.Client(base_url=address, headers=headers, timeout=30.0) as client:
            until(lambda: client.get("/ready"), lambda answer: answer.status_code == httpx.codes.OK)
            yield Upgraded(program, client, folder, known)


def execution(upgraded: Upgraded, state: str) -> dict[str, Any]:
    found: dict[str, Any] = upgraded.client.get(f"/executions/{upgraded.known['executions'][state]}").json()
    return found


def test_every_run_is_read_with_its_events_and_listed(upgraded: Upgraded) -> None:
    client, known = upgraded.client, upgraded.known

    runs = {status: client.get(f"/runs/{run_id}").json() for status, run_id in known["runs"].items()}
    histories = [client.get(f"/executions/{run_id}/events").json()["items"] for run_id in known["runs"].values()]
    with_graph = [client.get(f"/executions/{run_id}?include=graph").json() for run_id in known["runs"].values()]
    listed = {run["run_id"] for run in client.get("/runs", params={"limit": 200}).json()}
    labelled = client.get("/jobs", params={"tag": "nightly"}).json()["jobs"]

    assert {status: run["status"] for status, run in runs.items()} == {status: status for status in runs}
    assert runs["COMPLETED"]["params"] == {"name": "fixture"}
    assert all(history[0]["type"] == "EXECUTION_CREATED" for history in histories)
    # Its events do not tell the order of the tasks.
    assert [one.get("graph", "absent") for one in with_graph] == ["absent"] * len(runs)
    assert listed == {*known["runs"].values(), *known["executions"].values()}
    assert [job["id"] for job in labelled] == [known["runs"]["COMPLETED"]]


def test_logs_dead_letters_graphs_wheels_and_workers_are_read(upgraded: Upgraded) -> None:
    client, known = upgraded.client, upgraded.known

    log = client.get(f"/runs/{known['runs']['COMPLETED']}/logs").text
    (letter,) = client.get("/dlq").json()["items"]
    graphs = client.get("/graphs").json()["items"]
    wheels = client.get("/wheels").json()
    history = client.get("/wheels/history").json()
    workers = client.get("/workers", params={"scope": "all"}).json()

    assert "saying hello to fixture" in log
    assert (letter["run_id"], letter["reason"]) == (known["runs"]["FAILED"], "flow_not_found")
    assert [(graph["graphId"], graph["version"], graph["nodeCount"]) for graph in graphs] == [("release", 1, 3)]
    assert [wheel["name"] for wheel in wheels] == [known["wheel"]]
    assert [event["action"] for event in history] == ["upload"]
    assert [worker["worker_id"] for worker in workers] == ["fixture"]


def test_a_waiting_run_completes(upgraded: Upgraded) -> None:
    serving = ("--data-dir", "data", "--worker-id", "new", "--tags", "later", "--flow-resolver", f"{FLOWS}:resolve")

    with worker(*serving, cwd=upgraded.folder, env=SETTINGS) as at_work:
        run = until(
            lambda: upgraded.client.get(f"/runs/{upgraded.known['runs']['PENDING']}").json(),
            lambda found: found["status"] in ("COMPLETED", "FAILED"),
        )
        at_work.signal(signal.SIGTERM)
        assert at_work.exit_code() == 0, at_work.output()

    assert run["status"] == "COMPLETED", run


def test_open_nodes_are_claimed_finished_and_answered(upgraded: Upgraded) -> None:
    caller, opened = Caller(upgraded.client), upgraded.known["executions"]

    claimed = set()
    while (answer := caller.claim("release", worker="new")).status_code == httpx.codes.OK:
        claimed.add(answer.json()["executionId"])
    for state in ("ready", "leased"):
        caller.done(opened[state], "node success", node="build")
    for state in ("ready", "leased", "waiting"):
        answer = caller.ask(opened[state], "node resume", {"resumeKey": "approve", "answer": "ship"}, node="approve")
        assert answer.status_code == 202, answer.text
        caller.done(opened[state], "node start", "node success", node="deploy")

    # The lease of the other one has expired unless the fixture was made just now.
    assert {opened["ready"]} <= claimed <= {opened["ready"], opened["leased"]}
    assert {execution(upgraded, state)["status"] for state in ("ready", "leased", "waiting")} == {"COMPLETED"}


def test_a_requested_cancel_is_confirmed(upgraded: Upgraded) -> None:
    found = until(lambda: execution(upgraded, "cancelling"), lambda found: found["status"] == "CANCELED")

    assert found["status"] == "CANCELED"


def test_the_index_is_rebuilt_without_an_error(upgraded: Upgraded) -> None:
    logged = upgraded.program.logs()

    assert "index file unusable, rebuilding it" in [line["message"] for line in logged]
    assert [line for line in logged if line["level"] == "ERROR"] == []
