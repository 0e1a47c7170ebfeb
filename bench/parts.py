"""The parts of a round: which stack is started for which rows; each part is the same for both sides."""

import time
from dataclasses import asdict

from bench import limits, measures, run_logs, streams, transports
from bench.access import Guarded, cost_of_access
from bench.execution_parts import EXECUTION_PARTS
from bench.load import Tool
from bench.log_reads import read_times
from bench.measures import LIST_QUERIES, MORE_LIST_QUERIES, NEVER_TOGETHER, p50, p95, p99
from bench.plan import Bench, Part
from bench.rows import LIST_SIZES
from bench.systems import DEFAULT_TAGS, Ours, Stack
from bench.tag_parts import TAG_PARTS
from bench.wheels import sync_beside_pip
from pyoco_server.adapters.embedded_nats.server import Sync

FIVE_TAGS = ("a", "b", "c", "d", "e")
# A list that takes this long is measured once and without filters: nobody needs the second digit of such a figure.
TOO_SLOW_TO_REPEAT_MS = 10_000.0


def measure_limits(bench: Bench) -> None:
    clients: tuple[Tool, ...] = ("wrk", "built-in") if bench.client == "wrk" else ("built-in",)
    body = measures.submit_body("one")
    seconds = max(1.0, bench.scale.load_sec / 2)
    for connections in bench.scale.connections:
        with bench.limit_folder(f"bare framework, {connections} connections") as folder:
            rates = limits.bare_rates(folder, body, clients, connections=connections, seconds=seconds)
            for client, rate in rates.items():
                bench.add("limit", f"bare.{client}.{connections}", rate)
    for sync in bench.scale.syncs:
        with bench.limit_folder(f"raw broker, {sync}") as folder:
            for act, rate in limits.raw_broker(folder, sync, count=bench.scale.raw_messages).items():
                bench.add("limit", f"raw.{act}.{sync}", rate)


def submit(bench: Bench, stack: Stack) -> None:
    for sync in bench.scale.syncs:
        with bench.journal.step(stack.name, f"submit, {sync}"), bench.started(stack, sync):
            for connections in bench.scale.connections:
                seconds = bench.scale.load_sec
                rate = measures.submit_rate(stack, bench.client, connections=connections, seconds=seconds)
                bench.add(stack.name, f"submit.{connections}.{sync}", rate)


def drain(bench: Bench, stack: Stack) -> None:
    if not _can_run(bench, stack):
        return
    for sync in bench.scale.syncs:
        with bench.journal.step(stack.name, f"drain, {sync}"), bench.started(stack, sync):
            one = measures.drain_rate(stack, "one", bench.scale.drain_one)
            bench.add(stack.name, f"drain.one.{sync}", one)
            bench.add(stack.name, f"drain.ten.{sync}", measures.drain_rate(stack, "ten", bench.scale.drain_ten))
    with bench.journal.step(stack.name, "drain, one task, two workers for the peer"), bench.started(stack, "interval"):
        # One worker of ours has two runner processes; the peer's has one, so it gets a second worker here.
        workers = 2 if stack.name == "peer" else 1
        bench.add(
            stack.name, "drain.one.peer2", measures.drain_rate(stack, "one", bench.scale.drain_one, workers=workers)
        )


def idle(bench: Bench, stack: Stack) -> None:
    if not _can_run(bench, stack):
        return
    for sync in bench.scale.syncs:
        _idle(bench, stack, sync, DEFAULT_TAGS, bench.scale.idle_runs)
        _idle(bench, stack, sync, FIVE_TAGS, bench.scale.idle_runs_five_tags)


def _idle(bench: Bench, stack: Stack, sync: Sync, tags: tuple[str, ...], count: int) -> None:
    with bench.journal.step(stack.name, f"idle, {len(tags)} tag(s), {sync}"):
        began = time.perf_counter()
        with bench.started(stack, sync, tags):
            startup_sec = time.perf_counter() - began
            taken = measures.end_to_end_ms(stack, "one", count, tags)
            bench.add(stack.name, f"idle.{len(tags)}.{sync}.p50", p50(taken))
            bench.add(stack.name, f"idle.{len(tags)}.{sync}.p99", p99(taken))
            if sync == "interval" and tags == DEFAULT_TAGS:
                bench.add(stack.name, "startup", startup_sec)
                _one_tag_extras(bench, stack)


def _one_tag_extras(bench: Bench, stack: Stack) -> None:
    bench.add(stack.name, "fibo40", p50(measures.end_to_end_ms(stack, "fibo40", bench.scale.fibo_runs)))
    for part, mib in stack.memory_mib().items():
        bench.add(stack.name, f"memory.{part}", mib)
    cancels = measures.cancel(stack, bench.scale.cancels)
    bench.add(stack.name, "cancel.lost", 100 * cancels.lost / bench.scale.cancels)
    if cancels.taken_ms:
        bench.add(stack.name, "cancel", p50(cancels.taken_ms))


def lists(bench: Bench, stack: Stack) -> None:
    with bench.journal.step(stack.name, "lists"), bench.started(stack, "interval"):
        stored = 0
        for size in bench.scale.list_sizes:
            slowest = max(bench.journal.samples(stack.name, f"list.{size}.all"), default=0.0)
            if slowest > TOO_SLOW_TO_REPEAT_MS:
                bench.journal.note(
                    f"{stack.name}: lists at {size:,} runs take {slowest / 1000:.0f} s: one sample, no filters"
                )
                return
            with bench.journal.step(stack.name, f"lists at {size:,} runs"):
                stack.fill(stored, size - stored)
                stored = size
                _lists_at(bench, stack, size)


def _lists_at(bench: Bench, stack: Stack, size: int) -> None:
    scale = bench.scale
    for name, query in LIST_QUERIES.items():
        lists = measures.list_runs(stack, query, count=scale.list_requests, patience_sec=scale.list_patience_sec)
        bench.add(stack.name, f"list.{size}.{name}", p50(lists.taken_ms))
        if lists.refused:
            bench.journal.note(f"{stack.name}: some lists at {size:,} runs were refused with an error and not timed")
        if p50(lists.taken_ms) > TOO_SLOW_TO_REPEAT_MS:
            return
    if stack.name == "ours" and size == LIST_SIZES[-1]:
        _more_lists(bench, stack)


def _more_lists(bench: Bench, stack: Stack) -> None:
    """Every filter beside no filter, turn by turn: a noisy moment then meets both."""
    scale = bench.scale
    for name, query in {**LIST_QUERIES, **MORE_LIST_QUERIES, "deep": measures.deep_cursor(stack)}.items():
        if not query:
            continue
        plain, filtered = (
            measures.list_runs(
                stack,
                asked,
                count=scale.list_requests,
                patience_sec=scale.list_patience_sec,
                empty=asked == query and name == NEVER_TOGETHER,
            )
            for asked in ("", query)
        )
        bench.add(stack.name, f"list.filter.{name}", p50(filtered.taken_ms) / p50(plain.taken_ms))


def sse(bench: Bench, stack: Stack) -> None:
    """Ours only: what the peer stores is not for this program to write."""
    if stack.name != "ours":
        return
    with bench.journal.step(stack.name, "streams"), bench.started(stack, "interval"):
        taken = streams.stored_to_reader(stack, bench.scale.stream_events)
        bench.add(stack.name, "sse.p50", p50(taken.sse_ms))
        bench.add(stack.name, "sse.p95", p95(taken.sse_ms))
        bench.add("limit", "raw.watch", p50(taken.bare_ms))


def logs(bench: Bench, stack: Stack) -> None:
    """Ours only: the peer stores no lines."""
    if stack.name != "ours":
        return
    with bench.journal.step(stack.name, "logs"), bench.started(stack, "interval", DEFAULT_TAGS):
        stored = run_logs.stored(stack, bench.scale.log_lines)
        bench.add(stack.name, "logs.rate", stored.lines_per_sec)
        bench.add(stack.name, "logs.share", stored.bytes_per_sec / stored.bare_bytes_per_sec)
        cancels = measures.cancel(stack, bench.scale.cancels, "loud")
        if cancels.lost:
            bench.journal.note(f"ours: {cancels.lost} cancels of a run that prints were lost")
        if cancels.taken_ms:
            bench.add(stack.name, "cancel.loud", p50(cancels.taken_ms))


def log_reads(bench: Bench, stack: Stack) -> None:
    """Ours only: the peer stores no lines."""
    if stack.name != "ours":
        return
    with bench.journal.step(stack.name, "reads of logs"), bench.started(stack, "interval"):
        for row, value in read_times(stack, bench.scale.log_reads).items():
            bench.add(stack.name, f"logs.read.{row}", value)


def watching(bench: Bench, stack: Stack) -> None:
    """Ours only: the ways in which a log can be followed, beside each other."""
    if stack.name != "ours":
        return
    with bench.journal.step(stack.name, "ways to watch"), bench.started(stack, "interval", DEFAULT_TAGS):
        costs = transports.compare(stack, watchers=bench.scale.watchers, seconds=bench.scale.watched_sec)
        for way, cost in costs.items():
            figures = {"cpu": cost} if isinstance(cost, float) else asdict(cost)
            for figure, value in figures.items():
                bench.add(stack.name, f"ways.{way}.{figure}", value)


def _can_run(bench: Bench, stack: Stack) -> bool:
    if not stack.can_run:
        bench.journal.note(
            f"{stack.name}: its worker does not run on this interpreter: drains and latencies are skipped"
        )
    return stack.can_run


def access(bench: Bench, stack: Stack) -> None:
    """Only ours: the same gateway twice, with and without access control."""
    if stack.name != "ours":
        return
    guarded, seconds = Guarded(), bench.scale.load_sec
    with (
        bench.journal.step("ours", "access control on and off"),
        bench.started(stack, "interval"),
        bench.started(guarded, "interval"),
    ):
        for row, share in cost_of_access(stack, guarded, bench.client, seconds=seconds).items():
            bench.add("ours", f"access.{row}", share)


def wheels(bench: Bench, stack: Stack) -> None:
    """Only ours, beside a bare pip with the same files."""
    if not isinstance(stack, Ours):
        return
    with bench.journal.step("ours", "sync of wheels"), bench.started(stack, "interval"):
        sync_sec, bare_sec = sync_beside_pip(stack)
        bench.add("ours", "wheels.sync", sync_sec)
        bench.add("limit", "raw.pip", bare_sec)
        bench.add("ours", "wheels.share", sync_sec / bare_sec)


PARTS: dict[str, Part] = {
    "submit": submit,
    "drain": drain,
    "idle": idle,
    "lists": lists,
    "sse": sse,
    "logs": logs,
    "log_reads": log_reads,
    "ways": watching,
    "access": access,
    "wheels": wheels,
    **EXECUTION_PARTS,
    **TAG_PARTS,
}
