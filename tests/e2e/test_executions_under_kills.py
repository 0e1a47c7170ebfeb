"""Several callers at two gateways that are killed at any moment: no command is lost or doubled, and cancel wins.

A state machine by hand, because hypothesis spends its time on small examples, and here each kill costs a second: what
is done next is drawn from a seed, all at once and in any order; what must be so is looked at when everything has ended.
"""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from support.broker import Broker
from support.effort import chosen_seed
from support.executions import BODIES, WAIT_KEY, Caller
from support.programs import Program, address_of, server
from support.witness import Asked, check_commands, check_events

DIAMOND: dict[str, Any] = {
    "nodes": ["a", "b", "c", "d"],
    "edges": [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"]],
}
CALLERS = 12
ROUNDS, KILL_EVERY, ENOUGH_SEC = 48, 6, 14.0
# The last executions get all the attention: many commands to each, rather than one to many.
AT_A_TIME = 4
# What moves things on comes more often than what ends them.
COMMANDS = [
    *BODIES,
    *("node start", "node success", "node progress") * 6,
    *("node wait", "node resume") * 3,
]


class Gateways:
    """Two gateways as processes on one broker, killed and started again."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._opened = ExitStack()
        self._programs: list[Program] = []
        self.clients: list[httpx.Client] = []

    def __enter__(self) -> Gateways:
        self._programs = [self._start(number) for number in range(2)]
        self.clients = [self._connect(program) for program in self._programs]
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def kill(self, number: int) -> None:
        """As hard as the operating system can, whatever it is doing."""
        self._programs[number].signal(signal.SIGKILL)

    def bring_back(self, number: int) -> None:
        self._programs[number].exit_code()
        self._programs[number] = self._start(number)
        self.clients[number] = self._connect(self._programs[number])

    def _start(self, number: int) -> Program:
        arguments = ("--nats-url", self._broker.url, "--port", "0", "--data-dir", f"data-{number}")
        return self._opened.enter_context(server("up", *arguments, cwd=self._folder))

    def _connect(self, program: Program) -> httpx.Client:
        limits = httpx.Limits(max_connections=None)
        return self._opened.enter_context(httpx.Client(base_url=address_of(program), timeout=30.0, limits=limits))


class Callers:
    """What callers do, in any order and at once."""

    def __init__(self, gateways: Gateways, chance: random.Random) -> None:
        self._gateways = gateways
        self._chance = chance
        self._crowd = ThreadPoolExecutor(CALLERS)
        self.asked: list[Asked] = []
        self.graphs: dict[str, str] = {}
        self._reported: list[str] = []

    def create(self) -> None:
        """One more execution, mostly of the graph and mostly started."""
        graph_id, to = self._chance.choice(["diamond", "diamond", "open"]), self._some_gateways()
        asked = self._noted(Asked("/executions", "CreateExecution", {"graphId": graph_id}))
        self.gather(self._send(asked, to))
        self.graphs[asked.execution_id] = graph_id
        if self._chance.random() < 0.9:
            self.gather(self._send(self._noted(Asked.to(asked.execution_id, "start", {}, "")), to))

    def begin(self) -> None:
        """Executions of which nobody speaks but holders of their nodes, who have much to report."""
        for _ in range(CALLERS):
            asked = self._noted(Asked("/executions", "CreateExecution", {"graphId": "open"}))
            self.gather(self._send(asked, (0,)))
            self.graphs[asked.execution_id] = "open"
            for command in ("start", "node start"):
                self.gather(self._send(self._noted(Asked.to(asked.execution_id, command, {}, "a")), (1,)))
            self._reported.append(asked.execution_id)

    def reports(self, to: int) -> list[Future[None]]:
        """What can be told twice, unlike most: a command that was done before and is done again would show."""
        sent: list[Future[None]] = []
        for execution_id in self._reported * 3:
            body = {"progress": self._chance.randint(0, 100)}
            sent += self._send(self._noted(Asked.to(execution_id, "node progress", body, "a")), (to,))
        return sent

    def crowd(self) -> list[Future[None]]:
        """At once: some take nodes and end them, others command whatever they like, or say again what was said."""
        sent = [
            self._crowd.submit(self._work, f"worker-{number}", self._some_gateways())
            for number in range(self._chance.randint(0, 4))
        ]
        for _ in range(self._chance.randint(1, 8)):
            execution_id = self._chance.choice(list(self.graphs)[-AT_A_TIME:])
            command, node = self._chance.choice(COMMANDS), self._chance.choice(DIAMOND["nodes"])
            asked = self._noted(Asked.to(execution_id, command, BODIES[command] or {}, node))
            sent += self._send(asked, self._some_gateways())
        again = self._chance.sample(self.asked, min(len(self.asked), self._chance.randint(0, 3)))
        for asked in again:
            sent += self._send(asked, self._some_gateways())
        return sent

    def kill(self) -> None:
        """While all of that is under way, after some of it."""
        killed = self._chance.randrange(2)
        sent = self.crowd() + self.reports(killed)
        for _, one in zip(range(self._chance.randrange(len(sent))), as_completed(sent), strict=False):
            one.result()
        self._gateways.kill(killed)
        self.gather(sent)
        self._gateways.bring_back(killed)

    def settle(self) -> None:
        """What was not answered is sent again, as every caller does; then everything is brought to its end."""
        left = [asked for asked in self.asked if not asked.answers]
        self.gather([one for asked in left for one in self._send(asked, self._some_gateways())])
        for execution_id, graph_id in self.graphs.items():
            _bring_to_its_end(Caller(self._gateways.clients[1]), execution_id, graph_id)
        self._crowd.shutdown()

    def gather(self, sent: list[Future[None]]) -> None:
        for one in sent:
            one.result()

    def _work(self, worker_id: str, to: tuple[int, ...]) -> None:
        """Take a node, say how far it is, ask somebody, and end it."""
        claim = Asked.for_work("diamond", worker_id)
        for one in to:
            claim.send(self._gateways.clients[one])
        if not claim.answers:
            return  # there was nothing to be had, or the gateway died over it
        told = self._noted(claim).answers[0].json()
        for command in ("node progress", "node wait", "node resume", "node success"):
            body = {**BODIES[command], "attempt": told["attempt"]}
            asked = self._noted(Asked.to(told["executionId"], command, body, told["nodeId"]))
            for one in to:
                asked.send(self._gateways.clients[one])

    def _send(self, asked: Asked, to: tuple[int, ...]) -> list[Future[None]]:
        return [self._crowd.submit(asked.send, self._gateways.clients[one]) for one in to]

    def _noted(self, asked: Asked) -> Asked:
        self.asked.append(asked)
        return asked

    def _some_gateways(self) -> tuple[int, ...]:
        return self._chance.choice([(0,), (1,), (0, 1), (1, 0)])


def _bring_to_its_end(caller: Caller, execution_id: str, graph_id: str) -> None:
    """Do whatever is left to do; if anything were stuck, it would not come to its end."""
    for _ in range(40):
        shown = caller.shown(execution_id)
        if shown["status"] != "ACTIVE":
            return
        nodes = {node["nodeId"]: node["status"] for node in shown["nodes"]}
        held = [node for node, status in nodes.items() if status == "RUNNING"]
        waiting = [node for node, status in nodes.items() if status == "WAITING"]
        if shown["cancelRequestedAt"] is not None or held:
            for node in held:
                caller.ask(execution_id, "node success", node=node)
        elif waiting:
            caller.ask(execution_id, "node resume", {"resumeKey": WAIT_KEY}, node=waiting[0]).raise_for_status()
        elif shown["startedAt"] is None:
            caller.done(execution_id, "start")
        elif graph_id == "diamond":
            caller.done(execution_id, "node start", node=next(n for n, status in nodes.items() if status == "READY"))
        else:
            caller.done(execution_id, "complete")
    raise AssertionError(f"{execution_id} does not come to its end: {shown}")


def _check(gateways: Gateways, callers: Callers) -> None:
    for asked in callers.asked:
        asked.check_answers()
    for execution_id, graph_id in callers.graphs.items():
        events = Caller(gateways.clients[0]).events(execution_id)
        check_commands([asked for asked in callers.asked if asked.execution_id == execution_id], events)
        check_events(events, DIAMOND["edges"] if graph_id == "diamond" else [])
        ours, theirs = [Caller(client).shown(execution_id) for client in gateways.clients]
        assert ours == theirs
        assert ours["status"] in ("COMPLETED", "FAILED", "CANCELED")
        assert all(node["status"] not in ("RUNNING", "WAITING") for node in ours["nodes"])
    # That something happened at all: a check of nothing would find nothing.
    counters = {asked.command for asked in callers.asked if asked.is_accepted}
    assert {"StartNode", "ReportNodeProgress", "PutNodeWaiting", "ResumeNode", "SucceedNode"} <= counters
    assert any(not asked.is_accepted for asked in callers.asked)
    assert any(len(asked.answers) > 1 for asked in callers.asked)


def test_no_command_is_lost_or_doubled_whichever_gateway_dies(tmp_path: Path) -> None:
    number = chosen_seed()
    with Broker(tmp_path) as broker, Gateways(broker, tmp_path) as gateways:
        gateways.clients[0].put("/graphs/diamond", json=DIAMOND).raise_for_status()
        callers = Callers(gateways, random.Random(number))
        began = time.monotonic()
        try:
            callers.begin()
            for turn in range(ROUNDS):
                if turn % 3 == 0:
                    callers.create()
                # On a slow machine there are fewer kills, rather than no end.
                if turn % KILL_EVERY == KILL_EVERY - 1 and time.monotonic() - began < ENOUGH_SEC:
                    callers.kill()
                else:
                    callers.gather(callers.crowd())
            callers.settle()
            _check(gateways, callers)
        except BaseException as error:
            error.add_note(f"again with PYOCO_TEST_SEED={number}")
            raise
