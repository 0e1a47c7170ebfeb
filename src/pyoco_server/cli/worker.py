"""`pyoco-worker`: one worker with its runner processes, until it is stopped. Imports nothing heavy for `--help`."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.version import HELP_NAMES, VersionOption
from pyoco_server.errors import BrokerUnavailable, InvalidRequest

if TYPE_CHECKING:
    from pyoco_server.cli.process import StopRequest
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.domain.fleet.records import Isolation
    from pyoco_server.domain.ids import WorkerId
    from pyoco_server.domain.run_logs.lines import LogLine

PROGRAM = "pyoco-worker"
EXAMPLE = "Example: pyoco-worker --data-dir .pyoco --tags default,gpu --flow-resolver flows.py:resolve"

app = typer.Typer(add_completion=False, rich_markup_mode=None)
logger = logging.getLogger(__name__)
task_output = logging.getLogger("pyoco_server.task")


@app.command(epilog=EXAMPLE, context_settings=HELP_NAMES)
def worker(
    nats_url: Annotated[str | None, Option(help="Where NATS is (PYOCO_NATS_URL).")] = None,
    data_dir: Annotated[str | None, Option(help="Data folder of a local `pyoco-server up`: finds its NATS.")] = None,
    tags: Annotated[str | None, Option(help="Which runs to take: tags joined by commas.")] = None,
    worker_id: Annotated[str | None, Option(help="Name in the fleet; host and pid by default.")] = None,
    concurrency: Annotated[int | None, Option(min=1, max=1024, help="Runs at a time; CPUs by default.")] = None,
    flow_resolver: Annotated[
        str | None,
        Option(help="Function from a flow's name to the flow: module:func or path.py:func. None: flow.yaml only."),
    ] = None,
    code_reload: Annotated[
        bool | None, Option("--code-reload/--no-code-reload", help="Load saved files of flows while it runs.")
    ] = None,
    flows: Annotated[str | None, Option(help="Flows to announce, joined by commas; by default the resolver's.")] = None,
    wheel_sync: Annotated[
        bool | None, Option("--wheel-sync/--no-wheel-sync", help="Install wheels for these tags.")
    ] = None,
    wheel_sync_dir: Annotated[str | None, Option(help="Install folder; workers of a machine may share it.")] = None,
    wheel_sync_interval_sec: Annotated[float | None, Option(help="How often to look for new ones.")] = None,
    wheel_install_timeout_sec: Annotated[float | None, Option(help="Longest installation.")] = None,
    version: VersionOption = False,
) -> int:
    """Take runs from the queue and run them."""
    name = parse_worker_name(worker_id, PROGRAM) if worker_id else default_worker_id()
    if tags is not None:
        parse_tags("--tags", tags, PROGRAM)

    from pyoco_server.cli.process import find_broker, run_until_stopped
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.logs import configure_logging

    config = NatsBackendConfig.from_env(
        nats_url=nats_url,
        data_dir=data_dir,
        worker_flows=flows,
        code_reload=code_reload,
        wheel_sync_enabled=wheel_sync,
        wheel_sync_dir=wheel_sync_dir,
        wheel_sync_interval_sec=wheel_sync_interval_sec,
        wheel_install_timeout_sec=wheel_install_timeout_sec,
    )
    served = parse_tags("--tags", tags or config.default_tag, PROGRAM)
    config = find_broker(config, nats_url, data_dir)
    configure_logging(service="pyoco-server:worker", config=config)
    slots = concurrency or os.cpu_count() or 1
    return run_until_stopped(lambda stop: _work(stop, config, name, served, slots, flow_resolver))


def parse_tags(option: str, text: str, program: str) -> list[str]:
    """The routing tags, which are joined by commas."""
    from pyoco_server.domain.ids import parse_tag

    try:
        return [parse_tag(tag.strip()) for tag in text.split(",") if tag.strip()]
    except InvalidRequest as error:
        tags = (re.sub(r"[^A-Za-z0-9_-]+", "-", tag.strip())[:64] for tag in text.split(",") if tag.strip())
        raise invalid(f"{option}: {error.detail}", {text: ",".join(tags)}, program=program) from error


def parse_worker_name(text: str, program: str) -> WorkerId:
    from pyoco_server.domain.ids import parse_worker_id

    try:
        return parse_worker_id(text)
    except InvalidRequest as error:
        raise invalid(f"--worker-id: {error.detail}", {text: "worker-1"}, program=program) from error


def default_worker_id() -> WorkerId:
    """host-pid, in the characters that a key may have."""
    from pyoco_server.domain.ids import parse_worker_id

    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname()) or "host"
    return parse_worker_id(f"{host[:100]}-{os.getpid()}")


async def _work(
    stop: StopRequest, config: NatsBackendConfig, worker_id: WorkerId, tags: list[str], slots: int, resolver: str | None
) -> None:
    from pyoco_server.bootstrap import open_stores
    from pyoco_server.tracing.start import start_tracing
    from pyoco_server.worker.runner_pool.pool import RunnerPool
    from pyoco_server.worker.runner_process.flow_announcement import parse_names
    from pyoco_server.worker.runner_process.process_tree import hide_memory
    from pyoco_server.worker.runner_process.runner_user import check_runner_user, parse_runner_user
    from pyoco_server.worker.supervisor.supervisor import Supervisor, unless_stopped
    from pyoco_server.worker.wheels.wheel_sync import WheelSync

    hide_memory()  # it has the broker's credentials
    user = parse_runner_user(config.runner_user)
    if user is not None:
        await check_runner_user(user, _read_by_runners(config, resolver), _trusted_by_worker(config))
    elif os.geteuid() == 0:
        logger.warning(
            "tasks run as root and can read everything; set PYOCO_RUNNER_USER", extra={"worker_id": worker_id}
        )
    async with AsyncExitStack() as opened:
        if (tracing := start_tracing("pyoco-worker")) is not None:
            opened.push_async_callback(tracing.close)
        stores_of_worker = open_stores(config, name=f"pyoco-worker {worker_id}", is_traced=tracing is not None)
        opening = opened.enter_async_context(stores_of_worker)
        try:
            stores = await unless_stopped(stop.asked, opening)
        except BrokerUnavailable:
            logger.exception("cannot reach the broker", extra={"worker_id": worker_id, "tags": tags})
            raise
        if stores is not None:
            names = parse_names(config.worker_flows)
            isolation = cast("Isolation", config.runner_isolation)
            pool = RunnerPool(
                *(resolver or "", slots, _log_output, names),
                isolation=isolation,
                user=user,
                code_reload=config.code_reload,
            )
            sync = WheelSync(stores.wheels, pool, config, tags, stores.clock) if config.wheel_sync_enabled else None
            supervisor = Supervisor(stores, pool, config, worker_id, tags, slots, sync, tracing)
            await supervisor.run(stop.asked, at_once=stop.at_once)


def _read_by_runners(config: NatsBackendConfig, resolver: str | None) -> list[Path]:
    """What the user of the runners must be able to read, besides Python and the working folder."""
    file = (resolver or "").rpartition(":")[0]
    paths = [Path(file).expanduser().absolute()] if file.endswith(".py") else []
    if config.wheel_sync_enabled:
        folder = Path(config.wheel_sync_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(folder)
    return [path for path in paths if path.exists()]


def _trusted_by_worker(config: NatsBackendConfig) -> dict[Path, str]:
    """What the user of the runners must not be able to replace, and what to do where it could."""
    from pyoco_server.config import is_data_folder

    found = {}
    if config.load_dotenv:
        found[Path(config.env_file).absolute()] = "set PYOCO_LOAD_DOTENV=0"
    if config.wheel_sync_enabled:
        found[Path(config.wheel_sync_dir).absolute()] = "set PYOCO_WHEEL_SYNC_DIR to a folder elsewhere"
    if is_data_folder(config.data_folder):
        found[config.data_folder.absolute()] = "set PYOCO_DATA_DIR to a folder elsewhere"
    return found


def _log_output(run_id: str, lines: Sequence[LogLine]) -> None:
    """Log the output of flows at debug level: it is stored with the run.

    Output before the first run (a resolver that prints) is stored nowhere else, so it is logged at info level.
    """
    level = logging.DEBUG if run_id else logging.INFO
    if task_output.isEnabledFor(level):
        for line in lines:
            task_output.log(level, line.text, extra={"run_id": run_id} if run_id else None)


def main() -> None:
    output.run(app, PROGRAM)


if __name__ == "__main__":
    main()
