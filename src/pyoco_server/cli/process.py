"""What the long-running programs share: event loop, stop signals, and the address of the broker."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pyoco_server.cli.output import INTERRUPTED, OK, localized, print_stderr
from pyoco_server.config import NatsBackendConfig, names_a_broker


@dataclass(slots=True)
class StopRequest:
    """SIGINT and SIGTERM as events: the first signal sets `asked`, the second one `at_once`."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)
    by: signal.Signals | None = None

    def listen(self) -> None:
        """Handle both signals for as long as the loop runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._receive, number)

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.by is signal.SIGINT else OK

    def _receive(self, number: signal.Signals) -> None:
        if self.asked.is_set():
            self.at_once.set()
        self.by = self.by or number
        self.asked.set()


def operator_name() -> str:
    """Who works at this terminal, for the audit trail: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def run_until_stopped(program: Callable[[StopRequest], Awaitable[None]]) -> int:
    """Run a program to its end and return its exit code; on uvloop if installed: its socket calls are cheaper."""

    async def run() -> int:
        stop = StopRequest()
        stop.listen()
        await program(stop)
        return stop.exit_code

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def find_broker(config: NatsBackendConfig, nats_url: str | None, data_dir: str | None) -> NatsBackendConfig:
    """The config with the address of the named NATS, else of the `pyoco-server up` that uses the data folder.

    Without either it stays the default address, and a message says that this is a guess.
    """
    from pyoco_server.bootstrap import locate_broker

    if nats_url is not None or (data_dir is None and names_a_broker()):
        return config
    found = locate_broker(config)
    if found is config:
        folder, address = config.data_folder, config.nats_url_without_secrets
        print_stderr(
            localized(
                f"no pyoco-server is up with the data folder {folder}; trying {address} "
                "(--data-dir or --nats-url names another)",
                f"データフォルダ {folder} で稼働中の pyoco-server がないため、{address} に接続します"
                "（--data-dir か --nats-url で指定できます）",
            )
        )
    return found
