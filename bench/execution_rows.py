"""The rows of the executions dialect; none is compared with the peer, which has no such thing, but with a limit."""

from bench.row import CONNECTIONS, SYNC_WORDS, Row

_MANY = CONNECTIONS[1:]


def execution_rows() -> list[Row]:
    return [*_command_rows(), *_claim_rows(), *_fork_rows(), *_key_rows()]


def execution_limit_rows() -> list[Row]:
    bare = [
        Row(key=f"bare.command.{n}", title=f"bare framework, {_lines(n)}, a command", unit="req/s", better="higher")
        for n in CONNECTIONS
    ]
    raw = [
        Row(
            key=f"raw.command.{n}.{sync}",
            title=f"the three writes of a command alone, {n} in flight, {word}",
            unit="cmd/s",
            better="higher",
        )
        for sync, word in SYNC_WORDS.items()
        for n in CONNECTIONS
    ]
    return [*bare, *raw]


def _command_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        for n in CONNECTIONS:
            key, title = f"command.{n}.{sync}", f"progress commands, {_lines(n)}, {word}"
            rows += [
                Row(key=key, title=f"{title}, an execution each", unit="cmd/s", better="higher"),
                Row(key=f"{key}.bare", title=f"{title} / bare framework", unit="×", better="higher"),
                Row(key=f"{key}.raw", title=f"{title} / their writes alone", unit="×", better="higher"),
            ]
        for n in _MANY:
            key, title = f"command.one.{n}.{sync}", f"progress commands, {_lines(n)}, {word}, one execution"
            rows += [
                Row(key=key, title=title, unit="cmd/s", better="higher"),
                Row(key=f"{key}.apart", title=f"{title} / an execution each", unit="×", better="higher"),
            ]
    return rows


def _claim_rows() -> list[Row]:
    waiting = "success of the node before → claim of one who waits"
    many = "claims of ready nodes, 16 connections, buffered"
    return [
        Row(key="claim.waiting.p50", title=f"{waiting}, p50", unit="ms", better="lower"),
        Row(key="claim.waiting.p95", title=f"{waiting}, p95", unit="ms", better="lower"),
        Row(key="claim.waiting.share", title=f"{waiting}, p50 / a claim of a ready node", unit="×", better="lower"),
        Row(key="claim.rate", title=many, unit="claims/s", better="higher"),
        Row(key="claim.share", title=f"{many} / progress commands", unit="×", better="higher"),
    ]


def _fork_rows() -> list[Row]:
    rows = []
    for sync, word in SYNC_WORDS.items():
        title = f"a fork of 1,000 nodes (quick: 200), 16 claimers, {word}"
        rows += [
            Row(key=f"fork.rate.{sync}", title=title, unit="nodes/s", better="higher"),
            Row(key=f"fork.seconds.{sync}", title=f"{title}, all of it", unit="s", better="lower"),
            Row(key=f"fork.share.{sync}", title=f"{title} / an execution each", unit="×", better="higher"),
        ]
    return rows


def _key_rows() -> list[Row]:
    return [
        Row(
            key=f"keyed.{sync}",
            title=f"POST /runs, 64 connections, {word}: with an idempotency key / without",
            unit="×",
            better="higher",
        )
        for sync, word in SYNC_WORDS.items()
    ]


def _lines(connections: int) -> str:
    return f"{connections} connection{'s' if connections > 1 else ''}"
