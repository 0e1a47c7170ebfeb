"""The parts of a round: which stack is started for which rows; each part is the same for both sides."""

import tempfile
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from bench import executions, limits, measures, node_work, run_logs, streams, time_series, transports
from bench import strategies as strategy_table
from bench import tags as tag_index
from bench.access import Guarded, cost_of_access
from bench.load import Tool
from bench.log_reads import read_times
from bench.measures import LIST_QUERIES, MORE_LIST_QUERIES, NEVER_TOGETHER, p50, p95, p99
from bench.plan import Bench, Part
from bench.rows import LIST_SIZES, READS
from bench.settings_cost import cost_of_settings
from bench.systems import DEFAULT_TAGS, Ours, Stack
from bench.wheels import sync_beside_pip
from pyoco_server.adapters.embedded_nats.server import Sync
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.queries.jobs import JobQuery

FIVE_TAGS = ("a", "b", "c", "d", "e")
# A list that takes this long is measured once and without filters.
TOO_SLOW_TO_REPEAT_MS = 10_000.0
WHOLE_FORK = 1000


def ours_only(part: Part) -> Part:
    """The part, skipped for the peer, which has nothing to compare."""

    def only(bench: Bench, stack: Stack) -> None:
        if stack.name == "ours":
            part(bench, stack)

    return only


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
    """Every filter and no filter in turn, so that other load affects both."""
    scale = bench.scale
    for name, query in {**LIST_QUERIES, **MORE_LIST_QUERIES, "deep": measures.deep_cursor(stack)}.items():
        if not query:
            continue
        plain, filtered = (
            measures.list_runs(
                stack,
                chosen,
                count=scale.list_requests,
                patience_sec=scale.list_patience_sec,
                empty=chosen == query and name == NEVER_TOGETHER,
            )
            for chosen in ("", query)
        )
        bench.add(stack.name, f"list.filter.{name}", p50(filtered.taken_ms) / p50(plain.taken_ms))
    for path in READS:
        bench.add(stack.name, f"read{path}", p50(measures.read_ms(stack, path, count=scale.list_requests)))


@ours_only
def sse(bench: Bench, stack: Stack) -> None:
    """Latency of an event to a stream; the benchmark does not write into the stores of the peer."""
    with bench.journal.step(stack.name, "streams"), bench.started(stack, "interval"):
        taken = streams.stored_to_reader(stack, bench.scale.stream_events)
        bench.add(stack.name, "sse.p50", p50(taken.sse_ms))
        bench.add(stack.name, "sse.p95", p95(taken.sse_ms))
        bench.add("limit", "raw.watch", p50(taken.bare_ms))


@ours_only
def logs(bench: Bench, stack: Stack) -> None:
    with bench.journal.step(stack.name, "logs"), bench.started(stack, "interval", DEFAULT_TAGS):
        stored = run_logs.stored(stack, bench.scale.log_lines)
        bench.add(stack.name, "logs.rate", stored.lines_per_sec)
        bench.add(stack.name, "logs.share", stored.bytes_per_sec / stored.bare_bytes_per_sec)
        cancels = measures.cancel(stack, bench.scale.cancels, "loud")
        if cancels.lost:
            bench.journal.note(f"ours: {cancels.lost} cancels of a run that prints were lost")
        if cancels.taken_ms:
            bench.add(stack.name, "cancel.loud", p50(cancels.taken_ms))


@ours_only
def log_reads(bench: Bench, stack: Stack) -> None:
    with bench.journal.step(stack.name, "reads of logs"), bench.started(stack, "interval"):
        for row, value in read_times(stack, bench.scale.log_reads).items():
            bench.add(stack.name, f"logs.read.{row}", value)


@ours_only
def watching(bench: Bench, stack: Stack) -> None:
    """Compares the transports of a log."""
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


@ours_only
def access(bench: Bench, stack: Stack) -> None:
    """Two gateways, with and without access control."""
    guarded, seconds = Guarded(), bench.scale.load_sec
    with (
        bench.journal.step("ours", "access control on and off"),
        bench.started(stack, "interval"),
        bench.started(guarded, "interval"),
    ):
        for row, share in cost_of_access(stack, guarded, bench.client, seconds=seconds).items():
            bench.add("ours", f"access.{row}", share)


@ours_only
def settings(bench: Bench, stack: Stack) -> None:
    """Gateways with and without traces, a rate limit and the access log."""
    with bench.journal.step("ours", "with and without settings"), bench.started(stack, "interval"):
        for row, multiple in cost_of_settings(stack, bench.client, seconds=bench.scale.load_sec).items():
            bench.add("ours", f"settings.{row}", multiple)


def wheels(bench: Bench, stack: Stack) -> None:
    """Compares with a bare pip and the same files."""
    if not isinstance(stack, Ours):
        return
    with bench.journal.step("ours", "sync of wheels"), bench.started(stack, "interval"):
        sync_sec, bare_sec = sync_beside_pip(stack)
        bench.add("ours", "wheels.sync", sync_sec)
        bench.add("limit", "raw.pip", bare_sec)
        bench.add("ours", "wheels.share", sync_sec / bare_sec)


@ours_only
def commands(bench: Bench, stack: Stack) -> None:
    """Progress commands compared with the bare framework, with their writes alone, and on one execution."""
    bare = _bare_commands(bench)
    for sync in bench.scale.syncs:
        raw = _raw_commands(bench, sync)
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


def _bare_commands(bench: Bench) -> dict[int, float]:
    rates: dict[int, float] = {}
    with bench.limit_folder("bare framework, commands") as folder:
        rates = executions.bare_rates(folder, bench.scale.connections, seconds=max(1.0, bench.scale.load_sec / 2))
        for n, rate in rates.items():
            bench.add("limit", f"bare.command.{n}", rate)
    return rates


def _raw_commands(bench: Bench, sync: Sync) -> dict[int, float]:
    rates: dict[int, float] = {}
    with bench.limit_folder(f"writes of a command, {sync}") as folder:
        rates = executions.raw_rates(folder, sync, bench.scale.connections, count=bench.scale.raw_commands)
        for n, rate in rates.items():
            bench.add("limit", f"raw.command.{n}.{sync}", rate)
    return rates


@ours_only
def claims(bench: Bench, stack: Stack) -> None:
    """Latency of a waiting claim, and claims per second of many clients."""
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


@ours_only
def fork(bench: Bench, stack: Stack) -> None:
    """A wide graph compared with as many executions of one node."""
    width = bench.scale.fork_width
    for sync in bench.scale.syncs:
        with bench.journal.step("ours", f"a fork of {width} nodes, {sync}"), bench.started(stack, sync):
            apart = executions.apart_seconds(stack, width + 2)
            together = executions.fork_seconds(stack, width)
            bench.add("ours", f"fork.rate.{sync}", (width + 2) / together)
            bench.add("ours", f"fork.share.{sync}", apart / together)
            if width == WHOLE_FORK:
                bench.add("ours", f"fork.seconds.{sync}", together)


@ours_only
def keys(bench: Bench, stack: Stack) -> None:
    """POST /runs with a key and without."""
    for sync in bench.scale.syncs:
        with bench.journal.step("ours", f"runs with a key, {sync}"), bench.started(stack, sync):
            bench.add("ours", f"keyed.{sync}", executions.cost_of_a_key(stack, seconds=bench.scale.load_sec))


@ours_only
def tags(bench: Bench, stack: Stack) -> None:
    """An index with tagged jobs compared with one of ordinary runs, and lists by tags with one without a filter."""
    count = bench.scale.tagged_jobs
    with (
        bench.journal.step("ours", f"tags, {count:,} jobs"),
        tempfile.TemporaryDirectory(prefix="pyoco-bench-tags-") as folder,
    ):
        with closing(tag_index.opened(Path(folder), "one")) as index:
            one = tag_index.fill(index, count, tag_index.plainly)
            for name, query in tag_index.by_ranges(count).items():
                ratio = tag_index.beside_no_filter(index, query, count=bench.scale.list_requests)
                bench.add("ours", f"ranges.{name}", ratio)
            one_moves = tag_index.go_on(index, count // 10, tag_index.plainly)
        with closing(tag_index.opened(Path(folder), "twenty")) as index:
            twenty = tag_index.fill(index, count, tag_index.tagged)
            _tag_lists(bench, index, count)
            moves = tag_index.go_on(index, count // 10, tag_index.tagged)
        bench.add("ours", "tags.put", twenty.per_sec)
        bench.add("ours", "tags.put.share", twenty.per_sec / one.per_sec)
        bench.add("ours", "tags.move", moves)
        bench.add("ours", "tags.move.share", moves / one_moves)
        bench.add("ours", "tags.file", twenty.file_bytes / count / 1024)
        bench.add("ours", "tags.file.one", one.file_bytes / count / 1024)


@ours_only
def stats(bench: Bench, stack: Stack) -> None:
    """Time series over runs of thirty days."""
    count = bench.scale.tagged_jobs
    with (
        bench.journal.step("ours", f"time series, {count:,} runs"),
        tempfile.TemporaryDirectory(prefix="pyoco-bench-stats-") as folder,
        closing(tag_index.opened(Path(folder), "stats")) as index,
    ):
        bench.add("ours", "stats.file", time_series.fill(index, count))
        bench.add("ours", "stats.slowest", time_series.slowest_ms(index))
        bench.add("ours", "stats.usual", time_series.slowest_ms(index, points=120))


def _tag_lists(bench: Bench, index: SqliteRunIndex, count: int) -> None:
    times = bench.scale.list_requests
    bench.add("ours", "tags.all", tag_index.page_ms(index, JobQuery(), count=times))
    deep = tag_index.half_way_down(tag_index.QUERIES["common"], count)
    for name, query in (tag_index.QUERIES | {"deep": deep}).items():
        bench.add("ours", f"tags.{name}", tag_index.beside_no_filter(index, query, count=times))
    bench.add("ours", "tags.labels", tag_index.labels_beside_no_filter(index, count=times))
    bench.add("ours", "tags.slowest", tag_index.slowest_ms(index, tag_index.QUERIES["never"]))


@ours_only
def strategies(bench: Bench, stack: Stack) -> None:
    """Pages of strategies by any filter, compared with the first page without one."""
    count, times = bench.scale.strategies, bench.scale.list_requests
    with bench.journal.step("ours", f"strategies, {count:,}"):
        table = strategy_table.filled(count)
        for kind, texts in strategy_table.new_texts(times).items():
            bench.add("ours", f"strategies.{kind}", strategy_table.new_text_ms(table, texts))
        first = strategy_table.first_page_ms(table, count=times)
        bench.add("ours", "strategies.first", first)
        for name, query in strategy_table.QUERIES.items():
            taken = strategy_table.page_ms(table, query, count=times)
            bench.add("ours", f"strategies.{name}", taken)
            bench.add("ours", f"strategies.{name}.ratio", taken / first)
        bench.add("ours", "strategies.results", strategy_table.results_per_sec(table, count // 20))


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
    "settings": settings,
    "wheels": wheels,
    "commands": commands,
    "claims": claims,
    "fork": fork,
    "keys": keys,
    "tags": tags,
    "stats": stats,
    "strategies": strategies,
}
