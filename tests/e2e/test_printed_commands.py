"""The commands that `pyoco-server up` prints work when they are pasted into another terminal, in another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.broker import Broker
from support.programs import Program, address_of, connected, server, until

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the commands need curl")
HOME = {"PYOCO_DATA_DIR": "", "PYOCO_NATS_URL": ""}


def printed(program: Program, beginning: str) -> str:
    return program.err.wait_for(rf"^{beginning}: (.+)$")[1]


def pasted(command: str, folder: Path, home: Path) -> str:
    """The output of the command in this folder, by the programs of this installation."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | HOME | {"PATH": path, "XDG_DATA_HOME": str(home), "LANG": "C"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_without_any_file_the_printed_commands_run_a_first_flow_from_another_folder(tmp_path: Path) -> None:
    here, elsewhere, home = (tmp_path / name for name in ("it's here", "elsewhere", "home"))
    here.mkdir()
    elsewhere.mkdir()
    environment = HOME | {"XDG_DATA_HOME": str(home), "LANG": "C"}
    with server("up", "--with-worker", "--port", "0", cwd=here, env=environment) as program:
        then = printed(program, "then")

        pasted(printed(program, "first"), elsewhere, home)
        submitted = pasted(printed(program, "try"), elsewhere, home)
        with connected(program) as client:
            run = until(lambda: client.get("/runs").json()[0], lambda run: run["status"] in ("COMPLETED", "FAILED"))

        assert run["status"] == "COMPLETED"
        assert run["run_id"] in submitted
        assert run["run_id"] in pasted(then, elsewhere, home)

    assert (home / "pyoco-server" / "nats").is_dir()
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["flow.yaml", "tasks.py"]
    assert list(elsewhere.iterdir()) == []


def test_with_another_broker_the_printed_worker_joins_it(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        arguments = ("up", "--port", "0", "--nats-url", broker.url)
        with server(*arguments, cwd=tmp_path, env=HOME | {"LANG": "C"}) as program:
            command = printed(program, "next")
            words = command.split()
            joined = Program("-m", "pyoco_server.cli.worker", *words[1:], cwd=tmp_path, env=HOME)
            with joined, httpx.Client(base_url=address_of(program)) as client:
                workers = until(lambda: client.get("/workers").json(), bool)

    assert words[0] == "pyoco-worker"
    assert workers
