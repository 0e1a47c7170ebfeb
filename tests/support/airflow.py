"""A real Airflow (`airflow standalone`) that a test may kill and start again on its folder and ports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType

import httpx
import psutil
import pytest

from support.processes import is_alive, kill_after, port_of, reserve_port
from support.programs import ROOT, clean_environment

INSTALL_TIMEOUT_SEC = 240.0
# 15 s on a machine that does nothing else.
START_TIMEOUT_SEC = 240.0
STOP_TIMEOUT_SEC = 10.0


def airflow_environment() -> Path:
    """The folder of the virtual environment. Without one the test is skipped, or fails where CI=true."""
    made = subprocess.run(
        [str(ROOT / "scripts" / "airflow-env")],
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT_SEC,
    )
    if made.returncode == 0:
        return Path(made.stdout.strip())
    message = f"Airflow cannot be installed here: {made.stderr.strip()[-500:]}"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


class Airflow:
    """An Airflow of the test's own on loopback, with SQLite."""

    def __init__(self, environment: Path, folder: Path, dags: Sequence[Path], env: Mapping[str, str]) -> None:
        self._program = environment / "bin" / "airflow"
        self._home = folder / "airflow"
        self._log = folder / "airflow.log"
        self._reserved = [reserve_port() for _ in range(3)]
        api, worker_log, trigger_log = map(port_of, self._reserved)
        self.url = f"http://127.0.0.1:{api}"
        (folder / "dags").mkdir(parents=True)
        self._home.mkdir()
        for file in dags:
            shutil.copy(file, folder / "dags")
        inherited = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
        self._env = {
            **inherited,
            **env,
            # `standalone` starts its parts by the name of the program.
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self._home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(api),
            # Tasks fail without it, unless the port is 8080.
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log),
            # The defaults notice after five minutes that a task has died.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Airflow:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(signal.SIGTERM, STOP_TIMEOUT_SEC)
        # Tasks have sessions of their own, and survive the kill of all others.
        kill_after(self._processes(), 0.0)
        for socket in self._reserved:
            socket.close()

    @property
    def password(self) -> str:
        """That of the user `admin`."""
        passwords = json.loads((self._home / "simple_auth_manager_passwords.json.generated").read_text())
        return str(passwords["admin"])

    def start(self) -> None:
        """Returns when it answers and its scheduler works."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), "standalone"],
                cwd=self._home,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + START_TIMEOUT_SEC
        while not self._is_healthy():
            assert self._process.poll() is None, self.output()
            assert time.monotonic() < end, self.output()
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill all of it at once, but tasks that run: they lose their scheduler and the API."""
        self._end(signal.SIGKILL, STOP_TIMEOUT_SEC)

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def _is_healthy(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5.0, trust_env=False)
        except httpx.RequestError:
            return False
        return answer.status_code == HTTPStatus.OK and answer.json()["scheduler"]["status"] == "healthy"

    def _end(self, first: signal.Signals, patience_sec: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        group = [one for one in self._processes() if os.getpgid(one.pid) == process.pid]
        os.killpg(process.pid, first)
        for one in group:
            if one.pid != process.pid:
                kill_after([one], patience_sec)
        try:
            process.wait(patience_sec)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _processes(self) -> list[psutil.Process]:
        """Everything that runs for this Airflow, whatever session it is in."""
        found = []
        for one in psutil.process_iter():
            try:
                if one.environ().get("AIRFLOW_HOME") == str(self._home) and is_alive(one):
                    found.append(one)
            except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found
