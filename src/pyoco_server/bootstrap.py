"""Config → adapters → services: the only place that knows all classes."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from pyoco_server.adapters.embedded_nats.data_folder import ConnectionInfo, find_running
from pyoco_server.adapters.jetstream.artifact_store import JetStreamArtifactStore
from pyoco_server.adapters.jetstream.broker import JetStreamKeyValue, JetStreamSubjectLog
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.job_queue import JetStreamJobQueue
from pyoco_server.adapters.jetstream.presence import JetStreamPresence
from pyoco_server.adapters.jetstream.signals import JetStreamSignals
from pyoco_server.adapters.jetstream.topology import Facts, ensure_resources
from pyoco_server.adapters.jetstream.traced import TracedJobQueue, TracedKeyValue, TracedSubjectLog
from pyoco_server.adapters.jetstream.wheel_store import JetStreamWheelStore
from pyoco_server.adapters.jwt import TokenKeys, TokenVerifier, rules_of
from pyoco_server.adapters.sqlite.audit_index import SqliteAuditIndex
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.adapters.sqlite.results import SqliteStrategyResults
from pyoco_server.adapters.sqlite.traced import TracedRunIndex
from pyoco_server.adapters.system import SystemClock, SystemIds, open_file_limit
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import Pepper
from pyoco_server.domain.execution.events import Actor
from pyoco_server.errors import InvalidUsage
from pyoco_server.ports import AuditIndex, Clock, RunIndex, StrategyResults
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.audit.jobs import audit_jobs
from pyoco_server.services.audit.reader import AuditReader
from pyoco_server.services.audit.recorder import AuditRecorder
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.auth.api_key_cache import ApiKeyCache
from pyoco_server.services.auth.api_keys import ApiKeys
from pyoco_server.services.auth.authenticator import Authenticator
from pyoco_server.services.auth.tickets import TicketService
from pyoco_server.services.claims.claim_node import ClaimService
from pyoco_server.services.claims.claim_queue import ClaimQueue
from pyoco_server.services.container import Services
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.dead_letters import DeadLetterService
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.rerun import RerunService
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.fleet_view import FIRST_FILL_WAIT_SEC, FleetView
from pyoco_server.services.flows import FlowService
from pyoco_server.services.gateway_roster import GatewayRoster, RosterKeeper
from pyoco_server.services.graphs import GraphService
from pyoco_server.services.loops import Periodic
from pyoco_server.services.maintenance.periodic import maintenance_jobs
from pyoco_server.services.pdca.artifacts import ArtifactService, SharedSigningKeys
from pyoco_server.services.pdca.driver import BatchDriver
from pyoco_server.services.pdca.engine_watch import EngineWatch
from pyoco_server.services.pdca.flow_engine import FlowEngine
from pyoco_server.services.pdca.requests import RequestService
from pyoco_server.services.pdca.result_projector import ResultProjector
from pyoco_server.services.pdca.strategies import StrategyService
from pyoco_server.services.pdca.strategy_tables import StrategyTables
from pyoco_server.services.projections.explain import ExplainService
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.services.projections.lists import HEAVY_LISTS, ListService
from pyoco_server.services.projections.metrics import MetricsService
from pyoco_server.services.projections.overview import OverviewService
from pyoco_server.services.rate_limiter import RateLimiter
from pyoco_server.services.readiness import ReadinessService
from pyoco_server.services.run_logs.read import RunLogService
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.services.wheels import WheelService
from pyoco_server.stores import (
    AuditLog,
    DeadLetters,
    EventLog,
    Feed,
    GraphStore,
    IdempotencyStore,
    KeyStore,
    LogStore,
    SigningKeyStore,
    SnapshotStore,
    StrategyStore,
    TicketStore,
    WheelHistory,
    WorkerRegistry,
)
from pyoco_server.tracing.spans import Recorder

INDEX_NAME = "runs.sqlite"
# Beside the index.
RESULTS_NAME = "pdca.sqlite"
# Of open files, for what is no stream: requests and probes, the broker, the index, uploads.
RESERVED_FILES = 256

logger = logging.getLogger(__name__)


def locate_broker(config: NatsBackendConfig) -> NatsBackendConfig:
    """The config with the data folder's own broker and this folder, if it runs."""
    running = find_running(folder := config.data_folder)
    if running is None:
        return config
    return replace(config, nats_url=running.url, nats_token=running.token, data_dir=str(folder))


def _own_broker(config: NatsBackendConfig) -> ConnectionInfo | None:
    """The broker of the data folder, if it is the one that is used."""
    running = find_running(config.data_folder)
    return running if running is not None and running.url == config.nats_url else None


@asynccontextmanager
async def open_stores(config: NatsBackendConfig, *, name: str, is_traced: bool = False) -> AsyncIterator[Stores]:
    """Everything that gateways and workers share, connected, with its streams and buckets in place."""
    async with _connected(config, name) as (connection, facts):
        yield stores_on(connection, facts, config, is_traced=is_traced)


@asynccontextmanager
async def open_gateway(config: NatsBackendConfig, *, recorder: Recorder | None = None) -> AsyncIterator[Services]:
    """The services of a gateway, with its own index and its background tasks; with a recorder they make spans."""
    is_traced = recorder is not None
    async with _connected(config, "pyoco-gateway") as (connection, facts):
        stores = stores_on(connection, facts, config, is_traced=is_traced)
        async with (
            _other_engine(config, stores, recorder) as engine,
            _gateway_on(connection, facts, stores, engine, config, is_traced=is_traced) as services,
        ):
            yield services


@asynccontextmanager
async def _gateway_on(
    connection: Connection,
    facts: Facts,
    stores: Stores,
    engine: BatchEngine | None,
    config: NatsBackendConfig,
    *,
    is_traced: bool,
) -> AsyncIterator[Services]:
    feed = feed_on(connection, facts, config)
    authenticator = _authenticator(connection, facts, config, stores.clock)
    with (
        _index_file(config) as file,
        closing(_index_class(is_traced).open(file)) as index,
        closing(SqliteStrategyResults.open(file.with_name(RESULTS_NAME))) as results,
        closing(SqliteAuditIndex(audit_file_of(index.path))) as audit_index,
    ):
        indexer = Indexer(feed, index, stores.clock)
        connection.on_reconnect(indexer.hurry)
        audit = audit_on(stores, feed, audit_index, config)
        services = build_services(stores, index, indexer, config, authenticator, engine, results=results, audit=audit)
        roster = RosterKeeper(services.roster, stores.presence, connection, stores.clock)
        connection.on_reconnect(roster.arrive)
        await roster.open()
        is_recorded = audit.recorder.is_recorded
        jobs = (
            *maintenance_jobs(
                stores, index, feed, config, services.fleet, services.executions.queued, is_recorded=is_recorded
            ),
            *audit_jobs(audit),
        )
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work)
                for work in (
                    indexer.run(),
                    services.fleet.run(),
                    roster.run(),
                    _run_when_caught_up(indexer, jobs),
                    services.executions.cache.run(),
                    services.claims.queue.run(),
                    services.strategies.tables.run(),
                    services.strategies.projector.run(),
                    _drive_when_caught_up(indexer, services.batches),
                )
            ]
            if authenticator is not None and authenticator.keyring is not None:
                tasks.append(group.create_task(authenticator.keyring.run()))
            if services.airflow is not None:
                tasks.append(group.create_task(services.airflow.run()))
            try:
                # Runs are shown with facts about their workers, so the first request waits for the fleet.
                await services.fleet.wait_caught_up(FIRST_FILL_WAIT_SEC)
                yield services
            finally:
                roster.leave()
                services.end_streams()
                await services.executions.cache.flush(progress=True)
                for task in tasks:
                    task.cancel()


def build_services(
    stores: Stores,
    index: RunIndex,
    indexer: Indexer,
    config: NatsBackendConfig,
    authenticator: Authenticator | None = None,
    engine: BatchEngine | None = None,
    *,
    results: StrategyResults,
    audit: AuditReader,
) -> Services:
    """The services over these stores; nothing runs yet. Without an engine, workers run the batches of requests."""
    fleet = FleetView(stores.registry, stores.broker, stores.clock, config)
    roster = GatewayRoster(own_id=stores.ids.instance_id())
    topics = RunTopics(stores, config, _most_streams(config))
    cache = ExecutionCache(stores, on_ready=indexer.look_now)
    executions = ExecutionService(stores=stores, cache=cache, config=config, find_flow=fleet.find_flow)
    heavy = asyncio.Semaphore(HEAVY_LISTS)
    lists = ListService(stores=stores, index=index, indexer=indexer, cache=cache, heavy=heavy)
    queue = ClaimQueue(index, indexer, stores.clock)
    tables = StrategyTables(stores.strategies, results)
    projector = ResultProjector(stores, index, indexer, results, tables, retention_sec=config.run_retention_sec)
    strategies = StrategyService(stores=stores, results=results, tables=tables, projector=projector)
    indexer.on_indexed(projector.on_indexed)
    watch = None if engine is None else EngineWatch(engine)
    if engine is None:
        tag, concurrency = config.pdca_tag or config.default_tag, config.pdca_concurrency
        engine = FlowEngine(submits=executions, index=index, tag=tag, concurrency=concurrency)
    batches = BatchDriver(executions, index, engine, roster)
    indexer.on_indexed(batches.on_indexed)
    rate_limiter = RateLimiter(config, roster, stores.clock)
    readiness = ReadinessService(stores, indexer)
    return Services(
        config=config,
        stores=stores,
        executions=executions,
        reruns=RerunService(executions=executions),
        lists=lists,
        claims=ClaimService(executions=executions, lists=lists, queue=queue),
        topics=topics,
        run_logs=RunLogService(executions=executions, topics=topics, heavy=heavy),
        explanations=ExplainService(executions=executions, lists=lists, fleet=fleet),
        graphs=GraphService(stores=stores, fleet=fleet),
        strategies=strategies,
        flows=FlowService(fleet=fleet, lists=lists),
        wheels=WheelService(stores),
        fleet=fleet,
        roster=roster,
        rate_limiter=rate_limiter,
        metrics=MetricsService(lists=lists, fleet=fleet, topics=topics, claims=queue, rate_limiter=rate_limiter),
        overview=OverviewService(lists=lists, fleet=fleet, readiness=readiness),
        tickets=TicketService(store=stores.tickets, clock=stores.clock, ids=stores.ids),
        dead_letters=DeadLetterService(executions=executions, lists=lists),
        readiness=readiness,
        batch_engine=engine,
        batches=batches,
        requests=RequestService(executions=executions, strategies=strategies, engine=engine, wake=batches.wake),
        artifacts=ArtifactService(stores=stores, executions=executions, keys=SharedSigningKeys(stores)),
        audit=audit,
        authenticator=authenticator,
        airflow=watch,
    )


@asynccontextmanager
async def _other_engine(
    config: NatsBackendConfig, stores: Stores, recorder: Recorder | None
) -> AsyncIterator[BatchEngine | None]:
    """The engine outside of this server that runs the batches of PDCA requests; None leaves them to its workers."""
    if not config.airflow_url:
        yield None
        return
    # Imported here: httpx would make the start of every worker and gateway slower.
    from pyoco_server.adapters.airflow.engine import AirflowEngine

    engine = AirflowEngine(config, stores.clock, stores.counters, recorder)
    try:
        yield engine
    finally:
        await engine.close()


def audit_on(stores: Stores, feed: Feed, index: AuditIndex, config: NatsBackendConfig) -> AuditReader:
    """The audit trail as this gateway records, indexes and shows it."""
    recorder = AuditRecorder(feed=feed, log=stores.audit, config=config, clock=stores.clock)
    return AuditReader(recorder=recorder, log=stores.audit, index=index, config=config, clock=stores.clock)


def audit_file_of(run_index: Path) -> Path:
    """Beside the run index, whose file belongs to this process alone."""
    return run_index.with_name(f"{run_index.stem}-audit.sqlite")


def _most_streams(config: NatsBackendConfig) -> int:
    """The limit of streams, lowered where each would need an open file that the process may not have."""
    wanted, files = config.http_max_watchers, open_file_limit()
    if files is None or wanted <= files - RESERVED_FILES:
        return wanted
    possible = max(files - RESERVED_FILES, 1)
    logger.warning("fewer streams than PYOCO_HTTP_MAX_WATCHERS", extra={"streams": possible, "open_file_limit": files})
    return possible


@asynccontextmanager
async def open_api_keys(config: NatsBackendConfig, *, operator: str = "pyoco-server-admin") -> AsyncIterator[ApiKeys]:
    """The administration of keys by this operator, without a gateway."""
    async with _connected(config, "pyoco-server-admin") as (connection, facts):
        store, clock, ids = api_keys_on(connection, facts, config), SystemClock(), SystemIds()
        trail = AuditTrail(log=_audit_log(connection, facts, config), clock=clock, ids=ids)
        context = CommandContext(actor=Actor(kind="operator", id=operator))
        pepper = Pepper(config.auth_pepper)
        yield ApiKeys(store=store, clock=clock, ids=ids, pepper=pepper, trail=trail, context=context)


@asynccontextmanager
async def open_strategies(config: NatsBackendConfig) -> AsyncIterator[tuple[StrategyStore, AuditTrail]]:
    """The registered strategies and the trail of their changes, without a gateway."""
    async with _connected(config, "pyoco-server-admin") as (connection, facts):
        trail = AuditTrail(log=_audit_log(connection, facts, config), clock=SystemClock(), ids=SystemIds())
        yield StrategyStore(JetStreamKeyValue(connection, config.strategies_kv_bucket, facts)), trail


def _authenticator(
    connection: Connection, facts: Facts, config: NatsBackendConfig, clock: Clock
) -> Authenticator | None:
    """None where every caller is admitted."""
    keyring, tokens = None, None
    if "api_key" in config.auth_ways:
        keyring = ApiKeyCache(api_keys_on(connection, facts, config), clock, Pepper(config.auth_pepper))
    if "jwt" in config.auth_ways:
        tokens = TokenVerifier(TokenKeys.of(config, clock), rules_of(config), clock).caller_of
    return Authenticator(keyring=keyring, read_token=tokens) if config.auth_ways else None


async def _run_when_caught_up(indexer: Indexer, jobs: Sequence[Periodic]) -> None:
    """Maintenance starts when the index is filled: until then every snapshot would look behind."""
    await indexer.wait_caught_up()
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job.run())


async def _drive_when_caught_up(indexer: Indexer, batches: BatchDriver) -> None:
    """Requests are found in the index."""
    await indexer.wait_caught_up()
    await batches.run()


@asynccontextmanager
async def _connected(config: NatsBackendConfig, name: str) -> AsyncIterator[tuple[Connection, Facts]]:
    async with await Connection.open(config, name=name) as connection:
        _check_message_limits(config, connection.max_payload)
        # Only our own broker is known to write to disk before it acknowledges.
        fsynced = (own := _own_broker(config)) is not None and own.fsyncs
        yield connection, await ensure_resources(connection, config, fsynced=fsynced)


def _check_message_limits(config: NatsBackendConfig, max_payload: int) -> None:
    """Refuse settings that allow what the broker cannot store in one message."""
    for name in ("workflow_yaml_max_bytes", "max_run_snapshot_bytes"):
        limit = getattr(config, name)
        if limit > max_payload:
            raise InvalidUsage(
                f"PYOCO_{name.upper()} is {limit}, but the broker accepts messages of at most {max_payload} bytes: "
                "lower the setting or raise max_payload of nats-server"
            )


def stores_on(connection: Connection, facts: Facts, config: NatsBackendConfig, *, is_traced: bool = False) -> Stores:
    clock = SystemClock()
    key_value, job_queue = JetStreamKeyValue, JetStreamJobQueue
    if is_traced:
        key_value, job_queue = TracedKeyValue, TracedJobQueue

    def bucket(name: str) -> JetStreamKeyValue:
        return key_value(connection, name, facts)

    snapshots = SnapshotStore(bucket(config.runs_kv_bucket), max_run_snapshot_bytes=config.max_run_snapshot_bytes)
    dlq = JetStreamSubjectLog(connection, config.dlq_stream, facts, prefix=config.dlq_subject_prefix)
    prefix, stored_prefix = config.logs_subject_prefix, f"{config.stored_subject_prefix}.log"
    run_logs = JetStreamSubjectLog(connection, config.logs_stream, facts, prefix=prefix, stored_prefix=stored_prefix)
    return Stores(
        broker=connection,
        events=EventLog(_events_log(connection, facts, config, is_traced=is_traced)),
        run_logs=LogStore(run_logs),
        snapshots=snapshots,
        queue=job_queue(connection, config),
        dead_letters=DeadLetters(dlq, default_tag=config.default_tag),
        registry=WorkerRegistry(bucket(config.workers_kv_bucket)),
        signals=JetStreamSignals(connection),
        presence=JetStreamPresence(connection, stored_prefix=config.stored_subject_prefix),
        wheels=JetStreamWheelStore(connection, config, facts, clock),
        wheel_history=WheelHistory(bucket(config.wheel_history_kv_bucket)),
        graphs=GraphStore(bucket(config.graphs_kv_bucket)),
        strategies=StrategyStore(bucket(config.strategies_kv_bucket)),
        idempotency=IdempotencyStore(bucket(config.idempotency_kv_bucket)),
        tickets=TicketStore(bucket(config.tickets_kv_bucket)),
        artifacts=JetStreamArtifactStore(connection, config, facts, clock),
        signing_keys=SigningKeyStore(bucket(config.signing_keys_kv_bucket)),
        audit=_audit_log(connection, facts, config),
        clock=clock,
        ids=SystemIds(),
        durability=facts.durability,
    )


def _audit_log(connection: Connection, facts: Facts, config: NatsBackendConfig) -> AuditLog:
    return AuditLog(JetStreamSubjectLog(connection, config.audit_stream, facts, prefix=config.audit_subject_prefix))


def api_keys_on(connection: Connection, facts: Facts, config: NatsBackendConfig) -> KeyStore:
    return KeyStore(JetStreamKeyValue(connection, config.auth_kv_bucket, facts))


def feed_on(connection: Connection, facts: Facts, config: NatsBackendConfig) -> Feed:
    """The changes of snapshots and events on one connection to JetStream."""
    snapshots = JetStreamKeyValue(connection, config.runs_kv_bucket, facts)
    return Feed(snapshots, _events_log(connection, facts, config))


def _events_log(
    connection: Connection, facts: Facts, config: NatsBackendConfig, *, is_traced: bool = False
) -> JetStreamSubjectLog:
    prefix, stored_prefix = config.events_subject_prefix, config.stored_subject_prefix
    log = TracedSubjectLog if is_traced else JetStreamSubjectLog
    return log(connection, config.events_stream, facts, prefix=prefix, stored_prefix=stored_prefix)


def _index_class(is_traced: bool) -> type[SqliteRunIndex]:
    return TracedRunIndex if is_traced else SqliteRunIndex


@contextmanager
def _index_file(config: NatsBackendConfig) -> Iterator[Path]:
    """The file of the index: the configured one, beside the embedded broker, or, for other brokers, a temporary one."""
    if config.index_path:
        yield Path(config.index_path)
    elif _own_broker(config) is not None:
        yield config.data_folder / "index" / INDEX_NAME
    else:
        with tempfile.TemporaryDirectory(prefix="pyoco-index-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary) / INDEX_NAME
