"""The load on executions: clients that start and cancel them, workers that claim nodes over HTTP, and approvers.

Some node workers go silent, some return after their lease has expired, some are slow but renew it. Node workers and
approvers continue after the last kill until everything has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from chaos.journal import CommandResponse, Journal
from chaos.keyed_client import KeyedClient
from chaos.plan import Plan
from chaos.processes import poll_until

GRAPH_ID = "chaos_graph"
CHOICES = ("go", "stop")
ASK: Mapping[str, Any] = {"question": "Go on?", "choices": list(CHOICES)}
# A fork with an approval in parallel, and a join; one node has few attempts. What follows `extra` runs on `go` only.
GRAPH: Mapping[str, Any] = {
    "nodes": [
        "prepare",
        {"id": "left", "maxAttempts": 2},
        {"id": "right", "params": {"side": "right"}},
        {"id": "approve", "type": "wait", "prompt": ASK, "timeoutSec": 20},
        "extra",
        "more",
        "join",
    ],
    "edges": [
        ["prepare", "left"],
        ["prepare", "right"],
        ["prepare", "approve"],
        ["left", "join"],
        ["right", "join"],
        {"from": "approve", "to": "extra", "when": ["go"]},
        ["extra", "more"],
        ["more", "join"],
    ],
}
CLIENTS, COMMANDERS, NODE_WORKERS, APPROVERS = 8, 2, 10, 2
LEASE_SEC = (2.0, 3.0)
CLAIM_WAIT_SEC = 1.0
# Relative frequencies.
BEHAVIOURS = {"quick": 60, "slow": 10, "silent": 9, "zombie": 9, "waits": 8, "fails": 3}
CANCELLED, NEVER_STARTED = 0.3, 0.05
POLL_SEC = 0.25
# An open graph has the nodes that are started. Path, body and frequency of the random commands to it.
OPEN_GRAPH_ID, OPEN_NODES = "chaos_open", ("a", "b", "100% c?")
ERROR = {"error": {"code": "CHAOS", "message": "on purpose"}}
COMMANDS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "StartNode": ("nodes/{node}/start", {"workerId": "chaos"}, 6),
    "ReportNodeProgress": ("nodes/{node}/progress", {"progress": 42}, 6),
    "SucceedNode": ("nodes/{node}/success", {"output": {}}, 6),
    "PutNodeWaiting": ("nodes/{node}/wait", {"waitKey": "k"}, 3),
    "ResumeNode": ("nodes/{node}/resume", {"resumeKey": "k"}, 3),
    "FailNode": ("nodes/{node}/fail", ERROR, 1),
    "StartExecution": ("start", {}, 1),
    "CompleteExecution": ("complete", {}, 1),
    "FailExecution": ("fail", ERROR, 1),
    "CancelExecution": ("cancel", {}, 1),
    "ArchiveExecution": ("archive", {}, 1),
}
COMMANDS_EACH, CONCURRENT = 24, 4


class ExecutionClient:
    """Creates and starts executions, and cancels some; waits for the final response before the next."""

    def __init__(self, client: KeyedClient, plan: Plan) -> None:
        self._client = client
        self._pause_sec = CLIENTS / plan.executions_per_sec

    async def run(self, until: float) -> None:
        clock, rng = asyncio.get_running_loop().time, self._client.rng
        try:
            while clock() < until:
                await asyncio.sleep(min(rng.expovariate(1 / self._pause_sec), 2 * self._pause_sec))
                await self._one()
        finally:
            await self._client.close()

    async def _one(self) -> None:
        rng = self._client.rng
        created = await self._client.send("CreateExecution", "/executions", {"graphId": GRAPH_ID, "input": {"n": 1}})
        if created is None or not created.is_done:
            return
        execution_id = created.execution_id
        if rng.random() < NEVER_STARTED:
            await self._cancel(execution_id)
            return
        await self._client.send("StartExecution", f"/executions/{execution_id}/start", {}, execution_id=execution_id)
        if rng.random() < CANCELLED:
            await asyncio.sleep(rng.uniform(0, 2.5))
            for _ in range(rng.choice((1, 1, 2))):
                await self._cancel(execution_id)

    async def _cancel(self, execution_id: str) -> None:
        path = f"/executions/{execution_id}/cancel"
        await self._client.send("CancelExecution", path, {"reason": "chaos"}, execution_id=execution_id)


class Commander:
    """Sends random commands to an execution of an open graph, some concurrently. Guards reject many of them."""

    def __init__(self, client: KeyedClient) -> None:
        self._client = client

    async def run(self, until: float) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while clock() < until:
                created = await self._client.send("CreateExecution", "/executions", {"graphId": OPEN_GRAPH_ID})
                if created is not None and created.is_done:
                    await self._command(created.execution_id)
                await asyncio.sleep(POLL_SEC)
        finally:
            await self._client.close()

    async def _command(self, execution_id: str) -> None:
        await self._send(execution_id, "StartExecution")
        weights = [weight for _, _, weight in COMMANDS.values()]
        for _ in range(COMMANDS_EACH // CONCURRENT):
            commands = self._client.rng.choices(list(COMMANDS), weights, k=CONCURRENT)
            await asyncio.gather(*(self._send(execution_id, command) for command in commands))
        await self._send(execution_id, "CompleteExecution")

    async def _send(self, execution_id: str, command: str) -> None:
        path, body, _ = COMMANDS[command]
        path = path.format(node=quote(self._client.rng.choice(OPEN_NODES)))
        await self._client.send(command, f"/executions/{execution_id}/{path}", body, execution_id=execution_id)


class NodeWorker:
    """Claims one node after the other and handles it with a random behaviour."""

    def __init__(self, client: KeyedClient) -> None:
        self._client = client

    async def run(self) -> None:
        try:
            while True:
                lease_sec = round(self._client.rng.uniform(*LEASE_SEC), 2)
                request = {"graphIds": [GRAPH_ID], "workerId": self._client.name, "waitSec": CLAIM_WAIT_SEC}
                claimed = await self._client.send("StartNode", "/executions:claim", request | {"leaseSec": lease_sec})
                if claimed is not None and claimed.is_done:
                    await self._work(claimed, lease_sec)
        finally:
            await self._client.close()

    async def _work(self, claimed: CommandResponse, lease_sec: float) -> None:
        rng = self._client.rng
        behaviour = rng.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
        if behaviour == "silent":
            return
        if behaviour == "zombie":
            await asyncio.sleep(lease_sec + rng.uniform(0, 2.0))
        elif behaviour == "slow":
            begun_at = time.monotonic()
            while time.monotonic() - begun_at < lease_sec * 1.5:
                await asyncio.sleep(lease_sec / 3)
                if not await self._report(claimed, "ReportNodeProgress", "progress", {"progress": 50}):
                    break
        elif behaviour == "waits":
            if await self._report(claimed, "PutNodeWaiting", "wait", {"waitKey": claimed.key, "prompt": ASK}):
                await self._wait_until_resumed(claimed)
        else:
            await asyncio.sleep(rng.uniform(0, 0.2))
            for percent in range(rng.choice((0, 0, 1, 2))):
                await self._report(claimed, "ReportNodeProgress", "progress", {"progress": percent})
        if behaviour == "fails":
            await self._report(claimed, "FailNode", "fail", ERROR)
        else:
            await self._report(claimed, "SucceedNode", "success", {"output": {"by": claimed.key}})

    async def _wait_until_resumed(self, claimed: CommandResponse) -> None:
        while True:
            await asyncio.sleep(POLL_SEC)
            shown = await self._client.get(f"/executions/{claimed.execution_id}")
            if shown is None:
                continue
            node = next(node for node in shown["nodes"] if node["nodeId"] == claimed.body["nodeId"])
            if node["status"] != "WAITING" or shown["cancelRequestedAt"] is not None:
                return

    async def _report(self, claimed: CommandResponse, command: str, verb: str, body: dict[str, Any]) -> bool:
        execution_id, node_id = claimed.execution_id, claimed.body["nodeId"]
        response = await self._client.send(
            command,
            f"/executions/{execution_id}/nodes/{node_id}/{verb}",
            body | {"attempt": claimed.body["attempt"]},
            execution_id=execution_id,
        )
        return response is not None and response.is_done


class Approver:
    """Answers waits: mostly with a choice and the right key, sometimes with another one, rarely with a failure."""

    def __init__(self, client: KeyedClient) -> None:
        self._client = client

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._client.rng.uniform(0, 2 * POLL_SEC))
                page = await self._client.get("/waits", {"graphId": GRAPH_ID, "limit": "20"})
                for wait in (page or {}).get("items", ()):
                    await self._answer(wait)
        finally:
            await self._client.close()

    async def _answer(self, wait: Mapping[str, Any]) -> None:
        execution_id, rng = wait["executionId"], self._client.rng
        path = f"/executions/{execution_id}/nodes/{wait['nodeId']}"
        if rng.random() < 0.04:
            error = {"code": "CHAOS", "message": "no"}
            await self._client.send("FailNode", f"{path}/fail", {"error": error}, execution_id=execution_id)
            return
        resume_key = wait["waitKey"] if rng.random() < 0.9 else "another"
        choice = rng.choice(CHOICES) if rng.random() < 0.9 else "banana"
        answer = {
            "resumeKey": resume_key,
            "answer": rng.choice((choice, {"choice": choice, "by": self._client.name})),
            "attempt": wait["attempt"],
        }
        await self._client.send("ResumeNode", f"{path}/resume", answer, execution_id=execution_id)


@asynccontextmanager
async def running_node_workers(
    plan: Plan, urls: Mapping[str, str], journal: Journal
) -> AsyncIterator[list[ExecutionClient | Commander]]:
    """Runs node workers and approvers for the duration of the block; yields the clients, none without executions."""
    if not plan.executions_per_sec:
        yield []
        return

    def client(name: str) -> KeyedClient:
        return KeyedClient(name, plan.seed, urls, journal)

    first = client("execution-client-0")
    await poll_until(lambda: first.put(f"/graphs/{GRAPH_ID}", GRAPH), within_sec=plan.settle_sec)
    await first.close()
    async with asyncio.TaskGroup() as group:
        working = [group.create_task(NodeWorker(client(f"node-worker-{n}")).run()) for n in range(NODE_WORKERS)]
        working += [group.create_task(Approver(client(f"approver-{n}")).run()) for n in range(APPROVERS)]
        try:
            clients = [ExecutionClient(client(f"execution-client-{n}"), plan) for n in range(1, CLIENTS + 1)]
            yield [*clients, *(Commander(client(f"commander-{n}")) for n in range(COMMANDERS))]
        finally:
            for task in working:
                task.cancel()
