"""A broker, two gateways and a worker as processes that are killed with -9 and started again, each alone."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import httpx

from support.broker import Broker
from support.programs import FLOWS, Program, address_of, server, worker

VICTIMS = ["gateway-0", "gateway-1", "worker", "broker"]
QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "1.5",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.4",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": "0.5",
}


class System:
    """A broker, two gateways that keep their addresses, and a worker: processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened = ExitStack()
        self._broker = Broker(folder)
        self._gateways: list[Program] = []
        self._workers: list[Program] = []
        self.addresses: list[str] = []
        self.clients: list[httpx.Client] = []

    def __enter__(self) -> System:
        with ExitStack() as opened:
            self._opened = opened
            opened.enter_context(self._broker)
            self._gateways = [self._gateway(number, "0") for number in range(2)]
            self._workers = [self._worker()]
            self.addresses = [address_of(gateway) for gateway in self._gateways]
            self.clients = [opened.enter_context(httpx.Client(base_url=one, timeout=30.0)) for one in self.addresses]
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def kill(self, victim: str) -> None:
        """As hard as the operating system can, and start it again."""
        match victim:
            case "broker":
                self._broker.kill()
                self._broker.start()
            case "worker":
                self._killed(self._workers[-1])
                self._workers.append(self._worker())
            case _:
                number = int(victim[-1])
                self._killed(self._gateways[number])
                self._gateways[number] = self._gateway(number, self.addresses[number].rpartition(":")[2])
                address_of(self._gateways[number])

    def _killed(self, program: Program) -> None:
        program.signal(signal.SIGKILL)
        program.exit_code()

    def _gateway(self, number: int, port: str) -> Program:
        arguments = ("--nats-url", self._broker.url, "--port", port, "--data-dir", f"data-{number}")
        return self._opened.enter_context(server("up", *arguments, cwd=self._folder, env=QUICK))

    def _worker(self) -> Program:
        arguments = ("--nats-url", self._broker.url, "--flow-resolver", f"{FLOWS}:resolve", "--concurrency", "10")
        return self._opened.enter_context(worker(*arguments, cwd=self._folder, env=QUICK))
