"""The services of one gateway, as the app state holds them. A route takes the one it needs."""

from __future__ import annotations

from dataclasses import dataclass

from pyoco_server.config import NatsBackendConfig
from pyoco_server.ports.pdca import BatchEngine
from pyoco_server.services.audit.reader import AuditReader
from pyoco_server.services.auth.authenticator import Authenticator
from pyoco_server.services.auth.tickets import TicketService
from pyoco_server.services.claims.claim_node import ClaimService
from pyoco_server.services.context import Stores
from pyoco_server.services.dead_letters import DeadLetterService
from pyoco_server.services.executions.rerun import RerunService
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.flows import FlowService
from pyoco_server.services.gateway_roster import GatewayRoster
from pyoco_server.services.graphs import GraphService
from pyoco_server.services.pdca.artifacts import ArtifactService
from pyoco_server.services.pdca.driver import BatchDriver
from pyoco_server.services.pdca.engine_watch import EngineWatch
from pyoco_server.services.pdca.requests import RequestService
from pyoco_server.services.pdca.strategies import StrategyService
from pyoco_server.services.projections.explain import ExplainService
from pyoco_server.services.projections.lists import ListService
from pyoco_server.services.projections.metrics import MetricsService
from pyoco_server.services.projections.overview import OverviewService
from pyoco_server.services.rate_limiter import RateLimiter
from pyoco_server.services.readiness import ReadinessService
from pyoco_server.services.run_logs.read import RunLogService
from pyoco_server.services.streaming.topics import RunTopics
from pyoco_server.services.wheels import WheelService


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Built once by `bootstrap`. `authenticator` is None where every caller is admitted, `airflow` without Airflow."""

    config: NatsBackendConfig
    stores: Stores
    executions: ExecutionService
    reruns: RerunService
    lists: ListService
    claims: ClaimService
    topics: RunTopics
    run_logs: RunLogService
    explanations: ExplainService
    graphs: GraphService
    strategies: StrategyService
    flows: FlowService
    wheels: WheelService
    fleet: FleetView
    roster: GatewayRoster
    rate_limiter: RateLimiter
    metrics: MetricsService
    overview: OverviewService
    tickets: TicketService
    dead_letters: DeadLetterService
    readiness: ReadinessService
    requests: RequestService
    artifacts: ArtifactService
    batch_engine: BatchEngine
    batches: BatchDriver
    audit: AuditReader
    authenticator: Authenticator | None = None
    airflow: EngineWatch | None = None

    def end_streams(self) -> None:
        """End streams and pending claims, so that the process can stop."""
        self.topics.close()
        self.claims.queue.close()
