"""Several callers at two gateways that are killed at any moment: no command is lost or doubled, and cancel wins."""

from __future__ import annotations

import os
import random
import signal
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from support.broker import Broker
from support.executions import BODIES, WAIT_KEY, Caller
from support.programs import Program, address_of, server
from support.witness import Asked, check_commands, check_events

DIAMOND: dict[str, Any] = {
    "nodes": ["a", "b", "c", "d"],
    "edges": [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"]],
}
CALLERS = 8
# Each example may have to wait once for the lease (5 s) of a request that a killed gateway was at.
EXAMPLES, STEPS = 3, 20

NODES = st.sampled_from(DIAMOND["nodes"])
GATEWAYS = st.sampled_from([(0,), (1,), (0, 1), (1, 0)])
# What moves things on comes more often than what ends them.
COMMANDS = st.sampled_from(
    [*BODIES, *("start", "node start", "node success", "node progress") * 4, *("node wait", "node resume") * 2]
)
COMMAND = st.tuples(st.integers(0, 5), COMMANDS, NODES, GATEWAYS)


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


class Callers(RuleBasedStateMachine):
    """What callers do, in any order and at once; what must be so is looked at when all is over."""

    gateways: Gateways

    def __init__(self) -> None:
        super().__init__()
        self._crowd = ThreadPoolExecutor(CALLERS)
        self._asked: list[Asked] = []
        self._graphs: dict[str, str] = {}

    @rule(graph_id=st.sampled_from(["diamond", "open"]), to=GATEWAYS)
    def create(self, graph_id: str, to: tuple[int, ...]) -> None:
        self._create(graph_id, to)

    @rule(commands=st.lists(COMMAND, min_size=1, max_size=8))
    def command(self, commands: list[tuple[int, str, str, tuple[int, ...]]]) -> None:
        self._gather(self._send(commands))

    @rule(number=st.integers(0, 10_000), to=GATEWAYS)
    def say_again(self, number: int, to: tuple[int, ...]) -> None:
        if self._asked:
            again = self._asked[number % len(self._asked)]
            self._gather([self._crowd.submit(again.send, self.gateways.clients[one]) for one in to])

    @rule(commands=st.lists(COMMAND, min_size=4, max_size=12), killed=st.sampled_from([0, 1]), after=st.integers(0, 6))
    def kill(self, commands: list[tuple[int, str, str, tuple[int, ...]]], killed: int, after: int) -> None:
        """While these commands are under way, after so many answers."""
        sent = self._send(commands)
        for _, one in zip(range(after), as_completed(sent), strict=False):
            one.result()
        self.gateways.kill(killed)
        self._gather(sent)
        self.gateways.bring_back(killed)

    def teardown(self) -> None:
        try:
            if self._graphs:
                self._settle()
                self._check()
        finally:
            self._crowd.shutdown()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _create(self, graph_id: str, to: tuple[int, ...]) -> None:
        asked = Asked("/executions", "CreateExecution", {"graphId": graph_id})
        self._gather([self._crowd.submit(asked.send, self.gateways.clients[one]) for one in to])
        asked.execution_id = asked.answers[0].json()["executionId"]
        self._asked.append(asked)
        self._graphs[asked.execution_id] = graph_id

    def _send(self, commands: list[tuple[int, str, str, tuple[int, ...]]]) -> list[Future[None]]:
        if not self._graphs:
            self._create("diamond", (0,))
        ids, sent = list(self._graphs), []
        for place, command, node, to in commands:
            asked = Asked.to(ids[place % len(ids)], command, BODIES[command] or {}, node)
            self._asked.append(asked)
            sent += [self._crowd.submit(asked.send, self.gateways.clients[one]) for one in to]
        return sent

    def _gather(self, sent: list[Future[None]]) -> None:
        for one in sent:
            one.result()

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What was not answered is sent again, as every caller does; then everything is brought to its end."""
        left = [asked for asked in self._asked if not asked.answers]
        self._gather([self._crowd.submit(asked.send, self.gateways.clients[0]) for asked in left])
        for execution_id, graph_id in self._graphs.items():
            _bring_to_its_end(Caller(self.gateways.clients[1]), execution_id, graph_id)

    def _check(self) -> None:
        callers = [Caller(client) for client in self.gateways.clients]
        for asked in self._asked:
            asked.check_answers()
        for execution_id, graph_id in self._graphs.items():
            events = callers[0].events(execution_id)
            note(f"{graph_id} {execution_id}: {[event['type'] for event in events]}")
            check_commands([asked for asked in self._asked if asked.execution_id == execution_id], events)
            check_events(events, DIAMOND["edges"] if graph_id == "diamond" else [])
            shown = [caller.shown(execution_id) for caller in callers]
            assert shown[0] == shown[1]
            assert shown[0]["status"] in ("COMPLETED", "FAILED", "CANCELED")
            assert all(node["status"] not in ("RUNNING", "WAITING") for node in shown[0]["nodes"])


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


def test_no_command_is_lost_or_doubled_whichever_gateway_dies(tmp_path: Path) -> None:
    number = int(os.environ.get("PYOCO_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    bounded = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        # What threads and kills have done once is not done again by trying less of it.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with Broker(tmp_path) as broker, Gateways(broker, tmp_path) as gateways:
        gateways.clients[0].put("/graphs/diamond", json=DIAMOND).raise_for_status()
        machine = type("Machine", (Callers,), {"gateways": gateways})
        try:
            run_state_machine_as_test(seed(number)(machine), settings=bounded)
        except BaseException as error:
            error.add_note(f"again with PYOCO_TEST_SEED={number}")
            raise
