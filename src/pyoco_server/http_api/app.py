"""The gateway as an ASGI app: lifespan, routers, handlers; no logic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from pyoco_server import __version__
from pyoco_server.adapters.system import SystemClock, SystemIds
from pyoco_server.bootstrap import locate_broker, open_gateway
from pyoco_server.config import NatsBackendConfig, names_a_broker
from pyoco_server.errors import Kind, PyocoError
from pyoco_server.http_api.api import (
    audit,
    dashboard,
    dlq,
    flows,
    graphs,
    health,
    metrics,
    overview,
    stats,
    wheels,
    whoami,
    workers,
)
from pyoco_server.http_api.api.executions import claim_routes as claims
from pyoco_server.http_api.api.executions import event_routes as executions_events
from pyoco_server.http_api.api.executions import routes as executions
from pyoco_server.http_api.api.jobs import log_routes as jobs_logs
from pyoco_server.http_api.api.jobs import routes as jobs
from pyoco_server.http_api.api.jobs import stream_routes as jobs_streams
from pyoco_server.http_api.api.jobs import ws_routes as jobs_sockets
from pyoco_server.http_api.api.pdca import artifact_routes as artifacts
from pyoco_server.http_api.api.pdca import gui_routes as pdca_gui
from pyoco_server.http_api.api.pdca import recheck_routes as rechecks
from pyoco_server.http_api.api.pdca import strategy_routes as pdca_strategies
from pyoco_server.http_api.api.runs import log_routes as runs_logs
from pyoco_server.http_api.api.runs import rerun_routes as runs_rerun
from pyoco_server.http_api.api.runs import routes as runs
from pyoco_server.http_api.api.runs import watch_routes as watch
from pyoco_server.http_api.api.runs import yaml_routes as runs_yaml
from pyoco_server.http_api.middleware import authentication, rate_limits
from pyoco_server.http_api.middleware.access_log import AccessLog
from pyoco_server.http_api.middleware.api_metrics import ApiMetrics
from pyoco_server.http_api.middleware.hosts import HostCheck
from pyoco_server.http_api.middleware.requests import RequestMiddleware, request_durations
from pyoco_server.http_api.middleware.tracing import TracingMiddleware
from pyoco_server.http_api.middleware.trusted_proxies import TrustedProxies, TrustedProxiesMiddleware
from pyoco_server.http_api.openapi import docs_page
from pyoco_server.http_api.openapi.document import DocumentedApp
from pyoco_server.http_api.protocol import query_names
from pyoco_server.http_api.protocol.forms import form_limits
from pyoco_server.http_api.protocol.shutdown import on_shutdown_signal
from pyoco_server.http_api.responses import problems
from pyoco_server.logs import configure_logging
from pyoco_server.tracing.start import start_tracing

WITH_ROUTES = (
    runs,
    runs_yaml,
    runs_rerun,
    runs_logs,
    watch,
    executions,
    executions_events,
    claims,
    jobs,
    jobs_logs,
    jobs_streams,
    jobs_sockets,
    workers,
    wheels,
    dlq,
    audit,
    whoami,
    graphs,
    flows,
    rechecks,
    pdca_strategies,
    pdca_gui,
    artifacts,
    overview,
    stats,
    metrics,
    health,
    dashboard,
    docs_page,
)
logger = logging.getLogger(__name__)

DESCRIPTION = "Runs Python workflows on a fleet of workers. Every run is a list of events in which cancel wins."

# FastAPI's own spans and logs would contain bodies and messages of errors. Ours: `middleware.tracing`.
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(config: NatsBackendConfig | None = None) -> FastAPI:
    """The app; without a config it reads the environment, as `uvicorn …:create_app --factory` needs it."""
    settings = config or _from_environment()
    tracing = start_tracing("pyoco-server")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if config is None:
            configure_logging(service="pyoco-server:http", config=settings)
        async with AsyncExitStack() as opened:
            if tracing is not None:
                opened.push_async_callback(tracing.close)
            try:
                gateway = open_gateway(settings, recorder=tracing)
                app.state.services = await opened.enter_async_context(gateway)
            except PyocoError as error:
                _log_failed_startup(error)
                app.state.refusal = error  # `pyoco-server up` prints it with its hint
                raise
            except asyncio.CancelledError:  # stopped while it connects, which is no error
                logging.getLogger("uvicorn.error").addFilter(_is_no_traceback)
                raise
            opened.enter_context(on_shutdown_signal(app.state.services.end_streams))
            yield

    app = DocumentedApp(
        title="pyoco-server",
        description=DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirect would name the host of the request, which may be anything for a probe.
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    # Not included: an included router is matched for each request, and then its routes.
    app.router.routes += [route for module in WITH_ROUTES for route in module.router.routes]
    dashboard.install(app, settings)
    query_names.install(app)
    rate_limits.install_routes(app, settings)
    authentication.install(app, settings)
    rate_limits.install_credentials(app, settings)
    problems.install(app)
    app.state.http_durations = request_durations()
    app.state.api_metrics = ApiMetrics()
    app.add_middleware(
        RequestMiddleware,
        new_id=SystemIds().request_id,
        now=SystemClock().monotonic,
        durations=app.state.http_durations,
        access=AccessLog.of(settings),
        api_metrics=app.state.api_metrics,
        hosts=HostCheck(settings),
        max_body_bytes=settings.http_max_body_bytes,
        body_limits=form_limits(settings),
    )
    if tracing is not None:
        app.add_middleware(TracingMiddleware, tracing=tracing)
    if settings.http_trusted_proxies:
        app.add_middleware(TrustedProxiesMiddleware, proxies=TrustedProxies(settings.http_trusted_proxies))
    return app


def _log_failed_startup(error: PyocoError) -> None:
    """Log it once, with a traceback unless the error says what to change. uvicorn would log one as a plain message."""
    extra = {**error.ids(), "detail": error.detail, "hint": error.hint}
    logger.error("gateway startup failed", extra=extra, exc_info=error.kind is not Kind.INVALID)
    logging.getLogger("uvicorn.error").addFilter(_is_no_traceback)


def _is_no_traceback(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Traceback")


def _from_environment() -> NatsBackendConfig:
    config = NatsBackendConfig.from_env()
    return config if names_a_broker() else locate_broker(config)
