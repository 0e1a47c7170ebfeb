"""The two compared systems, each a broker, a gateway and workers with the same interface."""

import os
import socket
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.connection import Connection, StepFailed
from bench.fill import StoredRun, fill_peer
from bench.fill_ours import fill_ours
from bench.journal import Side
from bench.peer_env import PeerEnv
from bench.processes import Child, own_mib, tree_mib, wait_until_healthy
from pyoco_server.adapters.embedded_nats.data_folder import find_running
from pyoco_server.adapters.embedded_nats.server import Sync
from support.broker import Broker
from support.processes import port_of, reserve_port

ROOT = Path(__file__).resolve().parent.parent
RESOLVER = f"{Path(__file__).with_name('flows.py')}:resolve"
START_TIMEOUT_SEC = 30.0
DEFAULT_TAGS = ("default",)


class Stack(ABC):
    """Started in a folder of its own on free ports; `stop` ends every process and removes the folder."""

    name: Side
    can_run: bool = True
    resolver: str = RESOLVER

    def __init__(self) -> None:
        self.port = 0
        self._reserved = socket.socket()
        self.left_behind: list[str] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._gateway: Child | None = None
        self._workers: list[Child] = []

    def start(self, sync: Sync, *, worker_tags: Sequence[str] = ()) -> None:
        """Returns when /health is 200; with tags it also starts a worker."""
        self.left_behind.clear()
        self._folder = tempfile.TemporaryDirectory(prefix=f"pyoco-bench-{self.name}-")
        self.folder = Path(self._folder.name)
        self._reserved = reserve_port()
        self.port = port_of(self._reserved)
        self._gateway = self._launch(sync, worker_tags)
        wait_until_healthy(self.port, "/health", self._gateway, timeout_sec=START_TIMEOUT_SEC)

    @property
    def gateway_pid(self) -> int:
        assert self._gateway is not None
        return self._gateway.pid

    def start_worker(self, tags: Sequence[str] = DEFAULT_TAGS) -> None:
        number = len(self._workers) + 1
        self._workers.append(self._launch_worker(tags, f"bench-{number}"))

    def stop_workers(self) -> None:
        while self._workers:
            self.left_behind += self._workers.pop().stop()

    def stop(self) -> None:
        self.stop_workers()
        if self._gateway is not None:
            self.left_behind += self._gateway.stop()
            self._gateway = None
        self._stop_broker()
        self._reserved.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @abstractmethod
    def _launch(self, sync: Sync, worker_tags: Sequence[str]) -> Child: ...

    @abstractmethod
    def _launch_worker(self, tags: Sequence[str], worker_id: str) -> Child: ...

    @abstractmethod
    def _stop_broker(self) -> None: ...

    @abstractmethod
    def nats(self) -> tuple[str, str | None]:
        """Address and token of the broker."""

    @abstractmethod
    def fill(self, first: int, count: int) -> None:
        """Stores `count` finished runs at once, numbered from `first`, without running them."""

    @abstractmethod
    def memory_mib(self) -> dict[str, float]:
        """Resident memory of gateway, worker and nats."""


class Peer(Stack):
    """pyoco-server 0.5.1 as installed by pip, on a broker of ours with the same settings as the product's."""

    name: Side = "peer"

    def __init__(self, env: PeerEnv) -> None:
        super().__init__()
        self._env = env
        self.can_run = env.worker_works
        self._broker: Broker | None = None

    def _launch(self, sync: Sync, worker_tags: Sequence[str]) -> Child:
        self._broker = Broker(self.folder, sync_always=sync == "always")
        self._broker.start()
        address = ["--host", "127.0.0.1", "--port", str(self.port), "--nats-url", self._broker.url]
        # Without the access log, as the product is measured.
        command = [str(self._env.bin / "pyoco-server"), "up", *address, "--log-level", "warning"]
        gateway = Child("peer-gateway", command, cwd=self.folder)
        if worker_tags:
            self.start_worker(worker_tags)
        return gateway

    def _launch_worker(self, tags: Sequence[str], worker_id: str) -> Child:
        program = str(self._env.bin / "pyoco-worker")
        flags = ["--nats-url", self.nats()[0], "--tags", ",".join(tags), "--worker-id", worker_id]
        return Child(f"peer-worker-{worker_id}", [program, *flags, "--flow-resolver", self.resolver], cwd=self.folder)

    def _stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.kill()
            self._broker = None

    def nats(self) -> tuple[str, str | None]:
        assert self._broker is not None
        return self._broker.url, None

    def fill(self, first: int, count: int) -> None:
        fill_peer(self.nats()[0], None, first, count)

    def memory_mib(self) -> dict[str, float]:
        assert self._gateway is not None
        assert self._broker is not None
        return {
            "gateway": tree_mib(self._gateway.pid),
            "worker": sum(tree_mib(worker.pid) for worker in self._workers),
            "nats": tree_mib(self._broker.pid),
        }


class Ours(Stack):
    """This product, from the working tree, started with the commands of its README."""

    name: Side = "ours"
    concurrency = 2

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def _launch(self, sync: Sync, worker_tags: Sequence[str]) -> Child:
        command = [*program("server"), "up", "--data-dir", str(self.data_dir), "--port", str(self.port)]
        if worker_tags:
            command += ["--with-worker", "--worker-tags", ",".join(worker_tags), "--flow-resolver", self.resolver]
            command += ["--worker-concurrency", str(self.concurrency)]
        env = {**_tree_first(), "PYOCO_NATS_SYNC": sync, **self._settings()}
        return Child("ours-up", command, cwd=self.folder, env=env)

    def _settings(self) -> dict[str, str]:
        """Settings beyond the defaults; they may name files of the folder."""
        return {}

    def _launch_worker(self, tags: Sequence[str], worker_id: str) -> Child:
        command = [*program("worker"), "--data-dir", str(self.data_dir), "--tags", ",".join(tags)]
        command += ["--worker-id", worker_id, "--concurrency", str(self.concurrency), "--flow-resolver", self.resolver]
        return Child(f"ours-worker-{worker_id}", command, cwd=self.folder, env=_tree_first())

    def _stop_broker(self) -> None:
        """The embedded broker ends with `up`."""

    def nats(self) -> tuple[str, str | None]:
        found = find_running(self.data_dir)
        if found is None:
            raise StepFailed("the data folder names no running nats-server")
        return found.url, found.token

    def fill(self, first: int, count: int) -> None:
        fill_ours(*self.nats(), first, count)
        self._wait_until_listed(StoredRun.numbered(first + count - 1).run_id)

    def _wait_until_listed(self, run_id: str) -> None:
        """Lists come from an index that follows the store; a partial index would be faster."""
        deadline = time.monotonic() + START_TIMEOUT_SEC
        with Connection(self.port) as connection:
            while time.monotonic() < deadline:
                newest = connection.request("GET", "/runs?limit=1").require_ok("a list").json()
                if newest and newest[0]["run_id"] == run_id:
                    return
                time.sleep(0.05)
        raise StepFailed(f"the newest stored run is not listed within {START_TIMEOUT_SEC:g} s")

    def memory_mib(self) -> dict[str, float]:
        assert self._gateway is not None
        below = psutil.Process(self._gateway.pid).children()
        brokers = [child.pid for child in below if child.name() == "nats-server"]
        workers = [child.pid for child in below if child.pid not in brokers]
        workers += [worker.pid for worker in self._workers]
        return {
            "gateway": own_mib(self._gateway.pid),
            "worker": sum(tree_mib(pid) for pid in workers),
            "nats": sum(tree_mib(pid) for pid in brokers),
        }


def program(name: str) -> list[str]:
    """The installed command, or its function if the package is not installed."""
    installed = Path(sys.executable).with_name(f"pyoco-{name}")
    if installed.exists():
        return [str(installed)]
    return [sys.executable, "-c", f"from pyoco_server.cli.{name} import main; main()"]


def _tree_first() -> dict[str, str]:
    """Measures the working tree, even if another version is installed."""
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), inherited]))}
