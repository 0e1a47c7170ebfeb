"""`pyoco-server up`: starts a gateway, and with it NATS and a worker if wanted. Imports nothing heavy for `--help`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.version import HELP_NAMES, VersionOption
from pyoco_server.cli.worker import parse_tags, parse_worker_name
from pyoco_server.errors import InvalidUsage

PROGRAM = "pyoco-server"
EXAMPLE = "Example: pyoco-server up --with-worker --flow-resolver flows.py:resolve"

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLE, context_settings=HELP_NAMES)


DashboardLangOption = Annotated[
    Literal["auto", "ja", "en"] | None, Option(help="Language of the dashboard. Else PYOCO_DASHBOARD_LANG.")
]


@app.callback()
def server(version: VersionOption = False, dashboard_lang: DashboardLangOption = None) -> None:
    """Run Python workflows on a fleet of workers."""


@app.command(epilog=EXAMPLE)
def up(
    context: typer.Context,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    data_dir: Annotated[
        str | None, Option(help="Folder of the embedded NATS. Else PYOCO_DATA_DIR, .pyoco here, or the user's.")
    ] = None,
    nats_url: Annotated[str | None, Option(help="Use this NATS instead of an embedded one.")] = None,
    with_nats_bootstrap: Annotated[
        bool, Option("--with-nats-bootstrap", help="Even if PYOCO_NATS_URL is set.")
    ] = False,
    nats_listen_host: Annotated[str, Option(help="Address of the embedded NATS.")] = "127.0.0.1",
    nats_client_port: Annotated[
        int, Option(min=0, max=65535, help="Its port; 0: the previous one, or a free one.")
    ] = 0,
    nats_http_port: Annotated[
        int | None, Option(min=0, max=65535, help="Its monitoring port; none by default.")
    ] = None,
    with_worker: Annotated[bool, Option("--with-worker/--no-with-worker", help="Also start a worker.")] = False,
    worker_id: Annotated[str | None, Option(help="Name of that worker in the fleet.")] = None,
    worker_tags: Annotated[str | None, Option(help="Which runs it takes: tags joined by commas.")] = None,
    worker_concurrency: Annotated[int | None, Option(min=1, max=1024, help="How many at a time.")] = None,
    flow_resolver: Annotated[
        str | None,
        Option(help="Its flows: module:func or path.py:func, a function of the flow's name. None: flow.yaml only."),
    ] = None,
    code_reload: Annotated[
        bool | None,
        Option("--code-reload/--no-code-reload", help="Load saved files of flows; it does unless PYOCO_CODE_RELOAD=0."),
    ] = None,
    dashboard_lang: DashboardLangOption = None,
) -> int:
    """Start NATS (embedded, unless one is named), the HTTP gateway and, with --with-worker, a worker."""
    if nats_url is not None and with_nats_bootstrap:
        example = f"{PROGRAM} up --with-nats-bootstrap"
        raise InvalidUsage("--nats-url and --with-nats-bootstrap exclude each other", example=example)
    if worker_tags is not None:
        parse_tags("--worker-tags", worker_tags, PROGRAM)
    if worker_id is not None:
        parse_worker_name(worker_id, PROGRAM)

    from pyoco_server.cli.process import run_until_stopped
    from pyoco_server.cli.up import Up
    from pyoco_server.config import NatsBackendConfig, is_set, names_a_broker
    from pyoco_server.logs import configure_logging

    of_program = context.find_root().params.get("dashboard_lang")
    config = NatsBackendConfig.from_env(
        nats_url=nats_url, data_dir=data_dir, code_reload=code_reload, dashboard_lang=dashboard_lang or of_program
    )
    reloads = config.code_reload or (code_reload is None and not is_set("code_reload"))
    configure_logging(service="pyoco-server:http", config=config)
    worker = {"--worker-id": worker_id, "--tags": worker_tags, "--concurrency": worker_concurrency}
    worker["--flow-resolver"] = flow_resolver
    given = [word for name, value in worker.items() if value is not None for word in (name, str(value))]
    given.append("--code-reload" if reloads else "--no-code-reload")
    program = Up(
        config=config,
        host=host,
        port=port,
        embedded=with_nats_bootstrap or (nats_url is None and not names_a_broker()),
        nats_url_given=nats_url is not None,
        nats_listen_host=nats_listen_host,
        nats_client_port=nats_client_port,
        nats_http_port=nats_http_port,
        worker_arguments=given if with_worker else None,
    )
    return run_until_stopped(program.run)


def main() -> None:
    output.run(app, PROGRAM)


if __name__ == "__main__":
    main()
