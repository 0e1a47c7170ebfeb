"""The load on executions: callers who start and cancel them, hands that take their nodes over HTTP, and approvers.

Hands work as programs do that nobody looks after: some say nothing any more, some come back when their lease is over,
some are slow but renew it. All go on after the last kill, until what was begun is ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from chaos.journal import Journal, Told
from chaos.keyed_client import REFUSED, Sender
from chaos.plan import Plan
from chaos.polling import comes_true

GRAPH_ID = "chaos_graph"
# A fork, a wait beside it, a join; of one node not many attempts may be lost.
GRAPH: Mapping[str, Any] = {
    "nodes": [
        "prepare",
        {"id": "left", "maxAttempts": 2},
        {"id": "right", "params": {"side": "right"}},
        {"id": "approve", "type": "wait", "prompt": {"question": "Go on?"}, "timeoutSec": 20},
        "join",
    ],
    "edges": [
        ["prepare", "left"],
        ["prepare", "right"],
        ["prepare", "approve"],
        ["left", "join"],
        ["right", "join"],
        ["approve", "join"],
    ],
}
CALLERS, HANDS, APPROVERS = 8, 10, 2
LEASE_SEC = (2.0, 3.0)
CLAIM_WAIT_SEC = 1.0
# In proportion.
HABITS = {"quick": 60, "slow": 10, "silent": 9, "zombie": 9, "waits": 8, "fails": 3}
CANCELLED, NEVER_STARTED = 0.3, 0.05
LOOK_SEC = 0.25


class Caller:
    """Creates and starts executions, and cancels some; each is seen to its certain start before the next."""

    def __init__(self, sender: Sender, plan: Plan) -> None:
        self._sender = sender
        self._pause_sec = CALLERS / plan.executions_per_sec

    async def run(self, until: float) -> None:
        clock, rng = asyncio.get_running_loop().time, self._sender.rng
        try:
            while clock() < until:
                await asyncio.sleep(min(rng.expovariate(1 / self._pause_sec), 2 * self._pause_sec))
                await self._one()
        finally:
            await self._sender.close()

    async def _one(self) -> None:
        rng = self._sender.rng
        created = await self._sender.send("CreateExecution", "/executions", {"graphId": GRAPH_ID, "input": {"n": 1}})
        if created is None or created.status == REFUSED:
            return
        execution_id = created.execution_id
        if rng.random() < NEVER_STARTED:
            await self._cancel(execution_id)
            return
        await self._sender.send("StartExecution", f"/executions/{execution_id}/start", {}, execution_id=execution_id)
        if rng.random() < CANCELLED:
            await asyncio.sleep(rng.uniform(0, 2.5))
            for _ in range(rng.choice((1, 1, 2))):
                await self._cancel(execution_id)

    async def _cancel(self, execution_id: str) -> None:
        path = f"/executions/{execution_id}/cancel"
        await self._sender.send("CancelExecution", path, {"reason": "chaos"}, execution_id=execution_id)


class Hand:
    """Takes one node after the other and does with it what its habit of the moment is."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def run(self) -> None:
        try:
            while True:
                lease_sec = round(self._sender.rng.uniform(*LEASE_SEC), 2)
                asked = {"graphIds": [GRAPH_ID], "workerId": self._sender.name, "waitSec": CLAIM_WAIT_SEC}
                claimed = await self._sender.send("StartNode", "/executions:claim", asked | {"leaseSec": lease_sec})
                if claimed is not None and claimed.status != REFUSED:
                    await self._work(claimed, lease_sec)
        finally:
            await self._sender.close()

    async def _work(self, claimed: Told, lease_sec: float) -> None:
        rng = self._sender.rng
        habit = rng.choices(list(HABITS), list(HABITS.values()))[0]
        if habit == "silent":
            return
        if habit == "zombie":
            await asyncio.sleep(lease_sec + rng.uniform(0, 2.0))
        elif habit == "slow":
            begun_at = time.monotonic()
            while time.monotonic() - begun_at < lease_sec * 1.5:
                await asyncio.sleep(lease_sec / 3)
                if not await self._say(claimed, "ReportNodeProgress", "progress", {"progress": 50}):
                    break
        elif habit == "waits":
            if await self._say(claimed, "PutNodeWaiting", "wait", {"waitKey": claimed.key}):
                await self._until_resumed(claimed)
        else:
            await asyncio.sleep(rng.uniform(0, 0.2))
            for percent in range(rng.choice((0, 0, 1, 2))):
                await self._say(claimed, "ReportNodeProgress", "progress", {"progress": percent})
        if habit == "fails":
            await self._say(claimed, "FailNode", "fail", {"error": {"code": "CHAOS", "message": "on purpose"}})
        else:
            await self._say(claimed, "SucceedNode", "success", {"output": {"by": claimed.key}})

    async def _until_resumed(self, claimed: Told) -> None:
        while True:
            await asyncio.sleep(LOOK_SEC)
            shown = await self._sender.get(f"/executions/{claimed.execution_id}")
            if shown is None:
                continue
            node = next(node for node in shown["nodes"] if node["nodeId"] == claimed.body["nodeId"])
            if node["status"] != "WAITING" or shown["cancelRequestedAt"] is not None:
                return

    async def _say(self, claimed: Told, command: str, verb: str, body: dict[str, Any]) -> bool:
        execution_id, node_id = claimed.execution_id, claimed.body["nodeId"]
        told = await self._sender.send(
            command,
            f"/executions/{execution_id}/nodes/{node_id}/{verb}",
            body | {"attempt": claimed.body["attempt"]},
            execution_id=execution_id,
        )
        return told is not None and told.status != REFUSED


class Approver:
    """Answers what waits: mostly with the key, sometimes with a wrong one, seldom with a no."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._sender.rng.uniform(0, 2 * LOOK_SEC))
                page = await self._sender.get("/waits", {"graphId": GRAPH_ID, "limit": "20"})
                for wait in (page or {}).get("items", ()):
                    await self._answer(wait)
        finally:
            await self._sender.close()

    async def _answer(self, wait: Mapping[str, Any]) -> None:
        execution_id, rng = wait["executionId"], self._sender.rng
        path = f"/executions/{execution_id}/nodes/{wait['nodeId']}"
        if rng.random() < 0.04:
            error = {"code": "CHAOS", "message": "no"}
            await self._sender.send("FailNode", f"{path}/fail", {"error": error}, execution_id=execution_id)
            return
        resume_key = wait["waitKey"] if rng.random() < 0.9 else "another"
        answer = {"resumeKey": resume_key, "answer": {"by": self._sender.name}, "attempt": wait["attempt"]}
        await self._sender.send("ResumeNode", f"{path}/resume", answer, execution_id=execution_id)


@asynccontextmanager
async def hands_at_work(plan: Plan, urls: Mapping[str, str], journal: Journal) -> AsyncIterator[list[Caller]]:
    """Hands and approvers at work as long as the block lasts, and the callers for it; none without executions."""
    if not plan.executions_per_sec:
        yield []
        return

    def sender(name: str) -> Sender:
        return Sender(name, plan.seed, urls, journal)

    first = sender("caller-0")
    await comes_true(lambda: first.put(f"/graphs/{GRAPH_ID}", GRAPH), within_sec=plan.settle_sec)
    await first.close()
    async with asyncio.TaskGroup() as group:
        working = [group.create_task(Hand(sender(f"hand-{n}")).run()) for n in range(HANDS)]
        working += [group.create_task(Approver(sender(f"approver-{n}")).run()) for n in range(APPROVERS)]
        try:
            yield [Caller(sender(f"caller-{n}"), plan) for n in range(1, CALLERS + 1)]
        finally:
            for task in working:
                task.cancel()
