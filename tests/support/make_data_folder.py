"""Makes the fixture of `tests/e2e/test_upgrade.py`: a data folder as a given version of this project writes it.

    git worktree add /tmp/previous <tag or commit>
    .venv/bin/python tests/support/make_data_folder.py /tmp/previous

It has runs in every state, an execution with open nodes, logs, labels, a dead letter, a wheel and an API key. Nothing
in it expires. `known.json` beside the folder names what the test looks for.
"""

from __future__ import annotations

import io
import json
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

from support.programs import FLOWS, Program, address_of, until  # noqa: E402
from support.wheels import NAME, wheel  # noqa: E402

FIXTURE = TESTS / "fixtures" / "data-folder.tar.xz"
SETTINGS = {
    "PYOCO_HTTP_AUTH_MODE": "api_key",
    "PYOCO_AUTH_PEPPER": "the pepper of the fixture",
    "PYOCO_RUN_RETENTION_SEC": "0",
    "PYOCO_DLQ_MAX_AGE_SEC": "0",
    "PYOCO_WHEEL_HISTORY_TTL_SEC": "0",
}
UP = ("-m", "pyoco_server.cli.server", "up", "--port", "0", "--data-dir", "data")
# What a start writes anew; the token is a secret, and the configuration names folders.
LEFT_OUT = ("lock", "nats.conf", "nats.token", "nats.port", "nats.json", "nats-server.log", "nats-server.out", "runs")
GRAPH = {
    "nodes": ["build", {"id": "approve", "type": "wait", "prompt": {"question": "Ship it?"}}, "deploy"],
    "edges": [["build", "approve"], ["approve", "deploy"]],
}


def main(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        known = fill(folder, SETTINGS | {"PYTHONPATH": str(checkout.resolve() / "src")})
        write(folder / "data", known)
    print(f"{FIXTURE}: {FIXTURE.stat().st_size} bytes")  # noqa: T201


def fill(folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """A stopped data folder; returns what it has."""
    with Program(*UP, cwd=folder, env=env) as gateway:
        address = address_of(gateway)
        create = ("api-key", "create", "--tenant", "team-a", "--scopes", "admin", "--data-dir", "data")
        with Program("-m", "pyoco_server.cli.admin", *create, cwd=folder, env=env) as admin:
            assert admin.exit_code() == 0, admin.output()
            (key,) = admin.out.all()
        with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=30.0) as client:
            until(lambda: client.get("/runs"), lambda answer: answer.status_code == httpx.codes.OK)
            with working(folder, env | {"PYOCO_API_KEY": key}):
                runs = finished_runs(client)
            runs |= {"PENDING": submit(client, "hello", tag="later")}
            nodes = open_nodes(client)
            files = {"wheel": (NAME, wheel(), "application/octet-stream")}
            client.post("/wheels", files=files, data={"tags": "cpu"}).raise_for_status()
        gateway.signal(signal.SIGTERM)
        assert gateway.exit_code() == 0, gateway.output()
    return {"api_key": key, "runs": runs, "executions": nodes, "wheel": NAME}


@contextmanager
def working(folder: Path, env: dict[str, str]) -> Iterator[Program]:
    arguments = ("--data-dir", "data", "--worker-id", "fixture", "--flow-resolver", f"{FLOWS}:resolve")
    with Program("-m", "pyoco_server.cli.worker", *arguments, cwd=folder, env=env) as worker:
        worker.out.wait_for('"message":"worker ready"')
        yield worker
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0, worker.output()


def submit(client: httpx.Client, flow_name: str, **body: Any) -> str:
    run_id: str = client.post("/runs", json={"flow_name": flow_name, **body}).raise_for_status().json()["run_id"]
    return run_id


def wait_for(client: httpx.Client, run_id: str, status: str) -> None:
    until(lambda: client.get(f"/runs/{run_id}").json()["status"], lambda found: found == status)


def finished_runs(client: httpx.Client) -> dict[str, str]:
    """One per final status, by it; the failed one has a dead letter."""
    runs = {
        "COMPLETED": submit(client, "hello", tags=["nightly", "default"], params={"name": "fixture"}),
        "FAILED": submit(client, "unknown"),
        "CANCELLED": submit(client, "listens"),
    }
    wait_for(client, runs["CANCELLED"], "RUNNING")
    client.post(f"/runs/{runs['CANCELLED']}/cancel").raise_for_status()
    for status, run_id in runs.items():
        wait_for(client, run_id, status)
    return runs


def open_nodes(client: httpx.Client) -> dict[str, str]:
    """Executions of one graph, by what they wait for."""
    client.put("/graphs/release", json=GRAPH).raise_for_status()
    opened = {}
    for state in ("ready", "leased", "waiting", "cancelling"):
        created = client.post("/executions", json={"graphId": "release"}, headers={"Idempotency-Key": f"{state}-1"})
        opened[state] = execution_id = created.raise_for_status().json()["executionId"]
        path = f"/executions/{execution_id}"
        steps: list[tuple[str, Any]] = [("/start", None)]
        if state != "ready":
            steps.append(("/nodes/build/start", {"attempt": 1, "workerId": "holder"}))
        if state == "waiting":
            steps.append(("/nodes/build/success", {"output": {"artifact": 1}}))
        if state == "cancelling":
            steps.append(("/cancel", None))
        for number, (step, body) in enumerate(steps):
            headers = {"Idempotency-Key": f"{state}-step-{number}"}
            client.post(path + step, json=body, headers=headers).raise_for_status()
    return opened


def write(data: Path, known: dict[str, Any]) -> None:
    """The archive, without anything of this machine."""
    for name in LEFT_OUT:
        path = data / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    FIXTURE.parent.mkdir(exist_ok=True)
    with tarfile.open(FIXTURE, "w:xz") as archive:
        archive.add(data, "data", filter=_anonymous)
        content = json.dumps(known, indent=1).encode()
        entry = tarfile.TarInfo("known.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]))
