"""The system under test, as a user would run it on one machine, but each part a process that can be killed on its own.

nats-server (watched and started again by the program's own EmbeddedNats)
  ├── gateway-1 … (`pyoco-server up --nats-url …`)     each with an index of its own
  └── worker-1 …  (`pyoco-worker --nats-url …`)        each with its fork server and runners

Where wheels are part of it, the first worker syncs none, the second and third share a folder, every other has its own.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.journal import Journal
from chaos.plan import FLOWS, RED_TAG, SLOTS, TAGS, WHEELS_TAG, Plan, environment
from chaos.polling import comes_true
from chaos.processes import Broker, Member
from pyoco_server.adapters.embedded_nats.data_folder import DataFolder
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from pyoco_server.config import NatsBackendConfig

START_SEC = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncingWorker:
    """How a worker syncs wheels."""

    tags: tuple[str, ...]
    folder: Path


class Fleet:
    """Everything that runs. `marker` is in the environment of all of it."""

    def __init__(self, plan: Plan, folder: Path, nats: EmbeddedNats, journal: Journal) -> None:
        self.broker = Broker(nats)
        self._folder = folder
        self.marker = secrets.token_hex(8)
        self.environment = environment(plan, folder, nats.url, nats.token, self.marker)
        self.config = NatsBackendConfig.from_env(self.environment)
        self._journal = journal
        ports = [_free_port() for _ in range(plan.gateways)]
        self.urls = {f"gateway-{n}": f"http://127.0.0.1:{port}" for n, port in enumerate(ports, start=1)}
        self.gateways = [
            Member(
                f"gateway-{n}",
                "pyoco_server.cli.server",
                ["up", "--nats-url", nats.url, "--port", str(port)],
                self.environment | {"PYOCO_INDEX_PATH": str(folder / f"gateway-{n}.sqlite")},
                folder,
                says_when_ready=b"pyoco-server is up",
                on_end=self._ended,
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
                    *("--concurrency", str(SLOTS), "--flow-resolver", f"{FLOWS}:resolve"),
                    *_of_tags_and_wheels(self.syncing.get(f"worker-{n}")),
                ],
                self.environment,
                folder,
                says_when_ready=b'"worker ready"',
                on_end=self._ended,
            )
            for n in range(1, plan.workers + 1)
        ]

    @property
    def members(self) -> list[Member]:
        return [*self.gateways, *self.workers]

    def lose_index(self, gateway: str) -> None:
        """Remove the index of a gateway that is down: a cache, which has to come back by itself."""
        for file in self._folder.glob(f"{gateway}.sqlite*"):
            file.unlink()

    async def until_ready(self) -> bool:
        """Wait until every part says that it serves; False when that takes too long."""

        async def is_ready() -> bool:
            return all(member.is_ready for member in self.members)

        return await comes_true(is_ready, within_sec=START_SEC)

    async def stop(self) -> None:
        """End the workers, then the gateways, each in order."""
        for group in (self.workers, self.gateways):
            ended = await asyncio.gather(*(member.stop() for member in group))
            for member, in_order in zip(group, ended, strict=True):
                if not in_order:
                    self._journal.note_fault("processes that did not stop when asked", member.name, "had to be killed")

    def _ended(self, member: Member, status: int, was_ready: bool) -> None:
        if was_ready:
            self._journal.note_fault("processes that ended by themselves", member.name, f"exit status {status}")
        else:
            self._journal.restarts[member.name] += 1  # its broker was away: a start may be refused, and is tried again


@asynccontextmanager
async def running_fleet(plan: Plan, folder: Path, journal: Journal) -> AsyncIterator[Fleet]:
    """The whole system, up; when the block ends, it is stopped part by part."""
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


def _of_tags_and_wheels(syncing: SyncingWorker | None) -> list[str]:
    if syncing is None:
        return ["--tags", ",".join(TAGS)]
    return ["--tags", ",".join(syncing.tags), "--wheel-sync", "--wheel-sync-dir", str(syncing.folder)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
