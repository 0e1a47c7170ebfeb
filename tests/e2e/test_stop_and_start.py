"""How the programs start, fail to start, stop and die: signals, exit codes, messages, and no orphans."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from e2e.test_first_run import begun, submit, wait_for_status
from pyoco_server.adapters.embedded_nats.data_folder import find_running
from support.processes import command_of, descendants, port_of, reserve_port, wait_for_exit
from support.programs import FLOWS, ROOT, Program, address_of, connected, server, until, up, up_with_worker, worker

RESOLVER = f"{FLOWS}:resolve"


def ready(program: Program) -> list[int]:
    """Waits until the worker of `up` is ready, and returns all processes."""
    program.out.wait_for('"message":"worker ready"')
    return descendants(program.pid)


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_everything_in_order(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with up_with_worker(tmp_path) as program:
        address_of(program)
        processes = ready(program)
        commands = " ".join(command_of(pid) for pid in processes)

        program.signal(number)

        assert program.exit_code() == code, program.output()
        assert all(wait_for_exit(pid) for pid in processes)
        logged = [line["message"] for line in program.logs()]

    assert "nats-server" in commands
    assert "pyoco_server.cli.worker" in commands
    assert "worker stopped" in logged
    assert not [line for line in program.logs() if line["level"] == "ERROR"]
    assert "Traceback" not in program.output()


def test_no_process_survives_a_kill_of_the_program(tmp_path: Path) -> None:
    with up_with_worker(tmp_path) as program, connected(program) as client:
        ready(program)
        begun(client, submit(client, "deaf"))
        processes = descendants(program.pid)

        program.signal(signal.SIGKILL)

        assert len(processes) >= 4  # nats-server, worker, fork server, runner
        for pid in processes:
            assert wait_for_exit(pid), command_of(pid)


def test_a_run_stopped_with_its_worker_continues_after_a_restart(tmp_path: Path) -> None:
    short = {"PYOCO_WORKER_STOP_GRACE_PERIOD_SEC": "0.2"}
    signpost = tmp_path / "go-on"
    with up_with_worker(tmp_path, env=short) as program, connected(program) as client:
        run_id = submit(client, "waits", path=str(signpost))
        finished = submit(client, "hello")
        begun(client, run_id)
        wait_for_status(client, finished, "COMPLETED")
        program.signal(signal.SIGTERM)
        assert program.exit_code() == 0, program.output()
    signpost.touch()

    with up_with_worker(tmp_path, env=short) as program, connected(program) as client:
        run = wait_for_status(client, run_id, "COMPLETED")

        assert (run["attempt"], run["task_records"]["wait_for_file"]["output"]) == (2, "found")
        assert {one["run_id"] for one in client.get("/runs").json()} == {run_id, finished}


def test_a_second_signal_stops_without_waiting_for_runs(tmp_path: Path) -> None:
    with up_with_worker(tmp_path, env={"PYOCO_WORKER_STOP_GRACE_PERIOD_SEC": "600"}) as program:
        with connected(program) as client:
            begun(client, submit(client, "deaf"))
        processes = descendants(program.pid)
        program.signal(signal.SIGINT)
        program.out.wait_for('"message":"finishing runs"')

        program.signal(signal.SIGINT)

        assert program.exit_code() == 130, program.output()
        assert all(wait_for_exit(pid) for pid in processes)


def test_a_system_with_a_worker_that_never_starts_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import threading\nthreading.Event().wait()\n")
    with up(tmp_path, "--with-worker", "--flow-resolver", "hangs.py:resolve") as program:
        address_of(program)
        processes = until(
            lambda: descendants(program.pid), lambda pids: any("fork_server" in command_of(pid) for pid in pids)
        )

        program.signal(signal.SIGTERM)

        assert program.exit_code() == 0, program.output()
        assert all(wait_for_exit(pid) for pid in processes)


# --- not starting -----------------------------------------------------------------------------------------------------


def refused(program: Program) -> str:
    """Its message, after exit code 1 and without a traceback."""
    assert program.exit_code() == 1, program.output()
    program.err.wait_for("hint: ")
    words = "\n".join(program.err.all())
    assert "Traceback" not in words
    assert re.search(r"\[ERR-PYOCO-\d{4}\]", words)
    return words


def test_a_second_system_on_a_data_folder_is_rejected_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with up(tmp_path) as first, connected(first) as client:
        with up(tmp_path) as second:
            words = refused(second)

        assert str(first.pid) in words
        assert "ERR-PYOCO-0032" in words
        assert client.get("/health").json()["nats"] == "connected"


def test_a_port_in_use_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with server("up", "--port", port, "--data-dir", "data", cwd=tmp_path) as program:
            words = refused(program)

    assert port in words
    assert "--port" in words
    assert not (tmp_path / "data").exists()


BAD_RESOLVERS = [
    ("missing.py:resolve", "no such file"),
    ("missing_module:resolve", "missing_module"),
    (f"{FLOWS}:FLOWS", "must be a function"),
]


def test_a_worker_with_a_broken_resolver_reports_the_reason(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        address_of(running)
        for spec, message in BAD_RESOLVERS:
            with worker("--data-dir", "data", "--flow-resolver", spec, cwd=tmp_path) as program:
                assert message in refused(program)


def test_a_system_with_a_worker_that_fails_to_start_does_not_start(tmp_path: Path) -> None:
    with up(tmp_path, "--with-worker", "--flow-resolver", "missing.py:resolve") as program:
        words = refused(program)

    assert "missing.py" in words
    assert "the worker could not start" in words


USAGE: dict[str, Callable[[Path], Program]] = {
    "unknown option": lambda cwd: server("up", "--nonsense", cwd=cwd),
    "settings that cannot work": lambda cwd: server("up", cwd=cwd, env={"PYOCO_CONSUMER_ACK_WAIT_SEC": "5"}),
    "bad tag": lambda cwd: worker("--tags", "a.b", "--flow-resolver", RESOLVER, cwd=cwd),
}


@pytest.mark.parametrize("what", USAGE)
def test_an_invalid_command_line_exits_with_1_and_a_hint(tmp_path: Path, what: str) -> None:
    with USAGE[what](tmp_path) as program:
        refused(program)

        assert program.out.all() == []


# --- several programs -------------------------------------------------------------------------------------------------


def test_a_run_of_a_killed_worker_is_finished_by_another(tmp_path: Path) -> None:
    quick = {
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "1.5",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.4",
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    }
    signpost = tmp_path / "go-on"
    arguments = ("--data-dir", "data", "--concurrency", "1", "--flow-resolver", RESOLVER)
    with up(tmp_path, env=quick) as gateway, connected(gateway) as client:
        with worker(*arguments, "--worker-id", "first", cwd=tmp_path, env=quick) as first:
            run_id = submit(client, "waits", path=str(signpost))
            begun(client, run_id)
            runners = descendants(first.pid)
            first.signal(signal.SIGKILL)
            assert all(wait_for_exit(pid) for pid in runners)
        with worker(*arguments, "--worker-id", "second", cwd=tmp_path, env=quick):
            signpost.touch()
            run = wait_for_status(client, run_id, "COMPLETED")

    assert (run["worker_id"], run["attempt"]) == ("second", 2)
    assert run["task_records"]["wait_for_file"]["output"] == "found"


def test_a_killed_worker_of_up_is_restarted(tmp_path: Path) -> None:
    with up_with_worker(tmp_path) as program, connected(program) as client:
        first = next(pid for pid in ready(program) if "pyoco_server.cli.worker" in command_of(pid))

        os.kill(first, signal.SIGKILL)

        program.out.wait_for("worker exited, restarting it")
        wait_for_status(client, submit(client, "hello"), "COMPLETED")


def test_a_killed_embedded_broker_is_restarted_without_loss(tmp_path: Path) -> None:
    with up_with_worker(tmp_path) as program, connected(program) as client:
        before = submit(client, "hello")
        wait_for_status(client, before, "COMPLETED")
        broker = next(pid for pid in ready(program) if "nats-server" in command_of(pid))

        os.kill(broker, signal.SIGKILL)
        assert wait_for_exit(broker)

        until(lambda: client.post("/runs", json={"flow_name": "hello"}).status_code, lambda code: code == 200)
        wait_for_status(client, submit(client, "hello"), "COMPLETED")
        assert client.get(f"/runs/{before}").json()["status"] == "COMPLETED"


def test_the_gateway_runs_under_uvicorn_and_the_example_worker_beside_it(tmp_path: Path) -> None:
    here = {"PYOCO_DATA_DIR": "data"}
    gateway = ("-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory", "--port", "0")
    with up(tmp_path) as broker:
        address_of(broker)
        running = find_running(str(tmp_path / "data"))
        assert running is not None
        there = {"PYOCO_NATS_URL": running.url, "PYOCO_NATS_TOKEN": running.token}
        with (
            Program(*gateway, cwd=tmp_path, env=here) as second,
            Program(str(ROOT / "examples" / "run_worker.py"), cwd=tmp_path, env=there) as example,
            httpx.Client(base_url=second.out.wait_for(r"running on (http://[0-9.:]+)")[1], timeout=30.0) as client,
        ):
            run = wait_for_status(client, submit(client, "hello", name="example"), "COMPLETED")
            example.signal(signal.SIGINT)

            assert example.exit_code() == 0, example.output()
            assert run["worker_id"] == "example"
            # In the program of the caller, a flow prints to the stdout of the program.
            assert "saying hello to example" in example.out.all()
            assert {line["service"] for line in second.logs()} == {"pyoco-server:http"}


@pytest.mark.parametrize("program", ["gateway", "worker"])
def test_a_program_that_waits_for_its_broker_can_be_interrupted(tmp_path: Path, program: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nowhere = ("--nats-url", f"nats://127.0.0.1:{silent.getsockname()[1]}")
        gateway = program == "gateway"
        starting = up(tmp_path, *nowhere) if gateway else worker(*nowhere, "--flow-resolver", RESOLVER, cwd=tmp_path)
        with starting:
            looking, _ = silent.accept()
            with looking:
                starting.signal(signal.SIGINT)

                assert starting.exit_code() == 130, starting.output()


def test_a_gateway_that_waits_for_its_broker_responds_at_once(tmp_path: Path) -> None:
    with (
        reserve_port() as reserved,
        server("up", "--nats-url", "nats://127.0.0.1:1", "--port", str(port_of(reserved)), cwd=tmp_path) as looking,
    ):
        looking.out.wait_for("Waiting for application startup")

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port_of(reserved)), timeout=5.0)


def test_a_gateway_without_a_broker_reports_it_and_exits(tmp_path: Path) -> None:
    with up(tmp_path, "--nats-url", "nats://127.0.0.1:9") as program:
        assert "127.0.0.1:9" in refused(program)


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("served_by", ["up", "uvicorn"])
def test_a_stopped_gateway_ends_its_streams_and_does_not_wait_for_their_runs(tmp_path: Path, served_by: str) -> None:
    with up(tmp_path) as everything, gateway_by(served_by, tmp_path, everything) as (program, client):
        run_id = submit(client, "hello")
        with client.stream("GET", f"/runs/{run_id}/watch") as response:
            lines = response.iter_lines()
            while not next(lines).startswith("data: "):
                pass

            program.signal(signal.SIGTERM)

            assert not [line for line in lines if line.startswith("event: ")]  # a truncated stream would be an error
        assert program.exit_code() in (0, -signal.SIGTERM), program.output()


@contextmanager
def gateway_by(served_by: str, folder: Path, everything: Program) -> Iterator[tuple[Program, httpx.Client]]:
    """The gateway of `up`, or another on the same broker, served by uvicorn with its own defaults."""
    if served_by == "up":
        with connected(everything) as client:
            yield everything, client
        return
    address_of(everything)
    arguments = ["-m", "uvicorn", "pyoco_server.http_api:create_app", "--factory", "--port", "0"]
    settings = {"PYOCO_DATA_DIR": "data", "PYOCO_INDEX_PATH": str(folder / "second.sqlite")}
    with Program(*arguments, cwd=folder, env=settings) as program:
        address = program.out.wait_for(r"running on (http://[0-9.:]+)")[1]
        with httpx.Client(base_url=address, timeout=30.0) as client:
            yield program, client
