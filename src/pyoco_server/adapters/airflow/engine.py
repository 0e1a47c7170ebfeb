"""Runs batches as DAG runs of Airflow 3: `BatchEngine`.

The id of a DAG run follows from request and batch, so a repeated start is a 409, which means that it exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote

import msgspec

from pyoco_server.adapters.airflow.client import AirflowClient, Answer, Call, in_one_line
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import ulid_of
from pyoco_server.domain.pdca.outcome import MAX_RETURN_BYTES, read_outcome, read_outcome_json
from pyoco_server.domain.pdca.recheck import Batch, batch_params
from pyoco_server.errors import EngineDown, EngineMisconfigured
from pyoco_server.ports import Clock
from pyoco_server.ports.pdca import BatchOutcome, BatchState
from pyoco_server.services.context import Counters
from pyoco_server.tracing.spans import Recorder, joined

CHECK_TIMEOUT_SEC = 3.0
# However many requests are accepted, Airflow is asked once in this time.
CHECK_FRESH_SEC = 1.0
# The same for its health, while DAG runs are waited for.
HEALTH_FRESH_SEC = 5.0
# Airflow has limits of its own (max_active_runs); further batches would only wait there, and a cancel ends each.
BATCHES_IN_AIRFLOW = 100
REPORT_TASK = "report"
# The most that Airflow lists at a time: as many DAG runs as begin with the same two digits of the batch.
RUNS_PER_LIST = 100
# A hundred DAG runs with the ids of a hundred strategies each, 128 characters long, and all else about them.
MAX_LIST_BYTES = 4 * 1024 * 1024
# Around the value of an XCom.
ENVELOPE_BYTES = 8 * 1024
MAX_DAG_BYTES = 256 * 1024
MAX_REFUSED = 10_000
MAX_NAMED_TASKS = 5

_STATES = {
    "queued": BatchState.QUEUED,
    "running": BatchState.RUNNING,
    "success": BatchState.SUCCEEDED,
    "failed": BatchState.FAILED,
}
_FINISHED = (BatchState.SUCCEEDED, BatchState.FAILED)


class _Dag(msgspec.Struct):
    is_paused: bool
    is_stale: bool = False
    has_import_errors: bool = False


class _Component(msgspec.Struct):
    status: str | None = None


class _Health(msgspec.Struct):
    metadatabase: _Component
    scheduler: _Component


class _DagRun(msgspec.Struct):
    dag_run_id: str
    state: str | None = None

    @property
    def batch_state(self) -> BatchState:
        # A state that a later Airflow adds is none of the final ones.
        return _STATES.get(self.state or "queued", BatchState.RUNNING)


class _DagRuns(msgspec.Struct):
    dag_runs: list[_DagRun]
    total_entries: int = 0


class _TaskInstance(msgspec.Struct):
    task_id: str


class _TaskInstances(msgspec.Struct):
    task_instances: list[_TaskInstance]


class _XCom(msgspec.Struct):
    value: Any = None


class AirflowEngine:
    """One DAG run per batch."""

    def __init__(
        self, config: NatsBackendConfig, clock: Clock, counters: Counters, recorder: Recorder | None = None
    ) -> None:
        self.client = AirflowClient(config, clock, counters)
        self._recorder = recorder
        self._clock = clock
        self._poll_interval_sec = config.airflow_poll_interval_sec
        self._dag_id = config.airflow_dag_id
        self._dag_path = f"/api/v2/dags/{quote(self._dag_id, safe='')}"
        self._check_lock = asyncio.Lock()
        self._checked_at = self._healthy_at = float("-inf")
        # Batches that Airflow will never run, with the reason; a gateway that starts again asks again.
        self._refused: dict[str, str] = {}

    async def close(self) -> None:
        await self.client.close()

    @property
    def name(self) -> str:
        return self._dag_id

    @property
    def concurrency(self) -> int:
        return BATCHES_IN_AIRFLOW

    @property
    def poll_interval_sec(self) -> float:
        return self._poll_interval_sec

    async def check(self) -> None:
        deadline = asyncio.get_running_loop().time() + CHECK_TIMEOUT_SEC
        try:
            async with asyncio.timeout_at(deadline):
                await self._check_lock.acquire()
        except TimeoutError:
            raise EngineDown("Airflow did not answer in time") from None
        try:
            if self._clock.monotonic() - self._checked_at < CHECK_FRESH_SEC:
                return
            await self._check_dag(deadline)
            await self._check_health(deadline)
            self._checked_at = self._clock.monotonic()
        finally:
            self._check_lock.release()

    async def _check_health(self, deadline: float | None) -> None:
        health = (await self._get("health", "/api/v2/monitor/health", deadline)).read(_Health)
        # Without its scheduler, Airflow answers as ever and its DAG runs stay queued.
        for part, found in (("scheduler", health.scheduler), ("database", health.metadatabase)):
            if found.status != "healthy":
                raise EngineDown(f"the {part} of Airflow is not healthy")
        self._healthy_at = self._clock.monotonic()

    async def _check_dag(self, deadline: float | None) -> None:
        answer = await self._get("dag", self._dag_path, deadline, max_bytes=MAX_DAG_BYTES)
        dag = None if answer.status == 404 else answer.read(_Dag)
        if dag is None or dag.is_stale:
            raise self._dag_missing()
        if dag.has_import_errors:
            raise EngineMisconfigured(f"the DAG {self._dag_id} cannot be imported; Airflow shows the errors")
        if dag.is_paused:
            raise EngineMisconfigured(f"the DAG {self._dag_id} is paused in Airflow; unpause it there")

    def run_id(self, batch: Batch) -> str:
        return f"{_prefix(batch.request_id)}{batch.number:04}"

    async def start(self, batch: Batch) -> None:
        with self._in_trace_of(batch):
            await self._start(batch)

    async def _start(self, batch: Batch) -> None:
        run_id = self.run_id(batch)
        body = {"dag_run_id": run_id, "logical_date": None, "conf": _conf(batch)}
        answer = await self.client.call(
            Call(endpoint="trigger", method="POST", path=f"{self._dag_path}/dagRuns", body=body)
        )
        if answer.is_success or answer.status == 409:
            self._refused.pop(run_id, None)
            return
        # A DAG that is missing or broken is put right by an operator, and the batch then runs.
        await self._check_dag(None)
        while len(self._refused) >= MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        reason = self.client.reason_of(answer)
        self._refused[run_id] = f"Airflow refused the DAG run {run_id} ({answer.status}): {reason}"

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        if not batches:
            return {}
        with self._in_trace_of(batches[0]):
            return await self._states(batches)

    async def _states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        hundreds: dict[str, list[Batch]] = {}
        for batch in batches:
            hundreds.setdefault(self.run_id(batch)[:-2], []).append(batch)
        found: dict[int, BatchState] = {}
        for prefix, those in hundreds.items():
            states = await self._listed(prefix, {self.run_id(batch) for batch in those})
            found |= {batch.number: self._state(states, self.run_id(batch)) for batch in those}
        nothing_ends = not any(state in _FINISHED for state in found.values())
        if nothing_ends and self._clock.monotonic() - self._healthy_at >= HEALTH_FRESH_SEC:
            await self._check_health(None)
        return found

    def _state(self, states: Mapping[str, BatchState], run_id: str) -> BatchState:
        return states.get(run_id, BatchState.FAILED if run_id in self._refused else BatchState.MISSING)

    async def _listed(self, prefix: str, wanted: Iterable[str]) -> dict[str, BatchState]:
        """The states of those DAG runs among the wanted that begin with the prefix and exist."""
        # Later versions find the prefix by an index; earlier ones know the pattern only.
        query = {"run_id_prefix_pattern": prefix, "run_id_pattern": prefix, "limit": str(RUNS_PER_LIST)}
        answer = await self._get("states", f"{self._dag_path}/dagRuns", None, query=query, max_bytes=MAX_LIST_BYTES)
        if answer.status == 404:
            raise self._dag_missing()
        listed = answer.read(_DagRuns)
        states = {run.dag_run_id: run.batch_state for run in listed.dag_runs}
        if listed.total_entries > len(listed.dag_runs):
            # An Airflow without these filters lists other runs, too.
            for run_id in set(wanted) - states.keys():
                if (run := await self._run(run_id)) is not None:
                    states[run_id] = run.batch_state
        return states

    async def _run(self, run_id: str) -> _DagRun | None:
        answer = await self._get("run", self._run_path(run_id), None)
        return None if answer.status == 404 else answer.read(_DagRun)

    async def outcome(self, batch: Batch) -> BatchOutcome:
        with self._in_trace_of(batch):
            return await self._outcome(batch)

    async def _outcome(self, batch: Batch) -> BatchOutcome:
        run_id = self.run_id(batch)
        run = await self._run(run_id)
        if run is None:
            refusal = self._refused.pop(run_id, None)
            return BatchOutcome(error=refusal or f"the DAG run {run_id} is not in Airflow any more")
        if run.batch_state is BatchState.FAILED:
            return BatchOutcome(error=await self._why_failed(run_id))
        path = f"{self._run_path(run_id)}/taskInstances/{REPORT_TASK}/xcomEntries/return_value"
        query = {"deserialize": "false"}
        answer = await self._get("xcom", path, None, query=query, max_bytes=MAX_RETURN_BYTES + ENVELOPE_BYTES)
        if answer.status == 404:
            return BatchOutcome(error=f"the task {REPORT_TASK} of the DAG run {run_id} returned nothing")
        if answer.is_cut:
            return BatchOutcome(error=f"the task {REPORT_TASK} returned more than {MAX_RETURN_BYTES} bytes")
        value = answer.read(_XCom).value
        # A task may return the text of the JSON as well.
        return read_outcome_json(value.encode(), batch) if isinstance(value, str) else read_outcome(value, batch)

    async def _why_failed(self, run_id: str) -> str:
        query = {"state": "failed", "limit": str(MAX_NAMED_TASKS)}
        path = f"{self._run_path(run_id)}/taskInstances"
        answer = await self._get("tasks", path, None, query=query, max_bytes=MAX_DAG_BYTES)
        tasks = answer.read(_TaskInstances).task_instances if answer.is_success else []
        named = f" (task {', '.join(in_one_line(task.task_id[:100]) for task in tasks)})" if tasks else ""
        return f"the DAG run {run_id} failed in Airflow{named}"

    async def cancel(self, batch: Batch) -> None:
        with self._in_trace_of(batch):
            await self._cancel(self.run_id(batch))

    async def _cancel(self, run_id: str) -> None:
        run = await self._run(run_id)
        # A DAG run that has succeeded would be marked as failed.
        if run is None or run.batch_state in _FINISHED:
            return
        mark = {"state": "failed"}
        answer = await self.client.call(
            Call(endpoint="cancel", method="PATCH", path=self._run_path(run_id), body=mark, max_bytes=MAX_DAG_BYTES)
        )
        if answer.status != 404:
            answer.read(_DagRun)

    async def _get(
        self,
        endpoint: str,
        path: str,
        deadline: float | None,
        *,
        query: Mapping[str, str] | None = None,
        max_bytes: int = MAX_DAG_BYTES,
    ) -> Answer:
        call = Call(endpoint=endpoint, path=path, query=query or {}, max_bytes=max_bytes)
        return await self.client.call(call, deadline=deadline)

    def _in_trace_of(self, batch: Batch) -> AbstractContextManager[None]:
        """The calls within are for this batch: they are spans of the trace of its request."""
        return joined(batch.trace, self._recorder)

    def _run_path(self, run_id: str) -> str:
        return f"{self._dag_path}/dagRuns/{run_id}"

    def _dag_missing(self) -> EngineMisconfigured:
        return EngineMisconfigured(
            f"Airflow has no DAG {self._dag_id}; put it into its dags folder, or set PYOCO_AIRFLOW_DAG_ID"
        )


def _conf(batch: Batch) -> dict[str, Any]:
    """What a flow gets, and the trace that the spans of the DAG's tasks can join."""
    traceparent, tracestate = batch.trace or (None, None)
    trace = {"traceparent": traceparent, "tracestate": tracestate}
    return batch_params(batch) | {name: value for name, value in trace.items() if value is not None}


def _prefix(request_id: RunId) -> str:
    return f"pyoco.{ulid_of(request_id)}."
