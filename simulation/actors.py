"""The clients of the gateways. Some crash during a request, some return too late, some send wrong values.

A client without a response repeats the request with the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pyoco_server.domain.execution.commands import (
    Command,
    CompleteExecution,
    FailExecution,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.state import Failure, NodeStatus
from pyoco_server.domain.ids import NodeId, RunId, WorkerId
from pyoco_server.domain.queries.steps import WaitQuery
from pyoco_server.ports.pdca import BatchOutcome, BatchState
from pyoco_server.services.claims.claim_node import Claim
from pyoco_server.services.claims.claim_queue import ClaimFilter
from pyoco_server.services.executions.service import NewExecution
from simulation.plan import ASK, CHOICES, WAIT_KEY
from simulation.requests import Request, Response
from simulation.world import MAX_TRIES, World

LEASES_SEC = (0.4, 1.0, 2.0)
DRIVER = "driver"
NO_TIMES: Mapping[str, float] = MappingProxyType({})
OOPS = Failure(code="OOPS", message="it did not work")


async def client(world: World, graph_id: str) -> None:
    """Creates an execution and mostly starts it."""
    run_id = await _created(world, graph_id)
    if run_id is not None and world.random.random() < 0.95:
        await world.pause()
        await world.send(Request(key=world.key(), name="StartExecution", run_id=run_id))


async def canceller(world: World) -> None:
    """Cancels a random execution at a random time."""
    for _ in range(world.random.randrange(6)):
        await world.pause()
    run_id = world.any_run()
    if run_id is not None:
        await world.send(Request(key=world.key(), name="CancelExecution", run_id=run_id))


async def person(world: World) -> None:
    """Answers waits, sometimes with a wrong key or outside the choices."""
    while not world.settling or world.plan.answers_come:
        await asyncio.sleep(world.random.uniform(0.1, 1.0))
        waits = world.gateway().index.waits(WaitQuery(limit=5))
        if waits:
            wait = world.random.choice(waits)
            is_right = world.settling or world.random.random() < 0.7
            key = wait.wait_key if is_right and wait.wait_key is not None else "wrong"
            answers = (*CHOICES, {"choice": "no", "comment": "later"}, *(() if world.settling else ("maybe", None)))
            answer = world.random.choice(answers)
            await world.send(
                _command(world, ResumeNode, wait.run_id, node_id=wait.node_id, resume_key=key, answer=answer)
            )


async def driver(world: World) -> None:
    """Starts the nodes of an open graph one by one; may crash before the end."""
    run_id = await _created(world, "open")
    if run_id is None:
        return
    await world.send(Request(key=world.key(), name="StartExecution", run_id=run_id))
    for name in "xy"[: world.random.randrange(1, 3)]:
        node_id, lease_sec = NodeId(name), world.random.choice((None, 1.0))
        after_sec = {} if lease_sec is None else {"lease_until": lease_sec}
        start = _command(world, StartNode, run_id, DRIVER, after_sec, node_id=node_id, worker_id=WorkerId(DRIVER))
        response = await world.send(start)
        if response is None or not response.accepted or world.random.random() < 0.1:
            return
        await _Holder(world, run_id, node_id, 1, DRIVER, lease_sec or 1.0).work()
    if world.random.random() < 0.8:
        await world.send(_command(world, CompleteExecution, run_id))
    else:
        await world.send(_command(world, FailExecution, run_id, error=OOPS))


async def worker(world: World, name: str, *, steady: bool = False) -> None:
    """Claims nodes and works on them until it crashes or all executions have ended."""
    graph_ids = tuple(f"g{place}" for place in range(len(world.plan.graphs)))
    while not world.is_over():
        lease_sec = world.random.choice(LEASES_SEC)
        claim = Claim(
            wanted=ClaimFilter(graph_ids=graph_ids, tenant_id=None), worker_id=WorkerId(name), lease_sec=lease_sec
        )
        response = await world.send(
            Request(key=world.key(), name="Claim", worker_id=name, claim=claim, wait_sec=2.0), 3
        )
        if response is None:
            await asyncio.sleep(0.3)
            continue
        holder = _Holder.of(world, response, name, lease_sec)
        if steady:
            await holder.succeed()
        elif not await _seen_through(world, holder):
            world.workers_alive -= 1
            return


async def _seen_through(world: World, holder: _Holder) -> bool:
    """Runs the work as a task that is waited for; False if the worker crashed."""
    done = world.loop.create_future()

    async def work() -> None:
        alive = await holder.work()
        if not done.done():
            done.set_result(alive)

    world.busy(work())
    alive: bool = await done
    return alive


class _Holder:
    """The holder of one attempt of a node."""

    def __init__(
        self, world: World, run_id: RunId, node_id: NodeId, attempt: int, worker_id: str, lease_sec: float
    ) -> None:
        self._world = world
        self._run_id, self._node_id, self._attempt = run_id, node_id, attempt
        self._worker_id = worker_id
        self._lease_sec = lease_sec

    @classmethod
    def of(cls, world: World, response: Response, worker_id: str, lease_sec: float) -> _Holder:
        plain = response.plain
        return cls(world, RunId(plain["executionId"]), NodeId(plain["nodeId"]), plain["attempt"], worker_id, lease_sec)

    async def work(self) -> bool:
        """Works in a random way; False if the worker crashes."""
        draw = self._world.random.random()
        if draw < 0.12 and not self._world.settling:
            return False
        if draw < 0.24:  # a zombie: it sleeps through its lease
            await asyncio.sleep(self._lease_sec * self._world.random.uniform(0.9, 2.5))
        elif draw < 0.4:
            await self._world.pause()
            await self._report(ReportNodeProgress, progress=50.0)
        elif draw < 0.5:
            await self.wait()
        await self._world.pause()
        if self._world.random.random() < 0.08:
            await self._report(FailNode, error=OOPS)
        else:
            await self.succeed()
        return True

    async def succeed(self) -> None:
        await self._report(SucceedNode, output=self._worker_id)

    async def wait(self) -> None:
        """Puts the node to wait and polls until it is resumed."""
        after_sec = {} if self._lease_sec < 1 else {"deadline_at": 1.0}
        prompt = self._world.random.choice((None, ASK))
        await self._report(PutNodeWaiting, after_sec, wait_key=WAIT_KEY, prompt=prompt)
        for _ in range(4):
            await self._world.pause()
            seen = await self._world.look(self._run_id)
            if seen is None or seen.nodes[self._node_id].status is not NodeStatus.WAITING:
                return

    async def _report(self, kind: type[Command], after_sec: Mapping[str, float] = NO_TIMES, **values: Any) -> None:
        values |= {"node_id": self._node_id, "attempt": self._attempt}
        await self._world.send(_command(self._world, kind, self._run_id, self._worker_id, after_sec, **values))


async def _created(world: World, graph_id: str) -> RunId | None:
    new = NewExecution(graph_id=graph_id, input={})
    tries = MAX_TRIES if world.random.random() < 0.7 else 1  # some never repeat it
    response = await world.send(Request(key=world.key(), name="CreateExecution", new=new), tries)
    return RunId(response.plain["executionId"]) if response is not None and response.accepted else None


def _command(
    world: World,
    kind: type[Command],
    run_id: RunId,
    by: str | None = None,
    after_sec: Mapping[str, float] = NO_TIMES,
    **values: Any,
) -> Request:
    """A request whose command is built when a gateway receives it; `after_sec` are values relative to that time."""

    def make(at: float) -> Command:
        times: dict[str, Any] = {name: at + seconds for name, seconds in after_sec.items()}
        return kind(at=at, from_outside=True, **values, **times)

    return Request(
        key=world.key(),
        name=kind.__name__,
        make=make,
        run_id=run_id,
        node_id=values.get("node_id"),
        attempt=values.get("attempt"),
        worker_id=by,
    )


async def batch_runner(world: World) -> None:
    """Ends batches of requests in their engine, some with a failure, in any order; some are lost there."""
    engine = world.shared.engine
    while True:
        await asyncio.sleep(world.random.uniform(0.05, 0.5))
        # What runs on after the end of its request is left to be found.
        running = [key for key in engine.running() if not world.state(key[0]).status.is_terminal]
        if not running:
            continue
        request_id, number = world.random.choice(running)
        draw = world.random.random()
        if draw < 0.1 and not world.settling:
            engine.set_state(request_id, number, BatchState.MISSING)
        elif draw < 0.3:
            engine.set_state(request_id, number, BatchState.FAILED, BatchOutcome(error="it failed"))
        else:
            engine.set_state(request_id, number, BatchState.SUCCEEDED)
