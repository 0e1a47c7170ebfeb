"""The core and its log alone, at a fifth of the price: many commit at once, to a log that fails and loses answers.

No gateways, no index, no line, no HTTP: holders look at the log themselves. What is left is what everything else stands
on: the process manager, the fence, cancel wins, and that a request which is carried on is done once. Between any two
calls of the log the seed decides who goes on; whoever is killed has his request carried on by the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace, coroutine
from typing import Any, cast

from pyoco_server.domain.execution.commands import (
    CancelExecution,
    Command,
    ConfirmCanceled,
    CreateExecution,
    ExpireNode,
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    ResumeNode,
    StartExecution,
    StartNode,
    StopNode,
    SucceedNode,
)
from pyoco_server.domain.execution.events import Actor, Commit, StoredCommit
from pyoco_server.domain.execution.evolve import fold_commits
from pyoco_server.domain.execution.state import (
    Execution,
    Failure,
    Node,
    NodeStatus,
    Request,
    StopHow,
    Work,
    empty_execution,
)
from pyoco_server.domain.ids import CommitId, RunId, WorkerId
from pyoco_server.errors import AppendConflict, RunNotFound
from pyoco_server.ports import Conflict, Stored
from pyoco_server.services.context import CommandContext, Counters, Stores
from pyoco_server.services.executions.command_handler import commit
from simulation.evidence import Evidence, Finding, is_at_rest
from simulation.history_invariants import after_the_end, cancel_lost, out_of_order, overtaken_but_heard
from simulation.invariants import Violation, stuck
from simulation.plan import WAIT_KEY, drawn

RUN_ID = RunId("00000000-0000-7000-8000-000000000001")
LEASE_SEC = 6.0
MOST_STEPS = 20_000
WHO = Actor(kind="simulation")
OVERTAKEN = "reports of those who were overtaken"
CHECKS = {
    "executions stuck": stuck,
    "events after a cancel or an end": after_the_end,
    "logs in which a cancel lost": cancel_lost,
    "nodes out of the graph's order": out_of_order,
    OVERTAKEN: overtaken_but_heard,
}
NOT_ONCE = "requests not done once"

Life = Coroutine[Any, Any, None]


class Died(Exception):
    """Whoever was at it is dead; the next one carries on."""


@coroutine
def _turn() -> Generator[None, None, None]:
    yield


class _Log:
    """EventLog of one execution: gives way before and after each effect, and fails there when it is told to."""

    def __init__(self, random: Random, rate: float) -> None:
        self.random, self.rate = random, rate
        self.commits: list[StoredCommit] = []
        self.deaths = 0

    async def append(self, run_id: RunId, commit: Commit, *, after: int) -> Stored | Conflict:
        await self.way()
        last = self.commits[-1].sequence if self.commits else 0
        done: Stored | Conflict = Conflict()
        if last == after:
            self.commits.append(StoredCommit(sequence=last + 1, commit=commit))
            done = Stored(version=last + 1)
        else:
            ours = [stored for stored in self.commits if stored.commit.commit_id == commit.commit_id]
            if ours and ours[0].sequence > after:
                done = Stored(version=ours[0].sequence, found=True)
        await self.way()
        return done

    async def read(self, run_id: RunId, *, after: int = 0, limit: int | None = None) -> Sequence[StoredCommit]:
        await self.way()
        found = [stored for stored in self.commits if stored.sequence > after][:limit]
        await self.way()
        return found

    async def way(self) -> None:
        await _turn()
        if self.random.random() < self.rate:
            self.deaths += 1
            raise Died


@dataclass(slots=True)
class _Hold:
    """What an idempotency record tells: whether somebody else has begun to carry on."""

    taken_over: int = 0
    mine: int = 0

    async def overtaken(self) -> bool:
        await _turn()
        return self.mine < self.taken_over

    def emitted(self, commit_id: CommitId, events: int) -> None:
        return


class Bare:
    """One interleaving of the core."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        plan = drawn(random)
        self.graph = plan.graphs[0].graph
        self.log = _Log(random, plan.fault_rate * 2)
        self.now, self.ids = 0.0, 0
        self.accepted: dict[CommitId, Command] = {}
        self._known = empty_execution(RUN_ID)
        self._twins: list[Life] = []
        self.figures: Counter[str] = Counter()
        self.unsteady = True
        clock = SimpleNamespace(now=lambda: self.now, monotonic=lambda: self.now)
        ids = SimpleNamespace(commit_id=self._id)
        self.stores = cast(Stores, SimpleNamespace(events=self.log, clock=clock, ids=ids, counters=Counters()))
        self.lives: list[Life] = [self._holder(WorkerId(f"w{place}")) for place in range(plan.workers + 1)]
        self.lives += [self._canceller() for _ in range(plan.cancels)]
        self.lives += [self._person()] if plan.people else []
        self.answers_come = plan.answers_come

    def play(self) -> Iterator[Violation]:
        self._until_done([self._begin()])
        self._until_done(self.lives)
        self.unsteady, self.log.rate = False, 0.0
        for _ in range(30):
            self.now += LEASE_SEC
            self._until_done([self._caretaker(), self._holder(WorkerId("steady")), self._person()])
            if is_at_rest(self._truth()):
                break
        yield from self._judged()

    def _until_done(self, lives: Sequence[Life]) -> None:
        going = list(lives)
        for _ in range(MOST_STEPS):
            going += self._twins
            self._twins.clear()
            if not going:
                return
            life = going[int(self.random.random() * len(going))]
            self.now += 0.05
            try:
                life.send(None)
            except StopIteration:
                going.remove(life)
        for life in going:
            life.close()
        raise AssertionError("it never rests")

    # --- those who take part ------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        request = Request(flow_name="g", work=Work.NODES)
        await self._ask(CreateExecution(at=self.now, request=request, graph=self.graph))
        await self._ask(StartExecution(at=self.now, from_outside=True))

    async def _holder(self, name: WorkerId) -> None:
        for _ in range(4 if self.unsteady else 12):
            node = self._free(await self._look())
            if node is None:
                if not self.unsteady:
                    return
                await _turn()
                continue
            attempt, at = node.attempt + 1, self.now
            lease_until = at + self.random.choice((1.0, LEASE_SEC))
            start = StartNode(
                at=at,
                node_id=node.node_id,
                attempt=attempt,
                worker_id=name,
                lease_until=lease_until,
                from_outside=True,
            )
            if await self._ask(start):
                await self._work(node, attempt)

    async def _work(self, node: Node, attempt: int) -> None:
        draw = self.random.random() if self.unsteady else 1.0
        node_id = node.node_id
        if draw < 0.2:
            return  # dies with it in hand
        if draw < 0.35:
            self.now += 2 * LEASE_SEC  # a zombie: it speaks when its lease is over
        elif draw < 0.5:
            await self._ask(
                ReportNodeProgress(at=self.now, node_id=node_id, attempt=attempt, progress=50, from_outside=True)
            )
        elif draw < 0.6:
            wait = PutNodeWaiting(
                at=self.now, node_id=node_id, attempt=attempt, wait_key=WAIT_KEY, deadline_at=self.now + LEASE_SEC
            )
            await self._ask(wait)
            return
        if draw < 0.65:
            failure = Failure(code="E", message="no")
            await self._end(FailNode(at=self.now, node_id=node_id, attempt=attempt, error=failure, from_outside=True))
        else:
            await self._end(SucceedNode(at=self.now, node_id=node_id, attempt=attempt, from_outside=True))

    async def _end(self, command: SucceedNode | FailNode) -> None:
        if not await self._ask(command):
            await self._ask(StopNode(at=self.now, node_id=command.node_id, attempt=command.attempt, from_outside=True))

    async def _person(self) -> None:
        for _ in range(3):
            execution = await self._look()
            waiting = [node for node in execution.nodes.values() if node.status is NodeStatus.WAITING]
            if waiting and (self.unsteady or self.answers_come):
                node = self.random.choice(waiting)
                key = WAIT_KEY if self.random.random() < 0.8 else "wrong"
                await self._ask(ResumeNode(at=self.now, node_id=node.node_id, resume_key=key, from_outside=True))

    async def _canceller(self) -> None:
        for _ in range(int(self.random.random() * 20)):
            await _turn()
        await self._ask(CancelExecution(at=self.now, from_outside=True))
        await self._ask(ConfirmCanceled(at=self.now, how=StopHow.IDLE))

    async def _caretaker(self) -> None:
        execution = await self._look()
        if execution.cancel is not None:
            await self._ask(ConfirmCanceled(at=self.now, how=StopHow.UNCONFIRMED))
        for node in execution.nodes.values():
            if node.status in (NodeStatus.WAITING, NodeStatus.RUNNING):
                await self._ask(ExpireNode(at=self.now, node_id=node.node_id, attempt=node.attempt))

    # --- a request, carried on by whoever comes next ------------------------------------------------------------------

    async def _ask(self, command: Command) -> bool:
        commit_id, hold = self._id(), _Hold()
        twin = self.unsteady and self.random.random() < 0.1
        if twin:
            self._twins.append(self._carried_on(command, commit_id, hold))
        known = empty_execution(RUN_ID)
        for tries in range(100):
            origin = CommandContext(
                actor=WHO, idempotency_key=commit_id, commit_id=commit_id, resumed=tries > 0, hold=hold
            )
            try:
                if not known.exists:
                    known = await self._look()
                handled = await commit(self.stores, known, command, origin)
            except (Died, AppendConflict, RunNotFound):
                hold.taken_over += 1
                hold.mine = hold.taken_over
                known = empty_execution(RUN_ID)
                continue
            if handled.refused is None and handled.events:
                self.accepted[commit_id] = command
            self.figures["refusals" if handled.refused else "accepted"] += 1
            return handled.refused is None and bool(handled.events)
        raise AssertionError("a request that is never answered")

    async def _carried_on(self, command: Command, commit_id: CommitId, hold: _Hold) -> None:
        """A second one with the same key, who believes the first to be dead."""
        await _turn()
        hold.taken_over += 1
        theirs = _Hold(taken_over=hold.taken_over, mine=hold.taken_over)
        origin = CommandContext(actor=WHO, idempotency_key=commit_id, commit_id=commit_id, resumed=True, hold=theirs)
        try:
            await commit(self.stores, await self._look(), command, origin)
        except (Died, AppendConflict, RunNotFound):
            self.figures["lost"] += 1

    async def _look(self) -> Execution:
        for _ in range(100):
            try:
                await self.log.way()
                return self._truth()
            except Died:
                continue
        raise AssertionError("a log that cannot be read")

    def _free(self, execution: Execution) -> Node | None:
        if execution.status.is_terminal or execution.cancel is not None:
            return None
        free = [
            node
            for node in execution.nodes.values()
            if node.status is NodeStatus.READY
            or (node.status is NodeStatus.RUNNING and node.lease_until is not None and node.lease_until <= self.now)
        ]
        return self.random.choice(free) if free else None

    def _id(self) -> CommitId:
        self.ids += 1
        return CommitId(f"c{self.ids}")

    def _truth(self) -> Execution:
        newer = (stored for stored in self.log.commits if stored.sequence > self._known.version)
        self._known = fold_commits(newer, self._known)
        return self._known

    # --- the judgement ------------------------------------------------------------------------------------------------

    def _judged(self) -> Iterator[Violation]:
        end = fold_commits(self.log.commits, empty_execution(RUN_ID))
        self.figures.update({"deaths": self.log.deaths, "commits": len(self.log.commits)})
        self.figures[f"ended {end.status.value}"] += 1
        evidence = Evidence(
            logs={RUN_ID: self.log.commits},
            ends={RUN_ID: end},
            snapshots={},
            indexes=(),
            told=(),
            quiet=True,
            troubles=(),
        )
        for broken, check in CHECKS.items():
            for subject, detail in check(evidence):
                yield Violation(broken=broken, subject=subject, detail=detail)
        for subject, detail in self._requests():
            yield Violation(broken=NOT_ONCE, subject=subject, detail=detail)
        for subject, detail in self._heard_for_another():
            yield Violation(broken=OVERTAKEN, subject=subject, detail=detail)

    def _requests(self) -> Iterator[Finding]:
        times = Counter(stored.commit.commit_id for stored in self.log.commits)
        for commit_id, number in times.items():
            if number > 1:
                yield commit_id, f"stands in the log {number} times"
        for commit_id, command in self.accepted.items():
            if commit_id not in times:
                yield commit_id, f"{type(command).__name__} was accepted, and no log has it"

    def _heard_for_another(self) -> Iterator[Finding]:
        """What a holder says counts for his own attempt only."""
        for stored in self.log.commits:
            command = self.accepted.get(stored.commit.commit_id)
            if isinstance(command, SucceedNode | FailNode | ReportNodeProgress | PutNodeWaiting):
                first = stored.commit.events[0]
                counted = getattr(first, "attempt", None)
                if counted != command.attempt:
                    name = type(command).__name__
                    yield stored.commit.commit_id, f"{name} of attempt {command.attempt} counted for {counted}"


def play_bare(seed: int) -> tuple[tuple[Violation, ...], Counter[str]]:
    """The interleaving of this seed: what it broke, and what happened in it."""
    bare = Bare(seed)
    return tuple(bare.play()), bare.figures
