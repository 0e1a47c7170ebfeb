"""One interleaving: gateways that crash, clients that repeat requests, and a time after which all must become idle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from pyoco_server.domain.execution.commands import Command, CreateExecution, StartExecution, StartNode, SucceedNode
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import Execution, Work, empty_execution
from pyoco_server.domain.execution.state import Request as ExecutionRequest
from pyoco_server.domain.graphs import StoredGraph
from pyoco_server.domain.ids import RunId, WorkerId
from pyoco_server.errors import Kind, PyocoError
from pyoco_server.services.context import GATEWAY
from pyoco_server.services.executions.command_handler import commit
from simulation.evidence import Evidence, IndexSeen, is_at_rest
from simulation.faulty_ports import Faults, Way
from simulation.gateway import Lost, SeededGateway
from simulation.loop import BEGINNING, SeededLoop
from simulation.plan import Plan
from simulation.ports import SharedStores
from simulation.requests import Request, Response
from support.pdca import creation

# Time limit to become idle after the last fault, by the clock of the loop.
SETTLE_SEC = 90.0
POLL_SEC = 0.5
# Share of the requests that are sent to two gateways concurrently.
DUPLICATED = 0.15
MAX_TRIES = 12


class World:
    """All parts of one interleaving."""

    def __init__(self, random: Random, plan: Plan, *, trace: bool = False) -> None:
        self.random = random
        self.plan = plan
        self.loop = SeededLoop.of(random, slowness=plan.slowness)
        self.faults = Faults(rate=plan.fault_rate, crash_at=plan.crash_at, crash=self._crash)
        self.shared = SharedStores(self.loop)
        self.gateways: list[SeededGateway] = []
        self.responses: list[Response] = []
        self.lost = 0
        self.crashes = 0
        self.troubles: list[str] = []
        self.settling = False
        self.workers_alive = plan.workers
        self.trace: list[str] | None = [] if trace else None
        self._busy: dict[asyncio.Task[Any], None] = {}
        self._idle: dict[asyncio.Task[Any], None] = {}
        self._numbers = count(1)
        self._states: dict[RunId, Execution] = {}

    # --- for actors ---------------------------------------------------------------------------------------------------

    def key(self) -> str:
        """A key for a new request."""
        return f"q{next(self._numbers)}"

    def busy(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs an actor that ends by itself and is waited for."""
        self._keep(self._busy, work)

    def idle(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs an actor that is cancelled at the end."""
        self._keep(self._idle, work)

    async def pause(self) -> None:
        """Lets other actors run, or time pass."""
        draw = self.random.random()
        if draw < 0.6:
            for _ in range(int(draw * 12)):
                await self.loop.turn()
        else:
            await asyncio.sleep((draw - 0.6) * 4)

    async def send(self, request: Request, tries: int = MAX_TRIES) -> Response | None:
        """Sends it until there is a response, sometimes to two gateways concurrently."""
        for _ in range(tries):
            if not self.settling and self.random.random() < DUPLICATED:
                self.busy(self._send_once(request))
            is_answered, response = await self._send_once(request)
            if is_answered:
                return response
            await self.pause()
        return None

    async def look(self, run_id: RunId) -> Execution | None:
        """The execution as a gateway returns it; None without a response."""
        try:
            return await self._any_gateway().look(run_id)
        except (Lost, PyocoError) as error:
            self._check_error(error)
            return None

    def any_run(self) -> RunId | None:
        runs = list(self.shared.log.commits)
        return self.random.choice(runs) if runs else None

    def gateway(self) -> SeededGateway:
        return self._any_gateway()

    def is_over(self) -> bool:
        """Whether all executions of the plan are finished."""
        runs = self.shared.log.commits
        is_complete = len(runs) >= len(self.plan.graphs) + self.plan.open_executions + self.plan.requests
        return is_complete and all(self.state(run_id).status.is_terminal for run_id in runs)

    def note(self, words: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.loop.time() - BEGINNING:8.3f} {words}")

    # --- the run ------------------------------------------------------------------------------------------------------

    async def live(self, steady: Coroutine[Any, Any, Any]) -> Evidence:
        """Runs with faults as planned, then without until idle; a new worker takes part if no other is left."""
        settle_at = self.loop.time() + self.plan.unsteady_sec
        while self._busy or (self.loop.time() < settle_at and not self._is_quiet()):
            await _poll()
        self.note("— no more faults —")
        self.faults.stop()
        self.settling = True
        if self.workers_alive:
            steady.close()
        else:
            self.idle(steady)
        give_up_at = self.loop.time() + SETTLE_SEC
        while not (quiet := self._is_quiet()) and self.loop.time() < give_up_at:
            await _poll()
        evidence = self._evidence(quiet)
        await self._end()
        return replace(evidence, troubles=(*self.troubles, *map(repr, self.loop.troubles)))

    async def begin(self) -> None:
        for place, document in enumerate(self.plan.graphs):
            graph = StoredGraph(graph_id=f"g{place}", version=1, document=document, updated_at=0.0, updated_by=None)
            if self.plan.are_begun:
                await self._begun(graph)
            else:
                await self.shared.truth.graphs.put(None, graph)
        for _ in range(self.plan.requests):
            await self._requested()
        for _ in range(self.plan.gateways):
            self._new_gateway()

    async def _begun(self, graph: StoredGraph) -> None:
        """Stores an execution of the graph that was started before, with some nodes done."""
        drawn, now, run_id = graph.document.graph, self.loop.time(), self.shared.truth.ids.run_id()
        request = ExecutionRequest(flow_name=graph.graph_id, work=Work.NODES, graph_version=graph.version)
        commands: list[Command] = [
            CreateExecution(at=now, request=request, graph=drawn),
            StartExecution(at=now, from_outside=True),
        ]
        for node in [node for node in drawn.roots() if not node.is_wait][: self.plan.nodes_done]:
            commands.append(StartNode(at=now, node_id=node.node_id, worker_id=WorkerId("earlier")))
            commands.append(SucceedNode(at=now, node_id=node.node_id, attempt=1))
        execution = empty_execution(run_id)
        for command in commands:
            execution = (await commit(self.shared.truth, execution, command, GATEWAY)).execution
        await self.shared.truth.snapshots.advance(execution, create=True)

    async def _requested(self) -> None:
        """Stores a request of the PDCA API as a gateway does that is killed before it starts it."""
        execution = empty_execution(self.shared.truth.ids.run_id())
        created = await commit(self.shared.truth, execution, creation(self.loop.time()), GATEWAY)
        await self.shared.truth.snapshots.advance(created.execution, create=True)

    def _new_gateway(self) -> None:
        way = Way(self.loop, self.random, self.faults)
        ahead = self.random.random() * self.plan.ahead_sec
        name = f"gateway-{len(self.gateways) + self.crashes + 1}"
        gateway = SeededGateway(name, self.loop, self.random, self.shared, way, ahead)
        self.gateways.append(gateway)
        gateway.start(drives_requests=self.plan.requests > 0)

    def _crash(self) -> None:
        victim = self.gateways.pop(int(self.random.random() * len(self.gateways)))
        self.note(f"{victim.name} crashes")
        victim.kill()
        self.crashes += 1
        self._keep(self._busy, victim.gone())
        self._new_gateway()

    def _any_gateway(self) -> SeededGateway:
        return self.gateways[int(self.random.random() * len(self.gateways))]

    async def _send_once(self, request: Request) -> tuple[bool, Response | None]:
        """Whether there was a response, and the response; None for a claim without a node."""
        gateway = self._any_gateway()
        self.note(f"{request.name} {request.key} to {gateway.name} {_about(request)}")
        try:
            response = await gateway.serve(request)
            self._may_lose_response()
        except (Lost, PyocoError) as error:
            self.note(f"{request.name} {request.key} at {gateway.name}: {type(error).__name__}")
            self.lost += 1
            self._check_error(error)
            return False, None
        if response is not None:
            self.note(f"{request.name} {request.key} at {gateway.name}: {response.status} {response.body.decode()}")
            self.responses.append(response)
        return True, response

    def _may_lose_response(self) -> None:
        """Loses the response as often as a store call fails."""
        if self.random.random() < self.faults.rate:
            raise Lost

    def _check_error(self, error: Lost | PyocoError) -> None:
        if isinstance(error, PyocoError) and error.kind is not Kind.UNAVAILABLE:
            self.troubles.append(repr(error))

    def _keep(self, where: dict[asyncio.Task[Any], None], work: Coroutine[Any, Any, Any]) -> None:
        task = self.loop.create_task(work)
        where[task] = None

        def over(task: asyncio.Task[Any]) -> None:
            del where[task]
            if not task.cancelled() and (error := task.exception()) is not None:
                self.troubles.append(repr(error))

        task.add_done_callback(over)

    async def _end(self) -> None:
        for task in (*self._busy, *self._idle):
            task.cancel()
        for gateway in self.gateways:
            gateway.kill()
        for gateway in self.gateways:
            await gateway.gone()
        while left := (*self._busy, *self._idle):
            await asyncio.wait(left[:1])

    # --- the result ---------------------------------------------------------------------------------------------------

    def state(self, run_id: RunId) -> Execution:
        """The execution as its log has it."""
        known = self._states.get(run_id) or empty_execution(run_id)
        newer = [stored for stored in self.shared.log.commits[run_id] if stored.sequence > known.version]
        if newer:
            known = self._states[run_id] = fold_commits(newer, known)
        return known

    def _is_quiet(self) -> bool:
        if self._busy:
            return False
        states = [self.state(run_id) for run_id in self.shared.log.commits]
        if not all(map(is_at_rest, states)):
            return False
        if any(self.shared.snapshots.version(state.execution_id) != state.version for state in states):
            return False
        last = self.shared.snapshots.last_revision
        return all(gateway.follower.sequence >= last for gateway in self.gateways)

    def _snapshots(self) -> dict[RunId, Execution]:
        found = {run_id: self.shared.snapshots.shown(run_id) for run_id in self.shared.log.commits}
        return {run_id: shown.execution for run_id, shown in found.items() if shown is not None}

    def _evidence(self, quiet: bool) -> Evidence:
        graph_ids = [f"g{place}" for place in range(len(self.plan.graphs))]
        return Evidence(
            ends={run_id: self.state(run_id) for run_id in self.shared.log.commits},
            logs={run_id: tuple(commits) for run_id, commits in self.shared.log.commits.items()},
            snapshots=self._snapshots(),
            indexes=tuple(
                IndexSeen.of(gateway.name, gateway.index, graph_ids, list(self.shared.log.commits))
                for gateway in self.gateways
            ),
            responses=tuple(self.responses),
            batches_running=tuple(self.shared.engine.running()),
            quiet=quiet,
            troubles=(),
        )


async def _poll() -> None:
    await asyncio.sleep(POLL_SEC)


def _about(request: Request) -> str:
    known = (request.run_id, request.node_id, request.attempt, request.worker_id)
    return " ".join(str(part) for part in known if part is not None)
