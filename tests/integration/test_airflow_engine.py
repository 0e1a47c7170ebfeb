"""Batches as DAG runs: every call may be repeated, lost and answered wrongly, and a batch runs once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from pyoco_server.adapters.airflow import engine as engine_module
from pyoco_server.adapters.airflow.engine import AirflowEngine
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.recheck import Batch, Recheck
from pyoco_server.domain.pdca.strategies import Health
from pyoco_server.errors import EngineDown, EngineMisconfigured
from pyoco_server.ports.pdca import BatchState
from pyoco_server.services.context import Counters
from pyoco_server.tracing.opentelemetry import TraceLimit, Tracing
from support.airflow_double import PASSWORD, USER, AirflowDouble, Cut, Endless, Hold, Reply, airflow_double
from support.clocks import ManualClock

REQUEST = RunId("01936b1c-0000-7000-8000-00000000000a")
RECHECK = Recheck(
    kind="recheck",
    reason="manual",
    window={"lookback_days": 14},
    client_id="alice",
    batches=1,
    strategies=2,
    engine="pdca_recheck",
    params={"retrain": True},
    trace_id="trace-1",
)


def batch(number: int = 1, request_id: RunId = REQUEST) -> Batch:
    strategies = (StrategyId("strat.a"), StrategyId("strat.b"))
    return Batch(request_id=request_id, number=number, strategies=strategies, recheck=RECHECK)


@pytest.fixture
def airflow() -> Iterator[AirflowDouble]:
    with airflow_double() as double:
        yield double


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(airflow: AirflowDouble, clock: ManualClock) -> AsyncIterator[AirflowEngine]:
    config = NatsBackendConfig(airflow_url=airflow.url, airflow_user=USER, airflow_password=PASSWORD)
    opened = AirflowEngine(config, clock, Counters())
    yield opened
    await opened.close()


async def test_a_batch_is_a_dag_run_with_its_id_and_its_input(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    await engine.start(batch(7))

    assert airflow.runs == {
        "pyoco.01JDNHR000E00800000000000A.0007": {
            "state": "queued",
            "dag_run_id": engine.run_id(batch(7)),
            "logical_date": None,
            "conf": {
                "request_id": "01JDNHR000E00800000000000A",
                "batch": 7,
                "strategies": ["strat.a", "strat.b"],
                "window": {"lookback_days": 14},
                "reason": "manual",
                "params": {"retrain": True},
                "trace_id": "trace-1",
                "client_id": "alice",
            },
        }
    }


@pytest.mark.parametrize("fault", [Reply(status=500, after=True), Cut()], ids=["error 500", "no answer"])
async def test_a_start_without_a_known_result_is_repeated_with_the_same_id(
    airflow: AirflowDouble, engine: AirflowEngine, fault: Reply | Cut
) -> None:
    airflow.plan("trigger", fault)

    with pytest.raises(EngineDown):
        await engine.start(batch())
    await engine.start(batch())
    await engine.start(batch())

    assert list(airflow.runs) == [engine.run_id(batch())]


async def test_an_error_500_that_created_nothing_is_repeated(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    airflow.plan("trigger", Reply(status=500))

    with pytest.raises(EngineDown):
        await engine.start(batch())
    assert airflow.runs == {}
    await engine.start(batch())

    assert len(airflow.runs) == 1


async def test_every_state_of_airflow_has_one_of_ours(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    batches = [batch(number) for number in range(1, 8)]
    states = ("queued", "running", "success", "failed", None, "a state of a later version")
    for one, state in zip(batches, states, strict=False):
        await engine.start(one)
        airflow.runs[engine.run_id(one)]["state"] = state

    found = await engine.states(batches)

    assert found == {
        1: BatchState.QUEUED,
        2: BatchState.RUNNING,
        3: BatchState.SUCCEEDED,
        4: BatchState.FAILED,
        5: BatchState.QUEUED,
        6: BatchState.RUNNING,
        7: BatchState.MISSING,
    }


async def test_a_hundred_batches_cost_one_request(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    batches = [batch(number) for number in range(50, 250)]
    airflow.runs = {engine.run_id(one): {"dag_run_id": engine.run_id(one), "state": "success"} for one in batches}

    found = await engine.states(batches)

    assert set(found.values()) == {BatchState.SUCCEEDED}
    assert len(found) == 200
    assert airflow.asked()["states"] == 3


async def test_an_airflow_that_lists_other_runs_is_asked_for_each(
    airflow: AirflowDouble, engine: AirflowEngine
) -> None:
    airflow.knows_patterns = False
    others = [f"scheduled__{number}" for number in range(150)]
    airflow.runs = {run_id: {"dag_run_id": run_id, "state": "success"} for run_id in others}
    await engine.start(batch(1))
    airflow.runs[engine.run_id(batch(1))]["state"] = "success"

    found = await engine.states([batch(1), batch(2)])

    assert found == {1: BatchState.SUCCEEDED, 2: BatchState.MISSING}


async def test_a_scheduler_that_dies_later_is_noticed_while_dag_runs_are_waited_for(
    airflow: AirflowDouble, engine: AirflowEngine, clock: ManualClock
) -> None:
    await engine.start(batch())
    assert await engine.states([batch()]) == {1: BatchState.QUEUED}
    airflow.health["scheduler"]["status"] = "unhealthy"
    clock.pass_time(engine_module.HEALTH_FRESH_SEC)

    with pytest.raises(EngineDown, match="scheduler"):
        await engine.states([batch()])
    airflow.runs[engine.run_id(batch())]["state"] = "success"

    assert await engine.states([batch()]) == {1: BatchState.SUCCEEDED}  # what has ended is never held back


async def ended(airflow: AirflowDouble, engine: AirflowEngine, state: str = "success") -> str:
    await engine.start(batch())
    run_id = engine.run_id(batch())
    airflow.runs[run_id]["state"] = state
    return run_id


RESULT = {"results": [{"strategy": "strat.a", "health": "healthy", "kpi": {"winrate": 0.5}}]}


@pytest.mark.parametrize("value", [RESULT, '{"results": [{"strategy": "strat.a", "health": "healthy"}]}'])
async def test_the_result_of_the_task_report_is_the_outcome(
    airflow: AirflowDouble, engine: AirflowEngine, value: Any
) -> None:
    airflow.xcoms[await ended(airflow, engine)] = value

    outcome = await engine.outcome(batch())

    assert outcome.error is None
    assert [(one.strategy, one.health) for one in outcome.results] == [
        ("strat.a", Health.HEALTHY),
        ("strat.b", Health.UNKNOWN),
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"results": [{"strategy": "strat.x"}]}, "not a strategy of this batch"),
        ([], "Expected"),
        ("no JSON", "not JSON"),
        ("x" * 100_000, "more than 65536 bytes"),
    ],
    ids=["a foreign strategy", "another form", "no JSON", "too large"],
)
async def test_a_result_that_cannot_be_used_fails_the_batch(
    airflow: AirflowDouble, engine: AirflowEngine, value: Any, problem: str
) -> None:
    airflow.xcoms[await ended(airflow, engine)] = value

    outcome = await engine.outcome(batch())

    assert outcome.error is not None
    assert problem in outcome.error


async def test_a_result_without_end_is_not_read_to_its_end(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    await ended(airflow, engine)
    airflow.plan("xcom", Endless())

    outcome = await engine.outcome(batch())

    assert outcome.error == "the task report returned more than 65536 bytes"


async def test_a_task_that_returned_nothing_fails_the_batch(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    await ended(airflow, engine)

    outcome = await engine.outcome(batch())

    assert outcome.error is not None
    assert "returned nothing" in outcome.error


async def test_a_failed_dag_run_names_its_failed_tasks(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    run_id = await ended(airflow, engine, "failed")
    airflow.failed_tasks[run_id] = ["load", "report"]

    outcome = await engine.outcome(batch())

    assert outcome.error == f"the DAG run {run_id} failed in Airflow (task load, report)"


async def test_a_cancel_marks_the_dag_run_as_failed_and_may_be_repeated(
    airflow: AirflowDouble, engine: AirflowEngine
) -> None:
    run_id = await ended(airflow, engine, "running")

    await engine.cancel(batch())
    await engine.cancel(batch())

    assert airflow.runs[run_id]["state"] == "failed"
    assert await engine.states([batch()]) == {1: BatchState.FAILED}


async def test_a_cancel_leaves_a_dag_run_alone_that_has_succeeded(
    airflow: AirflowDouble, engine: AirflowEngine
) -> None:
    run_id = await ended(airflow, engine)

    await engine.cancel(batch())
    await engine.cancel(batch(2))  # never started

    assert airflow.runs[run_id]["state"] == "success"
    assert list(airflow.runs) == [run_id]


async def test_a_dag_run_that_airflow_refuses_for_good_is_a_failed_batch(
    airflow: AirflowDouble, engine: AirflowEngine
) -> None:
    airflow.plan("trigger", Reply(status=400, body=b'{"detail": "Invalid input for param window"}'))

    await engine.start(batch())

    assert await engine.states([batch()]) == {1: BatchState.FAILED}
    outcome = await engine.outcome(batch())
    assert outcome.error is not None
    assert outcome.error.endswith("(400): Invalid input for param window")


async def test_a_batch_waits_for_a_dag_that_cannot_be_imported(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    assert airflow.dag is not None
    airflow.dag["has_import_errors"] = True

    with pytest.raises(EngineMisconfigured, match="cannot be imported"):
        await engine.start(batch())
    airflow.dag["has_import_errors"] = False
    await engine.start(batch())

    assert await engine.states([batch()]) == {1: BatchState.QUEUED}


async def test_a_check_is_asked_of_airflow_once_a_second_at_most(
    airflow: AirflowDouble, engine: AirflowEngine, clock: ManualClock
) -> None:
    await engine.check()
    await engine.check()
    assert airflow.asked() == {"login": 1, "dag": 1, "health": 1}
    clock.pass_time(engine_module.CHECK_FRESH_SEC)
    await engine.check()

    assert airflow.asked() == {"login": 1, "dag": 2, "health": 2}


@pytest.mark.parametrize(
    ("dag", "problem"),
    [
        (None, "has no DAG pdca_recheck"),
        ({"is_paused": False, "is_stale": True}, "has no DAG pdca_recheck"),
        ({"is_paused": True}, "is paused"),
        ({"is_paused": False, "has_import_errors": True}, "cannot be imported"),
    ],
    ids=["missing", "removed", "paused", "broken"],
)
async def test_a_dag_that_cannot_run_is_an_error_of_its_own(
    airflow: AirflowDouble, engine: AirflowEngine, dag: dict[str, Any] | None, problem: str
) -> None:
    airflow.dag = dag

    with pytest.raises(EngineMisconfigured, match=problem):
        await engine.check()


@pytest.mark.parametrize("part", ["scheduler", "metadatabase"])
@pytest.mark.parametrize("status", ["unhealthy", None])
async def test_an_airflow_that_is_not_healthy_counts_as_down(
    airflow: AirflowDouble, engine: AirflowEngine, part: str, status: str | None
) -> None:
    airflow.health[part]["status"] = status

    with pytest.raises(EngineDown, match="not healthy"):
        await engine.check()


async def test_a_failed_check_is_not_remembered(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    airflow.health["scheduler"]["status"] = "unhealthy"
    with pytest.raises(EngineDown):
        await engine.check()

    airflow.health["scheduler"]["status"] = "healthy"

    await engine.check()


@pytest.mark.parametrize("endpoint", ["login", "dag", "health"])
async def test_a_check_ends_in_time_when_airflow_is_silent(
    airflow: AirflowDouble, engine: AirflowEngine, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "CHECK_TIMEOUT_SEC", 0.2)
    airflow.plan(endpoint, Hold(airflow.stopping))

    with pytest.raises(EngineDown, match="in time"):
        await engine.check()


DEEP = b"[" * 900 + b"]" * 900
HOSTILE: dict[str, Reply | Endless] = {
    "an error page": Reply(body=b"<html><h1>502 Bad Gateway</h1></html>", headers={"Content-Type": "text/html"}),
    "ten megabytes": Reply(body=b'{"value": "' + b"x" * 10_000_000 + b'"}'),
    "without end": Endless(),
    "deep": Reply(body=b'{"detail": %b, "value": %b, "dag_runs": %b}' % (DEEP, DEEP, DEEP)),
    "too deep": Reply(body=b'{"value": ' + b"[" * 30_000),
    "a refusal that is deep": Reply(status=422, body=b'{"detail": %b}' % DEEP),
    "a refusal with a number without end": Reply(status=422, body=b'{"detail": {"ctx": %b}}' % (b"9" * 4000)),
    "a refusal with terminal escapes": Reply(status=400, body=b'{"detail": "\\u001b[31mred\\r\\nforged line"}'),
    "a refusal without text": Reply(status=400, body=b"\xff\xfe"),
    "half a character": Reply(body=b'{"value": "\\ud800", "detail": "\\ud800", "state": "\\udfff"}'),
    "other types": Reply(body=b'{"dag_runs": [null, 1, "x"], "total_entries": "many", "task_instances": {}}'),
    "more than there is": Reply(body=b'{"dag_runs": [], "total_entries": 99999999999999999999}'),
    "another encoding": Reply(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
    "a redirect": Reply(status=308, headers={"Location": "http://169.254.169.254/"}),
}


@pytest.mark.parametrize("endpoint", ["login", "dag", "trigger", "states", "health", "run", "xcom", "tasks", "cancel"])
@pytest.mark.parametrize("fault", HOSTILE.values(), ids=HOSTILE)
async def test_whatever_airflow_answers_is_an_outage_or_the_end_of_a_batch(
    airflow: AirflowDouble, engine: AirflowEngine, endpoint: str, fault: Reply | Endless
) -> None:
    one, failed = batch(1), batch(2)
    airflow.runs = {
        engine.run_id(each): {"dag_run_id": engine.run_id(each), "state": state}
        for each, state in ((one, "success"), (failed, "failed"), (batch(3), "running"))
    }
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "login": lambda: engine.outcome(one),
        "run": lambda: engine.outcome(one),
        "xcom": lambda: engine.outcome(one),
        "dag": engine.check,
        "health": engine.check,
        "trigger": lambda: engine.start(batch(4)),
        "states": lambda: engine.states([one, failed, batch(4)]),
        "tasks": lambda: engine.outcome(failed),
        "cancel": lambda: engine.cancel(batch(3)),
    }
    airflow.plan(endpoint, fault)

    with suppress(EngineDown):
        await calls[endpoint]()
    outcome = await engine.outcome(batch(4))

    assert airflow.asked()[endpoint] >= 1
    assert outcome.error is not None
    assert outcome.error.isprintable()
    assert len(outcome.error) < 400


async def test_names_of_tasks_are_one_line(airflow: AirflowDouble, engine: AirflowEngine) -> None:
    run_id = await ended(airflow, engine, "failed")
    airflow.failed_tasks[run_id] = ["\x1b[31mred\r\n", "x" * 5000]

    outcome = await engine.outcome(batch())

    assert outcome.error == f"the DAG run {run_id} failed in Airflow (task  [31mred  , {'x' * 100})"


TRACE_ID, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_background_calls_are_spans_of_the_trace_of_their_request(
    airflow: AirflowDouble, clock: ManualClock
) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter, "test", TraceLimit(0))
    config = NatsBackendConfig(airflow_url=airflow.url, airflow_user=USER, airflow_password=PASSWORD)
    engine = AirflowEngine(config, clock, Counters(), tracing)
    recorded = structs.replace(batch(1), trace=(f"00-{TRACE_ID}-{CALLER}-01", "vendor=1"))
    unrecorded = structs.replace(batch(2), trace=(f"00-{TRACE_ID}-{CALLER}-00", None))

    for one in (recorded, unrecorded, batch(3)):
        await engine.start(one)
        await engine.states([one])
        await engine.outcome(one)
        await engine.cancel(one)

    await engine.close()
    await tracing.close()
    spans = exporter.get_finished_spans()
    assert [span.name.removeprefix("airflow ") for span in spans] == [
        *("login", "trigger"),
        *("states", "health"),
        *("run", "xcom"),
        *("run", "cancel"),
    ]
    assert {format_trace_id(span.context.trace_id) for span in spans} == {TRACE_ID}
    assert {format_span_id(span.parent.span_id) for span in spans if span.parent} == {CALLER}
    first, second, third = (run["conf"] for run in airflow.runs.values())
    assert (first["traceparent"], first["tracestate"]) == recorded.trace
    assert second["traceparent"] == f"00-{TRACE_ID}-{CALLER}-00"
    assert not {"traceparent", "tracestate"} & third.keys()
