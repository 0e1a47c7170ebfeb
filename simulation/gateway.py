"""A gateway without HTTP: the services of the real one over faulty stores, with its own index, that can crash.

As the routes of `/executions` do, it wraps every request in `once` and stores rejections as responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.events import Actor
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.idempotency.keys import IdempotencyKey, RecordKey
from pyoco_server.domain.idempotency.record import Answer
from pyoco_server.domain.ids import CommitId, RunId
from pyoco_server.domain.queries.steps import ClaimableNode
from pyoco_server.errors import Kind, NotAChoice, PyocoError
from pyoco_server.http_api.api.executions import translate
from pyoco_server.services.claims.claim_node import Claim, ClaimService, NothingToClaim, name_of, named, take
from pyoco_server.services.claims.claim_queue import ClaimQueue
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult
from pyoco_server.services.executions.execution_cache import ExecutionCache
from pyoco_server.services.executions.service import ExecutionService
from pyoco_server.services.gateway_roster import GatewayRoster
from pyoco_server.services.idempotency import Answered, Asked, IdempotentAttempt, find_earlier
from pyoco_server.services.loops import log_and_continue
from pyoco_server.services.maintenance import cancels
from pyoco_server.services.maintenance.snapshots import SnapshotRepairer
from pyoco_server.services.pdca.driver import BatchDriver
from pyoco_server.services.projections.indexer import Indexer
from pyoco_server.services.projections.lists import ListService
from pyoco_server.testing.index import MemoryRunIndex
from simulation.faulty_ports import EngineOnTheWay, FeedOnTheWay, Way
from simulation.loop import SeededLoop
from simulation.ports import LoopClock, SharedStores
from simulation.requests import REFUSED, Request, Response
from support.attempts import Work, once

T = TypeVar("T")

CONFIG = NatsBackendConfig(cancel_grace_period_sec=1.0)
# As often as real maintenance.
MAINTENANCE_SEC = (0.5, 3.0)


class Lost(Exception):
    """There is no response: the gateway crashed, or the connection was lost."""


class SeededGateway:
    """One process. `serve` handles a request, `kill` ends every task at its current await."""

    def __init__(self, name: str, loop: SeededLoop, random: Random, shared: SharedStores, way: Way, ahead: float):
        self.name = name
        self._loop = loop
        self._random = random
        self._way = way
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.stores: Stores = shared.behind(way, LoopClock(loop, ahead))
        feed = FeedOnTheWay(shared.feed, way)
        self.index = MemoryRunIndex()
        self.follower = Indexer(feed, self.index, self.stores.clock)
        cache = ExecutionCache(self.stores)
        self.executions = ExecutionService(stores=self.stores, cache=cache, config=CONFIG, find_flow=_no_flow)
        lists = ListService(
            stores=self.stores, index=self.index, indexer=self.follower, cache=cache, heavy=asyncio.Semaphore(4)
        )
        queue = ClaimQueue(self.index, self.follower, self.stores.clock)
        self.claims = ClaimService(executions=self.executions, lists=lists, queue=queue)
        # Each gateway owns everything, as long as it has not heard of the others.
        engine, roster = EngineOnTheWay(shared.engine, way), GatewayRoster(own_id=name)
        self._batches = BatchDriver(self.executions, self.index, engine, roster, first_retry_sec=0.2)
        self._repairer = SnapshotRepairer(self.stores, self.index, feed, self.executions.queued)

    @property
    def is_dead(self) -> bool:
        return self._way.dead

    def start(self, *, drives_requests: bool) -> None:
        """Starts the background tasks."""
        if drives_requests:
            self.follower.on_indexed(self._batches.on_indexed)
            self._own(self._batches.run()).add_done_callback(self._tasks.pop)
        for work in (
            self.follower.run(),
            self.executions.cache.run(),
            self.claims.queue.run(),
            self._note(),
            self._maintain(),
        ):
            self._own(work).add_done_callback(self._tasks.pop)

    def kill(self) -> None:
        """Loses the memory; no call reaches a store any more, and no client gets a response."""
        self._way.dead = True
        for task in list(self._tasks):
            task.cancel()

    async def gone(self) -> None:
        """Waits until all tasks have ended."""
        while self._tasks:
            await asyncio.wait([next(iter(self._tasks))])

    async def serve(self, request: Request) -> Response | None:
        """The response; None if there was nothing to claim. Raises `PyocoError` for a 5xx."""
        response: Response | None = await self._outcome(self._answer(request))
        return response

    async def look(self, run_id: RunId) -> Execution:
        """`GET /executions/{id}`."""
        execution: Execution = await self._outcome(self.executions.look(run_id, tenant_filter=None))
        return execution

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        return task

    async def _outcome(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a request; a cancelled client does not cancel its task, nor the other way round."""
        if self.is_dead:
            work.close()
            raise Lost
        task, over = self._own(work), self._loop.create_future()

        def end(task: asyncio.Task[Any]) -> None:
            del self._tasks[task]
            _ = task.cancelled() or task.exception()  # retrieved, or asyncio would report it
            if not over.done():
                over.set_result(None)

        task.add_done_callback(end)
        await over
        if task.cancelled() or self.is_dead:
            raise Lost
        done: T = task.result()
        return done

    async def _note(self) -> None:
        while True:
            with log_and_continue("commits"):
                await self._repairer.note_commits()
            await asyncio.sleep(0.5)

    async def _maintain(self) -> None:
        rounds = [
            ("snapshots", self._repairer.repair),
            ("cancels", lambda: cancels.confirm_cancels(self.stores, self.index, CONFIG)),
            ("nodes", lambda: cancels.expire_nodes(self.stores, self.index)),
        ]
        while True:
            await asyncio.sleep(self._random.uniform(*MAINTENANCE_SEC))
            self._random.shuffle(rounds)
            for name, work in rounds:
                with log_and_continue(name):
                    await work()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response | None:
        if request.claim is not None:
            return await self._claim(request)
        if request.new is not None:
            return _response(request, await self._once(request, self._create(request), self.stores.ids.run_id()))
        return _response(request, await self._once(request, self._command(request)))

    async def _once(self, request: Request, work: Work, resource_id: str = "") -> Answered:
        attempt = Asked(
            record_key=RecordKey(request.key),
            key=IdempotencyKey(request.key),
            endpoint=f"POST {request.name}",
            request_hash=request.name,
            context=CommandContext(actor=Actor(kind="user", id=request.worker_id), correlation_id=request.key),
        )
        return await once(self.stores, attempt, lambda: resource_id, work)

    def _create(self, request: Request) -> Work:
        async def work(turn: IdempotentAttempt) -> Answer:
            assert request.new is not None
            handled = await self.executions.create(request.new, RunId(turn.resource_id), turn.context)
            return _answer(request, handled, turn)

        return work

    def _command(self, request: Request) -> Work:
        at = self.stores.clock.now()

        async def work(turn: IdempotentAttempt) -> Answer:
            assert request.run_id is not None
            if request.name == "StartExecution":
                handled = await self.executions.start(request.run_id, turn.context)
            elif request.name == "CancelExecution":
                handled = await self.executions.cancel(request.run_id, None, turn.context)
            else:
                assert request.make is not None
                handled = await self.executions.command(request.run_id, request.make(at), turn.context)
            return _answer(request, handled, turn)

        return work

    async def _claim(self, request: Request) -> Response | None:
        assert request.claim is not None
        claim = replace(request.claim, wait_sec=request.wait_sec)

        async def is_disconnected() -> bool:
            return False

        first = self.claims.queue.reserve(claim.wanted)
        if first is None:
            earlier = await find_earlier(self.stores, RecordKey(request.key), request.name)
            if earlier is not None and earlier.answer is not None:
                return _response(request, Answered(answer=earlier.answer, replayed=True))
            first = None if earlier is None else named(earlier.resource_id, claim)
        async with aclosing(self.claims.proposals(claim, first, is_disconnected)) as proposals:
            async for node in proposals:
                with suppress(NothingToClaim):
                    return _response(request, await self._once(request, self._take(claim, node), name_of(node)))
        return None

    def _take(self, claim: Claim, node: ClaimableNode) -> Work:
        async def work(turn: IdempotentAttempt) -> Answer:
            claimed = await take(self.executions, self.claims.queue, claim, node, turn)
            return Answer(status=200, body=translate.claimed_out(claimed, claim.lease_sec, turn.context))

        return work


def _answer(request: Request, handled: CommandResult, turn: IdempotentAttempt) -> Answer:
    try:
        translate.raise_rejection(handled, request.name)
    except PyocoError as refusal:
        if refusal.kind is not Kind.CONFLICT and not isinstance(refusal, NotAChoice):
            raise
        return Answer(status=REFUSED, body=refusal.detail.encode())
    return Answer(status=202, body=translate.accepted_out(handled, request.name, turn.context))


def _response(request: Request, answered: Answered) -> Response:
    answer = answered.answer
    commits = frozenset(CommitId(event_id.rpartition(".")[0]) for event_id in answer.event_ids)
    return Response(request=request, status=answer.status, body=answer.body, commit_ids=commits)


async def _no_flow(name: str) -> AnnouncedFlow | None:
    return None
