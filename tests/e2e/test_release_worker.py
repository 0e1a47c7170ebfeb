"""The worker in bash with a real gateway: an approval, a cancel, a restart, its own end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.http_client import PyocoHttpClient
from support.processes import descendants, wait_for_exit
from support.programs import PATIENCE_SEC, ROOT, Program, address_of, server, up
from support.shells import Shell
from support.terminal import Terminal

SCRIPT = ROOT / "examples" / "release_worker.sh"
RELEASE = ROOT / "examples" / "release.yaml"
QUICK = {"PYOCO_HTTP_WATCH_HEARTBEAT_SEC": "1"}
NEEDED = ("bash", "curl", "jq")

needs_tools = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in NEEDED), reason=f"the worker needs {', '.join(NEEDED)}"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with up(tmp_path_factory.mktemp("gateway"), env=QUICK) as system:
        yield address_of(system)


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Commands for every node of the release; `build` prints the requested version."""
    folder = tmp_path / "steps"
    folder.mkdir()
    write_step(folder / "build", 'echo 40 >"$PROGRESS"\necho "version $(jq -r .input.version)"')
    write_step(folder / "test", "jq -r '.params.platforms[0] + \" \" + .outputs.build.stdout'")
    write_step(folder / "lint", "exit 0")
    write_step(folder / "deploy", "jq -c .outputs.approve")
    return folder


def write_step(path: Path, body: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)


def slow_step(folder: Path) -> str:
    """A command that starts another one, prints both pids, and ends when the test writes to the gate."""
    os.mkfifo(folder / "gate")
    return f'sleep 600 &\necho "pids $$ $!" >&2\nread -r _ <{folder}/gate\nkill $!'


@contextmanager
def worker(address: str, folder: Path, graph_id: str, **more: str) -> Iterator[Program]:
    env = {"PYOCO_SERVER": address, "GRAPH_ID": graph_id, "STEPS_DIR": str(folder / "steps"), "WORKER_ID": "w-1"}
    program = Program(
        str(SCRIPT), cwd=folder, env=env | {"LEASE_SEC": "3"} | more, program=shutil.which("bash") or "bash"
    )
    with program:
        yield program


def put_and_execute(shell: Shell, graph_id: str) -> str:
    assert shell("graph-put", str(RELEASE), "--graph-id", graph_id).json()["created"] is True
    started: str = shell("execute", graph_id, "--param", 'version="1.4.0"').json()["executionId"]
    return started


def first_wait(shell: Shell, graph_id: str) -> Any:
    """Polls, because lists follow the events with a delay."""
    give_up_at = time.monotonic() + PATIENCE_SEC
    while time.monotonic() < give_up_at:
        for wait in shell("waits", "--graph-id", graph_id).json()["items"]:
            return wait
    raise AssertionError(f"nothing of {graph_id} waits")


def ended(address: str, execution_id: str) -> Any:
    """Waits until the execution is finished, and returns it."""
    with PyocoHttpClient(address) as client:
        for _ in client.follow_events(execution_id):
            pass
        return client.get_execution(execution_id)


def outputs(execution: Any) -> dict[str, Any]:
    return {node["nodeId"]: node.get("output") for node in execution["nodes"]}


@needs_tools
def test_a_release_is_built_tested_approved_and_deployed(address: str, tmp_path: Path, steps: Path) -> None:
    shell = Shell(address, tmp_path)
    execution_id = put_and_execute(shell, "release")

    with worker(address, tmp_path, "release") as program:
        for node in ("build", "test", "lint"):
            program.err.wait_for(f"{node} ended with 0")
        wait = first_wait(shell, "release")
        assert "Ship this build?" in shell("waits", "--output", "table").out
        assert re.search(r"approve +WAITING", shell("execution", execution_id).out)
        shell("approve", execution_id, "--answer", "ship").json()
        program.err.wait_for("deploy ended with 0")
        execution = ended(address, execution_id)

    assert (wait["executionId"], wait["nodeId"]) == (execution_id, "approve")
    assert execution["status"] == "COMPLETED"
    assert outputs(execution) == {
        "build": {"stdout": "version 1.4.0\n"},
        "test": {"stdout": "linux version 1.4.0\n\n"},
        "lint": {"stdout": ""},
        "approve": "ship",
        "deploy": {"stdout": '"ship"\n'},
    }
    events = shell("events", execution_id).out
    assert re.search(r"NODE_STARTED +build .*by w-1", events)


@needs_tools
def test_a_release_that_is_stopped_is_complete_without_a_deployment(address: str, tmp_path: Path, steps: Path) -> None:
    shell = Shell(address, tmp_path)
    execution_id = put_and_execute(shell, "stopped")

    with worker(address, tmp_path, "stopped") as program:
        first_wait(shell, "stopped")
        refused = shell("approve", execution_id, "--answer", '{"choice": "banana"}')
        shell("approve", execution_id, "--answer", "stop").json()
        execution = ended(address, execution_id)
        shown = shell("execution", execution_id).out
        printed = "".join(program.err.all())

    assert refused.code == 1
    assert "the answer must be one of the choices: ship, stop [ERR-PYOCO-0065]" in refused.err
    assert execution["status"] == "COMPLETED"
    deploy = next(node for node in execution["nodes"] if node["nodeId"] == "deploy")
    assert (deploy["status"], deploy["reason"], deploy["attempt"]) == ("CANCELED", "skipped", 0)
    assert re.search(r"deploy +CANCELLED .*skipped", shown)
    assert "deploy begins" not in printed


@needs_tools
def test_a_cancel_stops_the_command_and_its_child_processes(address: str, tmp_path: Path, steps: Path) -> None:
    write_step(steps / "build", slow_step(tmp_path))
    shell = Shell(address, tmp_path)
    execution_id = put_and_execute(shell, "cancelled")

    with worker(address, tmp_path, "cancelled", LEASE_SEC="600") as program:
        pids = started(program)
        shell("cancel", execution_id, "--reason", "wrong branch").json()
        program.err.wait_for("build ended with 143")
        execution = ended(address, execution_id)

    assert all(wait_for_exit(pid) for pid in pids)
    assert execution["status"] == "CANCELED"
    assert {node["status"] for node in execution["nodes"]} == {"CANCELED"}
    assert execution["cancel"]["reason"] == "wrong branch"


def started(program: Program) -> list[int]:
    """Waits until the slow step has started, and returns its processes."""
    return [int(pid) for pid in program.err.wait_for(r"pids (\d+) (\d+)").groups()]


@needs_tools
def test_a_node_of_a_stopped_worker_continues_elsewhere(address: str, tmp_path: Path, steps: Path) -> None:
    build = (steps / "build").read_text()
    write_step(steps / "build", slow_step(tmp_path))
    shell = Shell(address, tmp_path)
    execution_id = put_and_execute(shell, "handed-over")

    with worker(address, tmp_path, "handed-over", LEASE_SEC="600") as first:
        pids = started(first)
        children = descendants(first.pid)
        first.signal(signal.SIGTERM)
        assert first.exit_code() == 0
    (steps / "build").write_text(build)
    with worker(address, tmp_path, "handed-over", WORKER_ID="w-2") as second:
        second.err.wait_for("build begins .*attempt 2")
        second.err.wait_for("build ended with 0")

    assert all(wait_for_exit(pid) for pid in [*pids, *children])
    with PyocoHttpClient(address) as client:
        build_node = client.get_execution(execution_id)["nodes"][0]
    assert (build_node["status"], build_node["attempt"], build_node["workerId"]) == ("SUCCEEDED", 2, "w-2")


@needs_tools
def test_a_worker_survives_a_gateway_restart(tmp_path: Path, steps: Path) -> None:
    write_step(steps / "build", slow_step(tmp_path))
    with up(tmp_path, env=QUICK) as gateway:
        address = address_of(gateway)
        execution_id = put_and_execute(Shell(address, tmp_path), "release")
        with worker(address, tmp_path, "release") as program:
            started(program)
            gateway.signal(signal.SIGTERM)
            gateway.exit_code()
            (tmp_path / "gate").write_text("go\n")
            program.err.wait_for("no answer to POST .*build/success")
            port = address.rpartition(":")[2]
            with server("up", "--port", port, "--data-dir", "data", cwd=tmp_path, env=QUICK) as again:
                address_of(again)
                program.err.wait_for("build ended with 0")
                program.err.wait_for("test ended with 0")
                with PyocoHttpClient(address) as client:
                    build = client.get_execution(execution_id)["nodes"][0]

    assert (build["status"], build["attempt"]) == ("SUCCEEDED", 1)


@needs_tools
def test_a_failed_step_fails_its_release(address: str, tmp_path: Path, steps: Path) -> None:
    write_step(steps / "build", "exit 3")
    execution_id = put_and_execute(Shell(address, tmp_path), "broken")

    with worker(address, tmp_path, "broken") as program:
        program.err.wait_for("build ended with 3")
        execution = ended(address, execution_id)

    assert execution["status"] == "FAILED"
    assert execution["nodes"][0]["error"] == {"code": "EXIT_3", "message": "the command ended with 3"}


@needs_tools
def test_a_release_is_watched_on_a_terminal_with_its_progress(address: str, tmp_path: Path, steps: Path) -> None:
    write_step(steps / "build", f'echo 42 >"$PROGRESS"\n{slow_step(tmp_path)}')
    shell = Shell(address, tmp_path)
    shell("graph-put", str(RELEASE), "--graph-id", "watched").json()
    command = ["-m", "pyoco_server.cli.client", "execute", "watched", "--param", "version=1", "--watch"]

    with (
        worker(address, tmp_path, "watched"),
        Terminal(*command, cwd=tmp_path, env=shell.env) as terminal,
    ):
        terminal.wait_for("42%")
        (tmp_path / "gate").write_text("go\n")
        terminal.wait_for("waits for approve")
        wait = first_wait(shell, "watched")
        shell("approve", wait["executionId"], "--answer", "ship").json()
        code, drawn = terminal.end()

    assert code == 0
    assert re.search(r"execution \S+ COMPLETED in .* \(5 SUCCEEDED\)", drawn.splitlines()[-1])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_missing_program_is_named_with_its_installation(tmp_path: Path) -> None:
    for tool in ("bash", "uname"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")

    with Program(str(SCRIPT), cwd=tmp_path, env={"PATH": str(tmp_path)}, program=str(tmp_path / "bash")) as program:
        assert program.exit_code() == 1
    assert program.err.all() == ["release_worker.sh needs curl: apt install curl jq"]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck here")
def test_shellcheck_reports_nothing(tmp_path: Path) -> None:
    with Program(str(SCRIPT), cwd=tmp_path, program=shutil.which("shellcheck") or "shellcheck") as checked:
        assert checked.exit_code() == 0, checked.output()
