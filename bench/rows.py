"""The rows of the table, in order, with their budgets; a budget is about this product only."""

from bench.row import (
    CONNECTIONS,
    LOAD_CLIENTS,
    SYNC_WORDS,
    Row,
    at_least,
    at_most,
    higher,
    lower,
    rate_and_share_of_bare,
    times_the_peer,
)
from bench.transport_rows import way_rows

# Read at the largest number of runs.
READS = ("/overview", "/stats")
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
STRATEGY_WORDS = {
    "tags": "two tags",
    "health": "a health",
    "instrument": "two instruments, by health",
    "middle": "nine tenths of them, from the middle",
    "last": "nine tenths of them, the last one by instrument",
    "text": "a text that was searched before",
    "all": "a text that all have, twenty tags, from the middle",
}
# Reading in order costs one page; only the bound on the work of a page limits a search.
TAGS_READ_IN_ORDER = {
    "common": "a common tag",
    "rare": "a rare tag",
    "often": "two common tags",
    "status": "a common tag and a rare status",
    "rare_status": "a rarer tag and a rare status",
    "deep": "a common tag, half-way down",
}
TAGS_SEARCHED = {
    "seldom": "two tags that seldom meet",
    "eight": "eight tags",
    "never": "two common tags that never meet",
}
RANGES = {
    "since": "submitted in the newer half",
    "until": "submitted in the older half",
    "minutes": "submitted within two minutes, of 12,000 jobs",
    "seconds": "submitted within two seconds, of 200 jobs",
    "failed": "failed, submitted within two minutes",
    "prefix": "by the first twelve digits of an id",
}
_MANY = CONNECTIONS[1:]


def product_rows() -> list[Row]:
    lists = [*_list_rows(), *_filter_rows(), *_stats_rows()]
    streams = [*_stream_rows(), *_log_rows(), *way_rows()]
    executions = [*_command_rows(), *_claim_rows(), *_fork_rows(), *_key_rows()]
    ours = [*streams, *_access_rows(), *_settings_rows(), *_wheel_rows(), *executions, *_tag_rows(), *_strategy_rows()]
    return [*_submit_rows(), *_drain_rows(), *_latency_rows(), *lists, *ours, *_footprint_rows()]


def limit_rows() -> list[Row]:
    bare = [
        higher(f"bare.{client}.{n}", f"bare framework, {n} connections, {client}", "req/s")
        for client in LOAD_CLIENTS
        for n in CONNECTIONS
    ]
    raw = [
        higher(f"raw.{act}.{sync}", f"{title}, 64 in flight, {word}", "msg/s")
        for sync, word in SYNC_WORDS.items()
        for act, title in (("publish", "JetStream publish"), ("put", "KV put"), ("fetch", "fetch + ack"))
    ]
    watch = lower("raw.watch", "KV put → KV watch, p50", "ms")
    pip = lower("raw.pip", "bare pip install of 20 wheels into an empty venv", "s")
    commands = [
        higher(f"bare.command.{n}", f"bare framework, {_connections(n)}, a command", "req/s") for n in CONNECTIONS
    ]
    writes = [
        higher(f"raw.command.{n}.{sync}", f"the three writes of a command alone, {n} in flight, {word}", "cmd/s")
        for sync, word in SYNC_WORDS.items()
        for n in CONNECTIONS
    ]
    return [*bare, *raw, watch, pip, *commands, *writes]


def _submit_rows() -> list[Row]:
    budgets = {"submit.64.interval": rate_and_share_of_bare("submit.64.interval", 3000, 64, 0.5)}
    return [
        higher(key, f"POST /runs, {_connections(n)}, {word}", "req/s", budgets.get(key))
        for sync, word in SYNC_WORDS.items()
        for n in CONNECTIONS
        for key in (f"submit.{n}.{sync}",)
    ]


def _drain_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        key = f"drain.one.{sync}"
        rows.append(higher(key, f"drain, one task, {word}", "runs/s", times_the_peer(key, 4)))
        rows.append(higher(f"drain.ten.{sync}", f"drain, ten tasks, {word}", "runs/s"))
    return [*rows, higher("drain.one.peer2", "drain, one task, buffered; peer with two workers", "runs/s")]


def _latency_rows() -> list[Row]:
    rows = []
    for sync, tags, budget_ms in (("interval", 1, 6), ("interval", 5, 6), ("always", 1, 9), ("always", 5, 9)):
        key = f"idle.{tags}.{sync}"
        title = f"idle submit → COMPLETED, {tags} tag{'s' if tags > 1 else ''}, {SYNC_WORDS[sync]}"
        rows.append(lower(f"{key}.p50", f"{title}, p50", "ms", at_most(f"{key}.p50", budget_ms, "ms")))
        rows.append(lower(f"{key}.p99", f"{title}, p99", "ms"))
    cancel = "cancel of a running cooperative task → CANCELLED, p50"
    lost = "cancels accepted whose run ended otherwise"
    return [
        *rows,
        lower("fibo40", "flow of 40 steps of fibo(10), buffered, p50", "ms", at_most("fibo40", 60, "ms")),
        lower("cancel", cancel, "ms", at_most("cancel", 50, "ms")),
        lower("cancel.lost", lost, "%", at_most("cancel.lost", 0, "%")),
    ]


def _list_rows() -> list[Row]:
    return [
        lower(key, f"GET /runs?limit=50 at {size:,} runs{words}, p50", "ms", at_most(key, 3, "ms"))
        for size in LIST_SIZES
        for name, words in FILTER_WORDS.items()
        for key in (f"list.{size}.{name}",)
    ]


def _filter_rows() -> list[Row]:
    runs = f"GET /runs?limit=50 at {LIST_SIZES[-1]:,} runs with"
    return [
        lower(key, f"{runs} {words}, p50 beside no filter", "×", at_most(key, 3, "× no filter"))
        for name, words in MORE_FILTER_WORDS.items()
        for key in (f"list.filter.{name}",)
    ]


def _stats_rows() -> list[Row]:
    queries = "time series, 100,000 runs over 30 days: slowest window and filter"
    return [
        *(
            lower(f"read{path}", f"GET {path} at {LIST_SIZES[-1]:,} runs, p50", "ms", at_most(f"read{path}", 10, "ms"))
            for path in READS
        ),
        lower("stats.slowest", f"{queries}, 500 points, processor time", "ms", at_most("stats.slowest", 5, "ms")),
        lower("stats.usual", f"{queries}, 120 points, processor time", "ms", at_most("stats.usual", 5, "ms")),
        lower("stats.file", "time series, 100,000 runs over 30 days: the whole index", "KiB/run"),
    ]


def _access_rows() -> list[Row]:
    ways = {"key": "API key", "token": "bearer token"}
    acts = {"submit": "POST /runs", "read": "GET /runs/{id}"}
    return [
        higher(
            f"access.{way}.{act}",
            f"{path}, 64 connections, buffered: with {word} / without access control",
            "×",
            at_least(f"access.{way}.{act}", 0.9, "×"),
        )
        for way, word in ways.items()
        for act, path in acts.items()
    ]


def _settings_rows() -> list[Row]:
    title = "gateway's processor time of POST /runs, 64 connections, buffered: {0} / without {0}"
    names = {
        "traces.default": "traces exported",
        "traces.all": "every trace recorded (parentbased_always_on)",
        "rate_limit": "a rate limit",
        "access_log": "the access log",
    }
    within = {name: at_most(f"settings.{name}", 1.05, "×") for name in ("traces.default", "rate_limit", "access_log")}
    return [lower(f"settings.{name}", title.format(word), "×", within.get(name)) for name, word in names.items()]


def _wheel_rows() -> list[Row]:
    title = "sync of 20 wheels, until a runner has them"
    share = f"{title} / bare pip install of the same files"
    return [
        lower("wheels.sync", title, "s"),
        lower("wheels.share", share, "×", at_most("wheels.share", 2, "× bare pip")),
    ]


def _stream_rows() -> list[Row]:
    title = "event → reader of the run's stream"
    return [
        lower("sse.p50", f"{title}, p50", "ms", at_most("sse.p50", 10, "ms")),
        lower("sse.p95", f"{title}, p95", "ms"),
    ]


def _log_rows() -> list[Row]:
    stored = "lines of 80 bytes from one run, printed → stored, buffered"
    share = "the same bytes/s / a bare JetStream publish of them, 64 KiB at a time"
    loud = "cancel of a running task that prints 10 MB/s → CANCELLED, p50"
    times = {
        "tail": "the last 100 lines of 1,000,000",
        "range": "64 KiB from the middle of a log of 80 MB",
        "line": "400 lines from line 500,000 of 1,000,000 on",
        "search": "a search of all 1,000,000 lines (80 MB)",
    }
    shares = {
        "tail": ("the last 100 lines of 1,000,000 / the last 100 of 1,000", 1.5),
        "range": ("64 KiB of a log of 80 MB, from its middle / from its end", 3.0),
        "known": ("a log that the reader has (304) / the same log (200)", 0.5),
        "line": ("400 lines from the middle of 1,000,000 by their number / the last 400", 3.0),
        "search": ("a search of all 1,000,000 lines / the download of the log", 2.0),
    }
    logs = "parts of logs"
    return [
        higher("logs.rate", stored, "lines/s", at_least("logs.rate", 50_000, "lines/s")),
        higher("logs.share", share, "×"),
        lower("cancel.loud", loud, "ms", at_most("cancel.loud", 50, "ms")),
        *(lower(f"logs.read.{name}", f"{logs}: {words}, p50", "ms") for name, words in times.items()),
        *(
            lower(key, f"{logs}: {words}, p50", "×", at_most(key, most, "×"))
            for name, (words, most) in shares.items()
            for key in (f"logs.read.{name}.share",)
        ),
    ]


# The rows of executions have no peer; they are compared with a limit.


def _command_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        for n in CONNECTIONS:
            key, title = f"command.{n}.{sync}", f"progress commands, {_connections(n)}, {word}"
            rows.append(higher(key, f"{title}, an execution each", "cmd/s"))
            rows.append(higher(f"{key}.bare", f"{title} / bare framework", "×"))
            rows.append(higher(f"{key}.raw", f"{title} / their writes alone", "×"))
        for n in _MANY:
            key, title = f"command.one.{n}.{sync}", f"progress commands, {_connections(n)}, {word}, one execution"
            rows.append(higher(key, title, "cmd/s"))
            rows.append(higher(f"{key}.apart", f"{title} / an execution each", "×"))
    return rows


def _claim_rows() -> list[Row]:
    waiting = "success of the node before → claim of one who waits"
    many = "claims of ready nodes, 16 connections, buffered"
    return [
        lower("claim.waiting.p50", f"{waiting}, p50", "ms"),
        lower("claim.waiting.p95", f"{waiting}, p95", "ms"),
        lower("claim.waiting.share", f"{waiting}, p50 / a claim of a ready node", "×"),
        higher("claim.rate", many, "claims/s"),
        higher("claim.share", f"{many} / progress commands", "×"),
    ]


def _fork_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        title = f"a fork of 1,000 nodes (quick: 200), 16 claimers, {word}"
        rows.append(higher(f"fork.rate.{sync}", title, "nodes/s"))
        rows.append(lower(f"fork.seconds.{sync}", f"{title}, all of it", "s"))
        rows.append(higher(f"fork.share.{sync}", f"{title} / an execution each", "×"))
    return rows


def _key_rows() -> list[Row]:
    title = "POST /runs, 64 connections"
    return [
        higher(f"keyed.{sync}", f"{title}, {word}: with an idempotency key / without", "×")
        for sync, word in SYNC_WORDS.items()
    ]


def _tag_rows() -> list[Row]:
    """Compared with a list without a filter, or with an index of one tag per job."""
    jobs = "jobs?limit=50 in the index, 100,000 with 20 tags each (quick: 5,000)"
    plain = "jobs?limit=50 in the index, 100,000 with one tag each (quick: 5,000)"
    labels = "100 tags with a prefix and their counts, p50 beside a page of jobs"
    new, changed = "new jobs with 20 tags into the index, processor time", "changes of their status, processor time"
    return [
        lower("tags.all", f"{jobs}, no filter, p50", "ms"),
        *(
            lower(f"tags.{name}", f"{jobs}, {words}, p50 beside no filter", "×", budget)
            for name, words in (TAGS_READ_IN_ORDER | TAGS_SEARCHED).items()
            for budget in (at_most(f"tags.{name}", 3, "× no filter") if name in TAGS_READ_IN_ORDER else None,)
        ),
        lower("tags.slowest", "the slowest page to the end of two common tags that never meet", "ms"),
        lower("tags.labels", labels, "×", at_most("tags.labels", 3, "× a page of jobs")),
        higher("tags.put", new, "jobs/s"),
        higher("tags.put.share", f"{new} / with one tag", "×"),
        higher("tags.move", changed, "jobs/s"),
        higher("tags.move.share", f"{changed} / with one tag", "×"),
        lower("tags.file", "the index file, per job with 20 tags", "KiB"),
        lower("tags.file.one", "the index file, per job with one tag", "KiB"),
        *(lower(f"ranges.{name}", f"{plain}, {words}, p50 beside no filter", "×") for name, words in RANGES.items()),
    ]


def _strategy_rows() -> list[Row]:
    """Of the table in memory, in processor time, while results come in."""
    page = "a page of 100,000 strategies (quick: 5,000)"
    new = f"{page}, by a text that is searched for the first time:"
    return [
        lower("strategies.first", f"{page}, the first without a filter, p50", "ms"),
        *(
            row
            for name, words in STRATEGY_WORDS.items()
            for row in (
                lower(f"strategies.{name}", f"{page}, {words}, p50", "ms", at_most(f"strategies.{name}", 3, "ms")),
                lower(f"strategies.{name}.ratio", f"{page}, {words}, beside the first without a filter", "×"),
            )
        ),
        lower("strategies.new_text", f"{new} a word and a number, p50", "ms", at_most("strategies.new_text", 3, "ms")),
        lower("strategies.new_word", f"{new} a common word, p50", "ms", at_most("strategies.new_word", 3, "ms")),
        lower("strategies.new_phrase", f"{new} two common words, p50", "ms", at_most("strategies.new_phrase", 3, "ms")),
        higher("strategies.results", "new results into the table, processor time", "results/s"),
    ]


def _footprint_rows() -> list[Row]:
    start = "start with a worker until /health says 200"
    return [
        *(lower(f"memory.{part}", f"resident memory, {part}", "MiB") for part in ("gateway", "worker", "nats")),
        lower("startup", start, "s", at_most("startup", 3, "s")),
    ]


def _connections(number: int) -> str:
    return f"{number} connection{'s' if number > 1 else ''}"
