"""One call of every operation of the HTTP API, on a gateway with access control, for its examples."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import httpx
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from pyoco_server.domain.pdca.ids import run_id_of
from pyoco_server.domain.pdca.recheck import BATCH_FLOW
from pyoco_server.worker import PyocoNatsWorker
from support.conformance import document
from support.executions import NODE, WAIT_KEY
from support.flow_files import TWO_TASKS
from support.gateways import FINISHED, wait_for_status
from support.rechecks import BODY, BODY_FOR_ALL, ONE, key
from support.runners import began, declared, succeeded
from support.wheels import NAME, wheel
from support.workers import at_work

PATIENCE_SEC = 30.0
Answers = dict[tuple[str, int], list[Any]]
RELEASE = {"nodes": ["build", "approve"], "edges": [["build", "approve"]]}
REPORT = AnnouncedFlow(
    name="report",
    nodes=("load", "write"),
    edges=(("load", "write"),),
    params=(("year", True), ("title", False)),
    takes_others=False,
)


def load(year: int = 2026) -> int:
    print("42 rows of", year)  # noqa: T201 - the log of the run
    if year < 2000:
        raise ValueError(f"no data for {year}")
    return 42


def recheck(strategies: list[str]) -> dict[str, Any]:
    kpi = {"winrate": 0.55, "sharpe": 1.2, "max_dd": 0.08}
    report = {"name": "report.json", "media_type": "application/json", "text": '{"health": "healthy"}'}
    return {
        "results": [{"strategy": one, "health": "healthy", "kpi": kpi} for one in strategies],
        "reports": [report],
    }


def resolve(name: str) -> Flow:
    if name == BATCH_FLOW:
        return Flow(name) >> TaskWrapper(Task(func=recheck, name="report"))
    return Flow(name) >> TaskWrapper(Task(func=load, name="load"))


class Tour:
    """Sends requests and keeps the JSON answers by operation and status."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.answers: Answers = defaultdict(list)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        response = await self._client.request(method, path, **more)
        assert response.is_success, response.text
        found = document().operation(method, path.partition("?")[0])
        assert found is not None, path
        if not response.headers.get("content-type", "").startswith("application/json"):
            return None
        body = response.json()
        self.answers[f"{method} {found[0]}", response.status_code].append(body)
        return body

    async def until(self, path: str) -> None:
        """Returns as soon as this is found."""
        async with asyncio.timeout(PATIENCE_SEC):
            while not (await self._client.get(path)).is_success:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)

    async def has_finished(self, run_id: str) -> bool:
        return (await self._client.get(f"/runs/{run_id}")).json()["status"] in FINISHED

    async def command(self, path: str, body: Any = None) -> Any:
        """Twice with the same key: 202, and 200 with the same receipt."""
        key = {"Idempotency-Key": f"tour {path}"}
        sent = {} if body is None else {"json": body}
        await self.ask("POST", path, headers=key, **sent)
        return await self.ask("POST", path, headers=key, **sent)


async def every_operation(client: httpx.AsyncClient, config: NatsBackendConfig) -> Answers:
    tour = Tour(client)
    await tour.until("/ready")
    for path in ("/health", "/ready", "/whoami"):
        await tour.ask("GET", path)
    async with open_stores(config, name="tour") as stores:
        announcement = FlowAnnouncement(flows=(REPORT,), is_complete=True)
        async with at_work(stores, config, name="worker-1", announcement=announcement) as working:
            await _fleet(tour)
            # A run at work, with its tasks.
            accepted = await tour.ask("POST", "/runs", json={"flow_name": "report", "params": {"year": 2026}})
            runner = await working.executor.begun()
            runner.say(declared("load", "write"), began("load"))
            await wait_for_status(client, accepted["run_id"], "RUNNING")
            await tour.ask("GET", f"/runs/{accepted['run_id']}")
            await tour.ask("GET", f"/runs/{accepted['run_id']}/explain")
            await tour.ask("PATCH", "/workers/worker-1", json={"hidden": True})
            runner.end("completed", succeeded("load", 42), began("write"), succeeded("write"), results=("write",))
            await wait_for_status(client, accepted["run_id"], *FINISHED)
    async with await PyocoNatsWorker.connect(config, resolve, "worker-2", ["default"]) as worker:
        await _runs(tour, worker)
        await _jobs(tour, worker)
        await _rechecks(tour, worker)
    await _executions(tour)
    await _wheels(tour)
    await tour.ask("GET", "/overview")
    await tour.ask("GET", "/stats", params={"points": 1})
    await tour.ask("GET", "/audit", params={"action": "run.create", "limit": 1})
    return tour.answers


async def _rechecks(tour: Tour, worker: PyocoNatsWorker) -> None:
    path, strategy = f"/pdca/strategies/{ONE}", {"title": "Mean reversion", "instrument": "USDJPY", "tags": ["daily"]}
    for changed in (strategy, strategy | {"title": "Mean reversion, one minute"}):
        await tour.ask("PUT", path, json=changed)
    await tour.ask("POST", "/pdca/recheck_all", json=dict(BODY_FOR_ALL) | {"dry_run": True}, headers=key())
    accepted = await tour.ask("POST", "/pdca/recheck", json=dict(BODY), headers=key())
    request_id = accepted["request_id"]
    async with asyncio.timeout(PATIENCE_SEC):
        while not await tour.has_finished(run_id_of(request_id)):
            await worker.run_once(timeout=0.2)
    shown = await tour.ask("GET", f"/pdca/recheck/{request_id}")
    await tour.ask("GET", f"/gui/requests/{request_id}")
    link = await tour.ask("GET", f"/gui/artifacts/{shown['artifacts'][0]['id']}/url")
    await tour.ask("GET", link["url"])
    for listed in ("/gui/strategies", f"/gui/strategies/{ONE}", f"/gui/strategies/{ONE}/results"):
        await tour.ask("GET", listed)
    await tour.ask("DELETE", path)


async def _fleet(tour: Tour) -> None:
    await tour.until("/flows/report")
    for path in ("/workers", "/flows", "/flows/report"):
        await tour.ask("GET", path)


async def _done(tour: Tour, worker: PyocoNatsWorker, run_id: str) -> None:
    """Lets the worker take jobs until this run has finished: others may be queued before it."""
    async with asyncio.timeout(PATIENCE_SEC):
        while not await tour.has_finished(run_id):
            await worker.run_once(timeout=1.0)


async def _runs(tour: Tour, worker: PyocoNatsWorker) -> None:
    run = {"flow_name": "report", "params": {"year": 2026}, "tags": ["nightly"]}
    run_id = (await tour.ask("POST", "/runs", json=run))["run_id"]
    await _done(tour, worker, run_id)
    for path in ("", "/tasks", "/logs", "/explain"):
        await tour.ask("GET", f"/runs/{run_id}{path}")
    await tour.ask("GET", f"/runs/{run_id}/logs/matches", params={"q": "rows"})
    await tour.ask("GET", f"/runs/{run_id}", params={"include": "full"})
    await tour.ask("POST", f"/runs/{run_id}/rerun", json={})
    files = {"workflow": ("flow.yaml", TWO_TASKS, "application/yaml")}
    sent = await tour.ask("POST", "/runs/yaml", data={"flow_name": "main"}, files=files)
    await tour.ask("POST", f"/runs/{sent['run_id']}/cancel", json={"reason": "wrong input"})
    await tour.ask("GET", "/runs")
    await tour.ask("GET", "/runs", params={"cursor": "", "limit": 1})
    failing = await tour.ask("POST", "/runs", json={"flow_name": "report", "params": {"year": 1999}})
    await _done(tour, worker, failing["run_id"])
    (letter,) = (await tour.ask("GET", "/dlq"))["items"]
    await tour.ask("POST", f"/dlq/{letter['seq']}/replay")


async def _jobs(tour: Tour, worker: PyocoNatsWorker) -> None:
    job = {"flow": "report", "parameters": {"year": 2026}, "tags": ["nightly"]}
    job_id = (await tour.ask("POST", "/jobs", json=job))["id"]
    await tour.ask("GET", f"/jobs/{job_id}")
    await tour.ask("POST", f"/jobs/{job_id}/tags", json={"tag": "reviewed"})
    await tour.ask("GET", f"/jobs/{job_id}/tags")
    await tour.ask("POST", f"/jobs/{job_id}/ws-ticket")
    await _done(tour, worker, job_id)
    await tour.ask("GET", f"/jobs/{job_id}")
    await tour.ask("GET", f"/jobs/{job_id}/logs")
    await tour.ask("GET", "/jobs")
    await tour.ask("GET", "/tags")


async def _executions(tour: Tour) -> None:
    for _ in range(2):
        await tour.ask("PUT", "/graphs/release", json=RELEASE)
    await tour.ask("GET", "/graphs/release")
    await tour.ask("GET", "/graphs")
    created: dict[str, str] = {}
    for name in ("served", "completed", "failed", "cancelled"):
        graph = "release" if name == "served" else "open"
        for _ in range(2):
            sent = {"graphId": graph, "input": {"version": "1.4.0"}}
            key = {"Idempotency-Key": f"tour {name}"}
            created[name] = (await tour.ask("POST", "/executions", json=sent, headers=key))["executionId"]
        await tour.command(f"/executions/{created[name]}/start")
    node = f"/executions/{created['completed']}/nodes/{NODE}"
    await tour.command(f"{node}/start", {"attempt": 1, "workerId": "worker-1"})
    await tour.command(f"{node}/progress", {"progress": 42, "message": "copying"})
    await tour.command(f"{node}/wait", {"waitKey": WAIT_KEY, "prompt": {"title": "Deploy 1.4.0?"}})
    await tour.ask("GET", "/waits")
    await tour.ask("GET", f"/executions/{created['completed']}")
    await tour.command(f"{node}/resume", {"resumeKey": WAIT_KEY})
    await tour.command(f"{node}/success", {"output": {"approvedBy": "ann"}})
    await tour.command(f"/executions/{created['completed']}/complete")
    await tour.command(f"/executions/{created['completed']}/archive")
    failing = f"/executions/{created['failed']}"
    error = {"error": {"code": "ERR_TIMEOUT", "message": "no answer in 30 s"}}
    await tour.command(f"{failing}/nodes/{NODE}/start", {"attempt": 1, "workerId": "worker-1"})
    await tour.command(f"{failing}/nodes/{NODE}/fail", error)
    await tour.command(f"{failing}/fail", error)
    await tour.command(f"/executions/{created['cancelled']}/cancel", {"reason": "superseded by 1.4.1"})
    claim = {"graphIds": ["release"], "workerId": "worker-1"}
    await tour.ask("POST", "/executions:claim", json=claim, headers={"Idempotency-Key": "tour claim"})
    await tour.ask("GET", f"/executions/{created['served']}")
    await tour.ask("GET", f"/executions/{created['served']}/events")
    await tour.ask("GET", "/executions")


async def _wheels(tour: Tour) -> None:
    files = {"wheel": (NAME, wheel(), "application/octet-stream")}
    await tour.ask("POST", "/wheels", files=files, data={"tags": "gpu"})
    await tour.ask("GET", "/wheels")
    await tour.ask("DELETE", f"/wheels/{NAME}")
    await tour.ask("GET", "/wheels/history")
