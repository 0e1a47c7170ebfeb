"""The system under test on one machine, each part a process of its own.

nats-server (supervised by the program's EmbeddedNats)
  ├── gateway-1 … (`pyoco-server up --nats-url …`)     each with its own index
  └── worker-1 …  (`pyoco-worker --nats-url …`)        each with its fork server and runners

With wheels, the first worker syncs none, the second and third share a folder, every other has its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.code_changes import CodeChanger
from chaos.journal import Journal
from chaos.plan import FLOWS, RED_TAG, SLOTS, TAGS, WHEELS_TAG, Plan, environment
from chaos.processes import Broker, Member, poll_until
from pyoco_server.adapters.embedded_nats.data_folder import DataFolder
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from pyoco_server.config import NatsBackendConfig
from support.processes import port_of, reserve_port

START_SEC = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncingWorker:
    """How a worker syncs wheels."""

    tags: tuple[str, ...]
    folder: Path


class Fleet:
    """All processes. `marker` is in the environment of each."""

    def __init__(self, plan: Plan, folder: Path, nats: EmbeddedNats, journal: Journal) -> None:
        self.broker = Broker(nats)
        self.code = CodeChanger(folder)
        self.code.change()
        self._folder = folder
        self.marker = secrets.token_hex(8)
        self.environment = environment(plan, folder, nats.url, nats.token, self.marker)
        self.config = NatsBackendConfig.from_env(self.environment)
        self._journal = journal
        # A restarted gateway keeps its address.
        self._reserved = [reserve_port() for _ in range(plan.gateways)]
        ports = [port_of(reserved) for reserved in self._reserved]
        self.urls = {f"gateway-{n}": f"http://127.0.0.1:{port}" for n, port in enumerate(ports, start=1)}
        self.gateways = [
            Member(
                f"gateway-{n}",
                "pyoco_server.cli.server",
                ["up", "--nats-url", nats.url, "--port", str(port)],
                self.environment | {"PYOCO_INDEX_PATH": str(folder / f"gateway-{n}.sqlite")},
                folder,
                ready_text=b"pyoco-server is up",
                on_end=self._record_exit,
            )
            for n, port in enumerate(ports, start=1)
        ]
        self.syncing = {
            f"worker-{n}": SyncingWorker(
                tags=(*TAGS, WHEELS_TAG, *((RED_TAG,) if n > 2 else ())),
                folder=folder / ("wheels-shared" if n < 4 else f"wheels-{n}"),
            )
            for n in range(2, plan.workers + 1)
            if plan.syncs_wheels
        }
        self.workers = [
            Member(
                f"worker-{n}",
                "pyoco_server.cli.worker",
                [
                    *("--nats-url", nats.url, "--worker-id", f"worker-{n}"),
                    *("--concurrency", str(SLOTS), "--flow-resolver", f"{FLOWS}:resolve", "--code-reload"),
                    *_tag_options(self.syncing.get(f"worker-{n}")),
                ],
                self.environment,
                folder,
                ready_text=b'"worker ready"',
                on_end=self._record_exit,
            )
            for n in range(1, plan.workers + 1)
        ]

    @property
    def members(self) -> list[Member]:
        return [*self.gateways, *self.workers]

    def lose_index(self, gateway: str) -> None:
        """Removes the index of a stopped gateway; it is a cache and must be rebuilt."""
        for kind in ("", "-audit"):
            for file in self._folder.glob(f"{gateway}{kind}.sqlite*"):
                file.unlink()

    async def wait_until_ready(self) -> bool:
        """Waits until every process is ready; False on timeout."""

        async def is_ready() -> bool:
            return all(member.is_ready for member in self.members)

        return await poll_until(is_ready, within_sec=START_SEC)

    async def stop(self) -> None:
        """Stops the workers, then the gateways, and releases their ports."""
        for group in (self.workers, self.gateways):
            ended = await asyncio.gather(*(member.stop() for member in group))
            for member, in_time in zip(group, ended, strict=True):
                if not in_time:
                    self._journal.note_fault("processes that did not stop on SIGTERM", member.name, "had to be killed")
        for reserved in self._reserved:
            reserved.close()

    def _record_exit(self, member: Member, status: int, was_ready: bool) -> None:
        if was_ready:
            self._journal.note_fault("processes that exited unexpectedly", member.name, f"exit status {status}")
        else:
            self._journal.restarts[member.name] += 1  # its start failed while the broker was down, and is retried


@asynccontextmanager
async def running_fleet(plan: Plan, folder: Path, journal: Journal) -> AsyncIterator[Fleet]:
    """Runs the whole system for the duration of the block."""
    with DataFolder.open(folder / "data") as data:
        nats = EmbeddedNats(data, sync=plan.sync)
        await nats.start()
        fleet = Fleet(plan, folder, nats, journal)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(fleet.broker.keep())
            for member in fleet.members:
                group.create_task(member.keep())
            try:
                yield fleet
            finally:
                await fleet.stop()
                keeping.cancel()
                await asyncio.wait([keeping])
                await nats.stop()


def _tag_options(syncing: SyncingWorker | None) -> list[str]:
    if syncing is None:
        return ["--tags", ",".join(TAGS)]
    return ["--tags", ",".join(syncing.tags), "--wheel-sync", "--wheel-sync-dir", str(syncing.folder)]
