"""Batches on a real Airflow that is killed in the middle: every batch ends, once, and succeeds by the DAG's retries."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from pyoco_server.bootstrap import open_gateway
from pyoco_server.domain.execution.state import NodeStatus, Status
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.recheck import Batch, unreachable_since
from pyoco_server.domain.pdca.strategies import read_output
from pyoco_server.errors import EngineDown
from pyoco_server.ports.pdca import BatchState
from pyoco_server.services.container import Services
from pyoco_server.services.context import GATEWAY
from support.airflow import Airflow, airflow_environment
from support.broker import Broker
from support.gateways import gateway_settings
from support.pdca import creation, recheck_of
from support.polling import until
from support.programs import ROOT

EXAMPLES = ROOT / "examples"
DAGS = [EXAMPLES / "airflow" / "pdca_recheck.py", EXAMPLES / "strategy_metrics.py"]
STRATEGIES = [StrategyId(f"strat.{letter}") for letter in "abcdefgh"]
BATCHES = [STRATEGIES[start : start + 2] for start in range(0, len(STRATEGIES), 2)]
PATIENCE_SEC = 400.0


async def states(services: Services, run_id: RunId) -> Collection[BatchState]:
    """What Airflow says of the batches."""
    batches = [
        Batch(request_id=run_id, number=number, strategies=tuple(strategies), recheck=recheck_of(BATCHES))
        for number, strategies in enumerate(BATCHES, start=1)
    ]
    return (await services.batch_engine.states(batches)).values()


@pytest.mark.airflow
@pytest.mark.timeout(900)
async def test_batches_survive_the_death_of_airflow(tmp_path: Path) -> None:
    environment = airflow_environment()
    data = tmp_path / "data"
    data.mkdir()
    today = datetime.now(UTC).date()
    for strategy in STRATEGIES:
        returns = ("0.01", "-0.02", "0.03", "0.01", "0.02")
        rows = [f"{today - timedelta(days=days)},{value}" for days, value in enumerate(returns, start=1)]
        (data / f"{strategy}.csv").write_text("\n".join(["date,return", *reversed(rows), ""]))
    env = {"PYOCO_PDCA_DATA_DIR": str(data)}

    with Broker(tmp_path) as broker, Airflow(environment, tmp_path / "airflow", DAGS, env) as airflow:
        login = {"airflow_url": airflow.url, "airflow_user": "admin", "airflow_password": airflow.password}
        config = gateway_settings(broker.url, tmp_path, airflow_poll_interval_sec=0.5, **login)
        async with asyncio.timeout(PATIENCE_SEC), open_gateway(config) as services:
            await services.batch_engine.check()
            run_id = services.stores.ids.run_id()
            await services.executions.create_and_start(creation(services.stores.clock.now(), BATCHES), run_id, GATEWAY)
            services.batches.wake(run_id)
            look = partial(services.executions.look, run_id, tenant_filter=None)

            await until(partial(states, services, run_id), lambda found: BatchState.RUNNING in found)
            await asyncio.to_thread(airflow.kill)
            await until(look, lambda request: unreachable_since(request) is not None)
            with pytest.raises(EngineDown):
                await services.batch_engine.check()
            await asyncio.to_thread(airflow.start)
            request = await services.executions.whole(await until(look, lambda request: request.status.is_terminal))

    nodes = request.nodes
    assert {name: node.status for name, node in nodes.items()} == {
        node_of(number): NodeStatus.SUCCEEDED for number in range(1, len(BATCHES) + 1)
    }
    assert request.status is Status.COMPLETED
    outputs = [read_output(node.output) for node in nodes.values()]
    assert sorted(result.strategy for output in outputs if output for result in output.results) == STRATEGIES
    kpis = [result.kpi for output in outputs if output for result in output.results]
    assert {kpi["winrate"] for kpi in kpis} == {0.8}
    assert all(len(output.artifacts) == 1 for output in outputs if output)
