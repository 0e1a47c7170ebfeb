"""`pyoco-worker`: one worker with its runner processes, until it is told to stop."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from pyoco_server.bootstrap import open_stores
from pyoco_server.cli import output
from pyoco_server.cli.broker import find_broker
from pyoco_server.cli.loop import run
from pyoco_server.cli.signals import StopRequest
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import WorkerId, parse_tag, parse_worker_id
from pyoco_server.domain.run_logs.lines import LogLine
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.logs import configure_logging
from pyoco_server.worker.runner_pool.pool import RunnerPool
from pyoco_server.worker.runner_process.flow_announcement import parse_names
from pyoco_server.worker.supervisor.supervisor import Supervisor, unless_stopped
from pyoco_server.worker.wheels.wheel_sync import WheelSync

app = typer.Typer(add_completion=False, rich_markup_mode=None)
logger = logging.getLogger(__name__)
task_output = logging.getLogger("pyoco_server.task")

EXAMPLE = "Example: pyoco-worker --data-dir .pyoco --tags default,gpu --flow-resolver flows.py:resolve"


@app.command(epilog=EXAMPLE)
def worker(
    nats_url: Annotated[str | None, typer.Option(help="Where NATS is (PYOCO_NATS_URL).")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Data folder of a `pyoco-server up` on this machine: finds its NATS by itself.")
    ] = None,
    tags: Annotated[str | None, typer.Option(help="Which runs to take: tags joined by commas.")] = None,
    worker_id: Annotated[str | None, typer.Option(help="Name in the fleet; host and pid by default.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=1024, help="Runs at a time; CPUs by default.")] = None,
    flow_resolver: Annotated[
        str | None,
        typer.Option(
            help="Function of a flow's name that returns it: module:func or path.py:func. None: flow.yaml only."
        ),
    ] = None,
    flows: Annotated[
        str | None,
        typer.Option(help="Flows to announce: names joined by commas. None: those that the resolver says it has."),
    ] = None,
    wheel_sync: Annotated[
        bool | None, typer.Option("--wheel-sync/--no-wheel-sync", help="Install the wheels meant for these tags.")
    ] = None,
    wheel_sync_dir: Annotated[
        str | None, typer.Option(help="Where they are installed; workers of one machine may share it.")
    ] = None,
    wheel_sync_interval_sec: Annotated[float | None, typer.Option(help="How often to look for new ones.")] = None,
    wheel_install_timeout_sec: Annotated[float | None, typer.Option(help="Longest installation.")] = None,
) -> int:
    """Take runs from the queue and run them."""
    config = NatsBackendConfig.from_env(
        nats_url=nats_url,
        data_dir=data_dir,
        worker_flows=flows,
        wheel_sync_enabled=wheel_sync,
        wheel_sync_dir=wheel_sync_dir,
        wheel_sync_interval_sec=wheel_sync_interval_sec,
        wheel_install_timeout_sec=wheel_install_timeout_sec,
    )
    config = find_broker(config, nats_url, data_dir)
    configure_logging(service="pyoco-server:worker", config=config)
    wanted = [parse_tag(tag.strip()) for tag in (tags or config.default_tag).split(",") if tag.strip()]
    name = parse_worker_id(worker_id) if worker_id else default_worker_id()
    return run(_work(config, name, wanted, concurrency or os.cpu_count() or 1, flow_resolver))


def default_worker_id() -> WorkerId:
    """host-pid, in the characters that a key may have."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"
    return parse_worker_id(f"{host[:100]}-{os.getpid()}")


async def _work(
    config: NatsBackendConfig, worker_id: WorkerId, tags: list[str], slots: int, flow_resolver: str | None
) -> int:
    stop = StopRequest()
    stop.listen()
    async with AsyncExitStack() as opened:
        opening = opened.enter_async_context(open_stores(config, name=f"pyoco-worker {worker_id}"))
        try:
            stores = await unless_stopped(stop.asked, opening)
        except BrokerUnavailable:
            logger.exception("cannot reach the broker", extra={"worker_id": worker_id, "tags": tags})
            raise
        if stores is not None:
            pool = RunnerPool(flow_resolver or "", slots, _print, parse_names(config.worker_flows))
            sync = WheelSync(stores.wheels, pool, config, tags, stores.clock) if config.wheel_sync_enabled else None
            supervisor = Supervisor(stores, pool, config, worker_id, tags, slots, sync)
            await supervisor.run(stop.asked, at_once=stop.at_once)
    return output.INTERRUPTED if stop.by is signal.SIGINT else output.OK


def _print(run_id: str, lines: Sequence[LogLine]) -> None:
    """What a flow prints is stored with its run; here it is told to whoever wants every detail.

    What comes before the first run (a resolver that prints) has no other place.
    """
    level = logging.DEBUG if run_id else logging.INFO
    if task_output.isEnabledFor(level):
        for line in lines:
            task_output.log(level, line.text, extra={"run_id": run_id} if run_id else None)


def main() -> None:
    output.run(app, "pyoco-worker")


if __name__ == "__main__":
    main()
