"""The scale, the order and the output of the measurements."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.journal import Journal, Side
from bench.load import Tool
from bench.row import CONNECTIONS
from bench.rows import LIST_SIZES
from bench.systems import Stack
from pyoco_server.adapters.embedded_nats.server import Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of each measurement; the quick pass is buffered only and less precise."""

    rounds: int = 3
    syncs: tuple[Sync, ...] = ("interval", "always")
    connections: tuple[int, ...] = CONNECTIONS
    load_sec: float = 4.0
    raw_messages: int = 20_000
    drain_one: int = 1000
    drain_ten: int = 300
    idle_runs: int = 100
    idle_runs_five_tags: int = 40
    fibo_runs: int = 20
    cancels: int = 12
    stream_events: int = 120
    log_lines: int = 200_000
    log_reads: int = 200
    watchers: int = 100
    watched_sec: int = 10
    raw_commands: int = 4000
    claims_waited_for: int = 60
    claims: int = 1000
    fork_width: int = 1000
    list_sizes: tuple[int, ...] = LIST_SIZES
    list_requests: int = 50
    list_patience_sec: float = 3.0
    tagged_jobs: int = 100_000
    strategies: int = 100_000


QUICK = Scale(
    rounds=1,
    syncs=("interval",),
    connections=(CONNECTIONS[0], CONNECTIONS[-1]),
    load_sec=1.0,
    raw_messages=3000,
    drain_one=200,
    drain_ten=60,
    idle_runs=15,
    idle_runs_five_tags=5,
    fibo_runs=5,
    cancels=2,
    stream_events=30,
    log_lines=40_000,
    log_reads=40,
    watchers=20,
    watched_sec=3,
    raw_commands=1000,
    claims_waited_for=15,
    claims=200,
    fork_width=200,
    list_sizes=LIST_SIZES[:1],
    list_requests=20,
    list_patience_sec=0.5,
    tagged_jobs=5000,
    strategies=5000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One run of the benchmark: the sides, the scale, and the journal of all figures."""

    scale: Scale
    contenders: Sequence[Stack]
    journal: Journal
    client: Tool

    @contextmanager
    def started(self, stack: Stack, sync: Sync, worker_tags: Sequence[str] = ()) -> Iterator[None]:
        """A new stack for the duration of the block; notes what it leaves behind."""
        try:
            stack.start(sync, worker_tags=worker_tags)
            yield
        finally:
            stack.stop()
            for line in stack.left_behind:
                self.journal.note(f"{stack.name}: {line}")

    @contextmanager
    def limit_folder(self, what: str) -> Iterator[Path]:
        with self.journal.step("limit", what), tempfile.TemporaryDirectory(prefix="pyoco-bench-limit-") as folder:
            yield Path(folder)

    def add(self, side: Side, row: str, value: float) -> None:
        self.journal.add(side, row, value)


Part = Callable[[Bench, Stack], None]


def run(bench: Bench, parts: Sequence[Part], limits: Callable[[Bench], None] | None) -> None:
    """Every part once per round, ours and the peer in turn, so that other load affects both."""
    for number in range(1, bench.scale.rounds + 1):
        bench.journal.round = number
        if limits is not None:
            limits(bench)
        # The second side has a warmer machine, so they alternate.
        in_turn = bench.contenders if number % 2 else list(reversed(bench.contenders))
        for part in parts:
            for stack in in_turn:
                part(bench, stack)
