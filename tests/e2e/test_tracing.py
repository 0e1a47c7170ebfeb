"""Traces of real processes, received by a collector that parses OpenTelemetry's official protobuf."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.domain.pdca.ids import run_id_of
from support.airflow_double import PASSWORD, USER, airflow_double
from support.collector import Collector, ReceivedSpan, collecting
from support.processes import port_of, reserve_port
from support.programs import Program, connected, run_of, until, up, worker

FLOWS = Path(__file__).with_name("traced_flows.py")
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
SECRET = "do-not-trace-4711"
QUICK = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.4"}
TRACE_ID, CALLER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


def submit(client: httpx.Client, flow_name: str = "traced", headers: Any = None, **params: str) -> str:
    answer = client.post("/runs", json={"flow_name": flow_name, "params": {"secret": SECRET} | params}, headers=headers)
    run_id: str = answer.raise_for_status().json()["run_id"]
    return run_id


def ended(client: httpx.Client, run_id: str) -> dict[str, Any]:
    return until(lambda: run_of(client, run_id), lambda run: run["status"] in ("COMPLETED", "FAILED", "CANCELLED"))


def traced_up(folder: Path, env: dict[str, str]) -> Program:
    return up(folder, "--with-worker", "--flow-resolver", f"{FLOWS}:resolve", env=env)


def traced_worker(name: str, folder: Path, env: dict[str, str]) -> Program:
    where = ("--data-dir", "data", "--worker-id", name, "--flow-resolver", f"{FLOWS}:resolve", "--concurrency", "1")
    return worker(*where, cwd=folder, env=env)


def below(spans: list[ReceivedSpan], parent: ReceivedSpan) -> dict[str, ReceivedSpan]:
    """The children of a span, by name."""
    return {span.name: span for span in spans if span.parent_id == parent.span_id}


def test_a_submit_is_one_trace_from_the_caller_to_the_tasks(tmp_path: Path, collector: Collector) -> None:
    env = collector.settings(OTEL_EXPORTER_OTLP_HEADERS=f"authorization={SECRET}")
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01", "tracestate": "vendor=1"}
    with traced_up(tmp_path, env) as program, connected(program) as client:
        run_id = submit(client, headers=headers)
        ended(client, run_id)
        attempt = collector.wait_for_span("attempt traced", run_id=run_id)
        entry = collector.wait_for_span("POST /runs")
        printed = client.get(f"/runs/{run_id}/logs").json()

    spans = [span for span in collector.spans() if span.trace_id == TRACE_ID]
    children, tasks = below(spans, entry), below(spans, attempt)
    assert (entry.parent_id, entry.kind, entry.service) == (CALLER_SPAN, SERVER, "pyoco-server")
    assert {"append PYOCO_EVENTS", "put KV_pyoco_runs", "publish pyoco.work.default"} <= children.keys()
    publish = children["publish pyoco.work.default"]
    assert (publish.kind, attempt.kind, attempt.service) == (PRODUCER, CONSUMER, "pyoco-worker")
    assert attempt.parent_id == publish.span_id
    assert {"task first", "task second", "append PYOCO_EVENTS"} <= tasks.keys()
    assert tasks["task first"].ended_ns <= tasks["task second"].ended_ns
    assert attempt.attributes["pyoco.status"] == "COMPLETED"
    assert entry.attributes["http.route"] == "/runs"
    assert entry.attributes["http.response.status_code"] == 200
    assert entry.attributes["pyoco.client_id"] == "anonymous"
    # What code of the user in the task, and the programs that it starts, find.
    text = str(printed)
    assert f"span {TRACE_ID} {tasks['task first'].span_id} sampled=True" in text
    assert f"variables 00-{TRACE_ID}-{attempt.span_id}-01 None" in text


def test_the_batches_of_a_recheck_have_its_trace_and_its_ids(tmp_path: Path, collector: Collector) -> None:
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01", "Idempotency-Key": "traced-recheck"}
    body = {"strategies": ["a"], "window": {"lookback_days": 7}, "reason": "test"}
    with traced_up(tmp_path, collector.settings()) as program, connected(program) as client:
        client.put("/pdca/strategies/a", json={"title": "A", "instrument": "X"}).raise_for_status()
        sent = client.post("/pdca/recheck", json=body, headers=headers | {"X-Correlation-Id": "ann-7"})
        run_id = str(run_id_of(sent.raise_for_status().json()["request_id"]))
        assert ended(client, run_id)["status"] == "COMPLETED"
        attempt = collector.wait_for_span("attempt pdca.recheck")
        entry = collector.wait_for_span("POST /pdca/recheck")
        (batch,) = client.get("/runs", params={"flow": "pdca.recheck"}).json()
        again = client.post("/pdca/recheck", json=body, headers={"Idempotency-Key": "another-recheck"})
        ended(client, str(run_id_of(again.raise_for_status().json()["request_id"])))
        other, _ = client.get("/runs", params={"flow": "pdca.recheck"}).json()
        elsewhere = collector.wait_for_span("attempt pdca.recheck", run_id=other["run_id"])
        printed = client.get(f"/runs/{batch['run_id']}/logs").json()
        events = client.get(f"/executions/{batch['run_id']}/events").json()["items"]

    assert (entry.trace_id, attempt.trace_id, attempt.parent_id) == (TRACE_ID, TRACE_ID, entry.span_id)
    assert (events[0]["requestId"], events[0]["correlationId"]) == (sent.headers["x-request-id"], "ann-7")
    assert f"request {sent.headers['x-request-id']}" in str(printed)
    assert elsewhere.trace_id != TRACE_ID


def test_a_dag_run_and_the_calls_that_start_it_are_in_the_trace_of_the_recheck(
    tmp_path: Path, collector: Collector
) -> None:
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01", "Idempotency-Key": "traced-recheck"}
    body = {"strategies": ["a"], "window": {"lookback_days": 7}, "reason": "test"}
    with airflow_double() as airflow:
        airflow_settings = {
            "PYOCO_AIRFLOW_URL": airflow.url,
            "PYOCO_AIRFLOW_USER": USER,
            "PYOCO_AIRFLOW_PASSWORD": PASSWORD,
        }
        with traced_up(tmp_path, collector.settings() | airflow_settings) as program, connected(program) as client:
            client.put("/pdca/strategies/a", json={"title": "A", "instrument": "X"}).raise_for_status()
            client.post("/pdca/recheck", json=body, headers=headers).raise_for_status()
            entry = collector.wait_for_span("POST /pdca/recheck")
            trigger = collector.wait_for_span("airflow trigger")

    assert (trigger.trace_id, trigger.parent_id) == (TRACE_ID, entry.span_id)
    (dag_run,) = airflow.runs.values()
    assert dag_run["conf"]["traceparent"] == f"00-{TRACE_ID}-{entry.span_id}-01"


def test_spans_have_neither_params_nor_results_nor_messages_of_errors(tmp_path: Path, collector: Collector) -> None:
    env = collector.settings(FASTAPI_OTEL_AUTO_CONFIGURE="true")
    with traced_up(tmp_path, env) as program, connected(program) as client:
        client.post("/runs", json={"flow_name": [SECRET]})
        client.get("/runs", params={"status": SECRET})
        failed, completed = submit(client, "fails"), submit(client)
        assert ended(client, failed)["status"] == "FAILED"
        ended(client, completed)
        attempt = collector.wait_for_span("attempt fails", run_id=failed)
        task = collector.wait_for_span("task fail")
        collector.wait_for_span("attempt traced", run_id=completed)

    assert SECRET not in str(collector.spans())
    assert (task.has_failed, task.attributes["error.type"], task.parent_id) == (True, "ValueError", attempt.span_id)
    assert attempt.has_failed


def test_the_attempt_after_a_killed_worker_is_in_the_trace_of_the_submit(tmp_path: Path, collector: Collector) -> None:
    env, signpost = collector.settings() | QUICK, tmp_path / "go-on"
    with up(tmp_path, env=env) as program, connected(program) as client, traced_worker("a", tmp_path, env) as unlucky:
        run_id = submit(client, path=str(signpost))
        until(lambda: run_of(client, run_id), lambda run: run["tasks"].get("second") == "RUNNING")
        publish = collector.wait_for_span("publish pyoco.work.default", run_id=run_id)
        unlucky.signal(signal.SIGKILL)
        with traced_worker("b", tmp_path, env):
            until(lambda: run_of(client, run_id), lambda run: run["worker_id"] == "b")
            signpost.touch()
            ended(client, run_id)
            second = collector.wait_for_span("attempt traced", run_id=run_id, attempt=2)

    assert (second.trace_id, second.parent_id) == (publish.trace_id, publish.span_id)
    assert second.attributes["pyoco.worker_id"] == "b"


def test_a_killed_runner_leaves_the_failed_span_of_its_task(tmp_path: Path, collector: Collector) -> None:
    env = collector.settings() | QUICK | {"PYOCO_CANCEL_GRACE_PERIOD_SEC": "0"}
    with traced_up(tmp_path, env) as program, connected(program) as client:
        run_id = submit(client, path=str(tmp_path / "never"))
        until(lambda: run_of(client, run_id), lambda run: run["tasks"].get("second") == "RUNNING")
        client.post(f"/runs/{run_id}/cancel").raise_for_status()
        ended(client, run_id)
        attempt = collector.wait_for_span("attempt traced", run_id=run_id)
        task = collector.wait_for_span("task second")

    assert (task.parent_id, task.has_failed) == (attempt.span_id, True)


def test_a_stop_exports_the_last_spans_of_gateway_and_worker(tmp_path: Path, collector: Collector) -> None:
    # An hour between two exports: only the stop can be the reason.
    env = collector.settings(OTEL_BSP_SCHEDULE_DELAY="3600000")
    with traced_up(tmp_path, env) as program, connected(program) as client:
        run_id = submit(client)
        ended(client, run_id)
        before = collector.spans()
        program.signal(signal.SIGTERM)
        program.exit_code()

    names = {(span.service, span.name) for span in collector.spans()}
    assert before == []
    assert {("pyoco-server", "POST /runs"), ("pyoco-worker", "attempt traced")} <= names


def test_a_collector_that_never_answers_neither_delays_requests_nor_the_stop(tmp_path: Path) -> None:
    with reserve_port() as silent:
        silent.listen(1)
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port_of(silent)}", "OTEL_BSP_SCHEDULE_DELAY": "10"}
        with traced_up(tmp_path, env) as program, connected(program) as client:
            runs = [submit(client) for _ in range(5)]
            statuses = [ended(client, run_id)["status"] for run_id in runs]
            program.signal(signal.SIGTERM)
            code = program.exit_code()
            warned = [line for line in program.logs() if line["message"] == "last traces were not exported"]

    assert statuses == ["COMPLETED"] * 5
    assert code == 0
    assert warned


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", f"00-{'0' * 32}-{CALLER_SPAN}-01")],
        [("traceparent", f"00-{TRACE_ID}-{'0' * 16}-01")],
        [("traceparent", f"ff-{TRACE_ID}-{CALLER_SPAN}-01")],
        [("traceparent", f"00-{TRACE_ID}-{CALLER_SPAN}-01-more")],
        [("traceparent", f"00-{TRACE_ID.upper()}-{CALLER_SPAN}-01")],
        [("traceparent", "x" * 4000)],
        [("traceparent", f"00-{TRACE_ID}-{CALLER_SPAN}-01")] * 2,
        [("traceparent", "00-\xff")],
    ],
    ids=["no trace", "no span", "version ff", "longer", "upper case", "long", "twice", "no text"],
)
def test_a_hostile_traceparent_is_ignored(hostile: tuple[Collector, httpx.Client], headers: Any) -> None:
    collector, client = hostile
    answer = client.get("/runs", headers=[(name, value.encode("latin-1")) for name, value in headers])
    request_id = answer.headers["x-request-id"]

    entry = collector.wait_for_span("GET /runs", request_id=request_id)

    assert answer.status_code == 200
    assert (entry.parent_id, entry.trace_id == TRACE_ID) == ("", False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, httpx.Client]]:
    folder = tmp_path_factory.mktemp("hostile")
    with collecting() as collector, up(folder, env=collector.settings()) as program, connected(program) as client:
        yield collector, client


def test_a_caller_cannot_have_more_traces_recorded_than_the_gateway_allows(
    tmp_path: Path, collector: Collector
) -> None:
    env = collector.settings(OTEL_TRACES_SAMPLER="")
    headers = {"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01"}
    with up(tmp_path, env=env) as program, connected(program) as client:
        answered = [client.get("/runs", headers=headers).status_code for _ in range(400)]
        seconds = len({span.started_ns // 10**9 for span in collector.spans()}) + 1
        program.signal(signal.SIGTERM)
        program.exit_code()

    entries = [span for span in collector.spans() if span.name == "GET /runs"]
    assert answered == [200] * 400
    assert 1 <= len(entries) <= 20 * (seconds + 1)


def test_a_sampler_of_the_standard_variables_is_used(tmp_path: Path, collector: Collector) -> None:
    with traced_up(tmp_path, collector.settings(OTEL_TRACES_SAMPLER="always_off")) as program:
        with connected(program) as client:
            run_id = submit(client)
            ended(client, run_id)
            printed = str(client.get(f"/runs/{run_id}/logs").json())
        program.signal(signal.SIGTERM)
        program.exit_code()

    assert collector.spans() == []
    # Tasks learn that the trace is not recorded, and record nothing either.
    assert re.search(r"span [0-9a-f]{32} [0-9a-f]{16} sampled=False", printed)


def test_without_a_collector_the_queue_carries_no_trace(tmp_path: Path) -> None:
    with traced_up(tmp_path, {}) as program, connected(program) as client:
        run_id = submit(client, headers={"traceparent": f"00-{TRACE_ID}-{CALLER_SPAN}-01"})
        run = ended(client, run_id)
        printed = str(client.get(f"/runs/{run_id}/logs").json())

    assert run["status"] == "COMPLETED"
    assert f"span {'0' * 32} {'0' * 16} sampled=False" in printed
    assert "variables None None" in printed
