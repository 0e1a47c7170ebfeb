"""The parts of a round that are about the executions dialect, which only this product has; as in `parts.py`."""

from bench import executions, node_work
from bench.measures import p50, p95
from bench.plan import Bench, Part
from bench.systems import Stack
from pyoco_server.adapters.embedded_nats.server import Sync

WHOLE_FORK = 1000


def commands(bench: Bench, stack: Stack) -> None:
    """Progress commands beside the bare framework, beside their writes alone, and all on one execution."""
    if stack.name != "ours":
        return
    bare = _bare(bench)
    for sync in bench.scale.syncs:
        raw = _raw(bench, sync)
        with bench.journal.step("ours", f"commands, {sync}"), bench.started(stack, sync):
            for n in bench.scale.connections:
                _commands(bench, stack, sync, n, bare.get(n), raw.get(n))


def _commands(bench: Bench, stack: Stack, sync: Sync, n: int, bare: float | None, raw: float | None) -> None:
    row = f"command.{n}.{sync}"
    apart = executions.command_rate(stack.port, node_work.held_apart(stack, n), seconds=bench.scale.load_sec)
    bench.add("ours", row, apart)
    if bare:
        bench.add("ours", f"{row}.bare", apart / bare)
    if raw:
        bench.add("ours", f"{row}.raw", apart / raw)
    if n > 1:
        together = executions.command_rate(stack.port, node_work.held_together(stack, n), seconds=bench.scale.load_sec)
        bench.add("ours", f"command.one.{n}.{sync}", together)
        bench.add("ours", f"command.one.{n}.{sync}.apart", together / apart)


def _bare(bench: Bench) -> dict[int, float]:
    rates: dict[int, float] = {}
    with bench.limit_folder("bare framework, commands") as folder:
        rates = executions.bare_rates(folder, bench.scale.connections, seconds=max(1.0, bench.scale.load_sec / 2))
        for n, rate in rates.items():
            bench.add("limit", f"bare.command.{n}", rate)
    return rates


def _raw(bench: Bench, sync: Sync) -> dict[int, float]:
    rates: dict[int, float] = {}
    with bench.limit_folder(f"writes of a command, {sync}") as folder:
        rates = executions.raw_rates(folder, sync, bench.scale.connections, count=bench.scale.raw_commands)
        for n, rate in rates.items():
            bench.add("limit", f"raw.command.{n}.{sync}", rate)
    return rates


def claims(bench: Bench, stack: Stack) -> None:
    """How soon a waiting claimer has a node, and how fast many take many."""
    if stack.name != "ours":
        return
    with bench.journal.step("ours", "claims"), bench.started(stack, "interval"):
        taken = executions.claim_latency(stack, bench.scale.claims_waited_for)
        bench.add("ours", "claim.waiting.p50", p50(taken.waiting_ms))
        bench.add("ours", "claim.waiting.p95", p95(taken.waiting_ms))
        bench.add("ours", "claim.waiting.share", p50(taken.waiting_ms) / p50(taken.ready_ms))
    with bench.journal.step("ours", "claims by many"), bench.started(stack, "interval"):
        nodes = node_work.held_apart(stack, executions.CLAIMERS)
        commands = executions.command_rate(stack.port, nodes, seconds=max(1.0, bench.scale.load_sec / 2))
        rate = executions.claim_rate(stack, bench.scale.claims)
        bench.add("ours", "claim.rate", rate)
        bench.add("ours", "claim.share", rate / commands)


def fork(bench: Bench, stack: Stack) -> None:
    """A wide graph beside as many executions of one node."""
    if stack.name != "ours":
        return
    width = bench.scale.fork_width
    for sync in bench.scale.syncs:
        with bench.journal.step("ours", f"a fork of {width} nodes, {sync}"), bench.started(stack, sync):
            apart = executions.apart_seconds(stack, width + 2)
            together = executions.fork_seconds(stack, width)
            bench.add("ours", f"fork.rate.{sync}", (width + 2) / together)
            bench.add("ours", f"fork.share.{sync}", apart / together)
            if width == WHOLE_FORK:
                bench.add("ours", f"fork.seconds.{sync}", together)


def keys(bench: Bench, stack: Stack) -> None:
    """POST /runs with a key and without."""
    if stack.name != "ours":
        return
    for sync in bench.scale.syncs:
        with bench.journal.step("ours", f"runs with a key, {sync}"), bench.started(stack, sync):
            bench.add("ours", f"keyed.{sync}", executions.cost_of_a_key(stack, seconds=bench.scale.load_sec))


EXECUTION_PARTS: dict[str, Part] = {"commands": commands, "claims": claims, "fork": fork, "keys": keys}
