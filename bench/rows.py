"""The rows of the table, in order, with their budgets as data; a budget is about this product only."""

from bench.execution_rows import execution_limit_rows, execution_rows
from bench.row import (
    CONNECTIONS,
    LOAD_CLIENTS,
    SYNC_WORDS,
    Row,
    at_least,
    at_most,
    rate_and_share_of_bare,
    times_the_peer,
)
from bench.tag_rows import tag_rows
from bench.transport_rows import way_rows

LIST_SIZES = (100, 10_000, 100_000)
FILTER_WORDS = {"all": "", "status": ", status filter", "flow": ", flow filter", "tag": ", tag filter"}
MORE_FILTER_WORDS = {
    "status": "a status",
    "flow": "a flow",
    "tag": "a tag",
    "label": "a common label",
    "labels": "two common labels",
    "apart": "two common labels that never come together",
    "all_filters": "status, flow, tag and two labels",
    "after": "updated_after",
    "yaml": "workflow_yaml_sha256",
    "deep": "a cursor 50,000 runs down",
}


def product_rows() -> list[Row]:
    lists = [*_list_rows(), *_filter_rows()]
    streams = [*_stream_rows(), *_log_rows(), *way_rows()]
    ours = [*streams, *_access_rows(), *_wheel_rows(), *execution_rows(), *tag_rows()]
    return [*_submit_rows(), *_drain_rows(), *_latency_rows(), *lists, *ours, *_footprint_rows()]


def limit_rows() -> list[Row]:
    bare = [
        Row(key=f"bare.{client}.{n}", title=f"bare framework, {n} connections, {client}", unit="req/s", better="higher")
        for client in LOAD_CLIENTS
        for n in CONNECTIONS
    ]
    raw = [
        Row(key=f"raw.{act}.{sync}", title=f"{title}, 64 in flight, {word}", unit="msg/s", better="higher")
        for sync, word in SYNC_WORDS.items()
        for act, title in (("publish", "JetStream publish"), ("put", "KV put"), ("fetch", "fetch + ack"))
    ]
    pip = Row(key="raw.pip", title="bare pip install of 20 wheels into an empty venv", unit="s", better="lower")
    watch = Row(key="raw.watch", title="KV put → KV watch, p50", unit="ms", better="lower")
    return [*bare, *raw, watch, pip, *execution_limit_rows()]


def _submit_rows() -> list[Row]:
    budgets = {"submit.64.interval": rate_and_share_of_bare("submit.64.interval", 3000, 64, 0.5)}
    return [
        Row(
            key=f"submit.{n}.{sync}",
            title=f"POST /runs, {n} connection{'s' if n > 1 else ''}, {word}",
            unit="req/s",
            better="higher",
            budget=budgets.get(f"submit.{n}.{sync}"),
        )
        for sync, word in SYNC_WORDS.items()
        for n in CONNECTIONS
    ]


def _drain_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        key = f"drain.one.{sync}"
        rows += [
            Row(
                key=key, title=f"drain, one task, {word}", unit="runs/s", better="higher", budget=times_the_peer(key, 4)
            ),
            Row(key=f"drain.ten.{sync}", title=f"drain, ten tasks, {word}", unit="runs/s", better="higher"),
        ]
    two = "drain, one task, buffered; peer with two workers"
    return [*rows, Row(key="drain.one.peer2", title=two, unit="runs/s", better="higher")]


def _latency_rows() -> list[Row]:
    rows = []
    for sync, tags, budget_ms in (("interval", 1, 6), ("interval", 5, 6), ("always", 1, 9), ("always", 5, 9)):
        key = f"idle.{tags}.{sync}"
        title = f"idle submit → COMPLETED, {tags} tag{'s' if tags > 1 else ''}, {SYNC_WORDS[sync]}"
        budget = at_most(f"{key}.p50", budget_ms, "ms")
        rows.append(Row(key=f"{key}.p50", title=f"{title}, p50", unit="ms", better="lower", budget=budget))
        rows.append(Row(key=f"{key}.p99", title=f"{title}, p99", unit="ms", better="lower"))
    fibo = "flow of 40 steps of fibo(10), buffered, p50"
    cancel = "cancel of a running cooperative task → CANCELLED, p50"
    return [
        *rows,
        Row(key="fibo40", title=fibo, unit="ms", better="lower", budget=at_most("fibo40", 60, "ms")),
        Row(key="cancel", title=cancel, unit="ms", better="lower", budget=at_most("cancel", 50, "ms")),
        Row(
            key="cancel.lost",
            title="cancels accepted whose run ended otherwise",
            unit="%",
            better="lower",
            budget=at_most("cancel.lost", 0, "%"),
        ),
    ]


def _list_rows() -> list[Row]:
    return [
        Row(
            key=f"list.{size}.{name}",
            title=f"GET /runs?limit=50 at {size:,} runs{words}, p50",
            unit="ms",
            better="lower",
            budget=at_most(f"list.{size}.{name}", 3, "ms"),
        )
        for size in LIST_SIZES
        for name, words in FILTER_WORDS.items()
    ]


def _access_rows() -> list[Row]:
    ways = {"key": "API key", "token": "bearer token"}
    acts = {"submit": "POST /runs", "read": "GET /runs/{id}"}
    return [
        Row(
            key=f"access.{way}.{act}",
            title=f"{path}, 64 connections, buffered: with {word} / without access control",
            unit="×",
            better="higher",
            budget=at_least(f"access.{way}.{act}", 0.9, "×"),
        )
        for way, word in ways.items()
        for act, path in acts.items()
    ]


def _wheel_rows() -> list[Row]:
    title = "sync of 20 wheels, until a runner has them"
    share = f"{title} / bare pip install of the same files"
    return [
        Row(key="wheels.sync", title=title, unit="s", better="lower"),
        Row(key="wheels.share", title=share, unit="×", better="lower", budget=at_most("wheels.share", 2, "× bare pip")),
    ]


def _stream_rows() -> list[Row]:
    title = "event → reader of the run's stream"
    return [
        Row(key="sse.p50", title=f"{title}, p50", unit="ms", better="lower", budget=at_most("sse.p50", 10, "ms")),
        Row(key="sse.p95", title=f"{title}, p95", unit="ms", better="lower"),
    ]


def _log_rows() -> list[Row]:
    loud = "cancel of a running task that prints 10 MB/s → CANCELLED, p50"
    return [
        Row(
            key="logs.rate",
            title="lines of 80 bytes from one run, printed → stored, buffered",
            unit="lines/s",
            better="higher",
            budget=at_least("logs.rate", 50_000, "lines/s"),
        ),
        Row(
            key="logs.share",
            title="the same bytes/s / a bare JetStream publish of them, 64 KiB at a time",
            unit="×",
            better="higher",
        ),
        Row(key="cancel.loud", title=loud, unit="ms", better="lower", budget=at_most("cancel.loud", 50, "ms")),
        *_log_read_rows(),
    ]


def _log_read_rows() -> list[Row]:
    shares = {
        "tail": ("the last 100 lines of 1,000,000 / the last 100 of 1,000", 1.5),
        "range": ("64 KiB of a log of 80 MB, from its middle / from its end", 3.0),
        "known": ("a log that the reader has (304) / the same told (200)", 0.5),
    }
    times = {"tail": "the last 100 lines of 1,000,000", "range": "64 KiB from the middle of a log of 80 MB"}
    return [
        *(
            Row(key=f"logs.read.{name}", title=f"GET /jobs/{{id}}/logs: {words}, p50", unit="ms", better="lower")
            for name, words in times.items()
        ),
        *(
            Row(
                key=f"logs.read.{name}.share",
                title=f"GET /jobs/{{id}}/logs: {words}, p50",
                unit="×",
                better="lower",
                budget=at_most(f"logs.read.{name}.share", most, "×"),
            )
            for name, (words, most) in shares.items()
        ),
    ]


def _filter_rows() -> list[Row]:
    return [
        Row(
            key=f"list.filter.{name}",
            title=f"GET /runs?limit=50 at {LIST_SIZES[-1]:,} runs with {words}, p50 beside no filter",
            unit="×",
            better="lower",
            budget=at_most(f"list.filter.{name}", 3, "× no filter"),
        )
        for name, words in MORE_FILTER_WORDS.items()
    ]


def _footprint_rows() -> list[Row]:
    memory = [
        Row(key=f"memory.{part}", title=f"resident memory, {part}", unit="MiB", better="lower")
        for part in ("gateway", "worker", "nats")
    ]
    start = "start with a worker until /health says 200"
    return [*memory, Row(key="startup", title=start, unit="s", better="lower", budget=at_most("startup", 3, "s"))]
