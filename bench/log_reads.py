"""Read times of parts of logs: long and short logs, middle and end, and unchanged logs."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence

from bench.connection import NO_HEADERS, NOT_MODIFIED, Connection, StepFailed
from bench.fill import StoredRun, jetstream
from bench.measures import p50
from bench.systems import Stack
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.run_logs import codec
from pyoco_server.domain.run_logs.lines import LogChunk, LogLine, chunk_of

LONG, SHORT = 1_000_000, 1_000
LINE_BYTES = 80
# As a worker writes them for a run that prints at full speed.
LINES_PER_CHUNK = 64 * 1024 // LINE_BYTES + 1
RANGE_BYTES = 64 * 1024
TEXT = {"Accept": "text/plain"}
FILL_SEC = 300.0
SEARCHES = 3
PART_BYTES = 4 * 1024 * 1024


def read_times(stack: Stack, count: int) -> dict[str, float]:
    """Milliseconds and shares by row; compared reads alternate, so that other load affects both."""
    stack.fill(0, 3)
    long_id, short_id, other_id = (RunId(StoredRun.numbered(number).run_id) for number in range(3))
    asyncio.run(_fill(stack, short_id, SHORT, neighbour_id=other_id))
    asyncio.run(_fill(stack, long_id, LONG, neighbour_id=other_id))
    with Connection(stack.port) as connection:
        long_ms, short_ms = _tails(connection, count, long_id, short_id)
        middle_ms, end_ms = _ranges(connection, count, long_id)
        known_ms, full_ms = _known(connection, count, long_id)
        line_ms, last_ms = _lines(connection, count, long_id)
        searches = [_search(connection, long_id) for _ in range(SEARCHES)]
    return {
        "tail": long_ms,
        "tail.share": long_ms / short_ms,
        "range": middle_ms,
        "range.share": middle_ms / end_ms,
        "known.share": known_ms / full_ms,
        "line": line_ms,
        "line.share": line_ms / last_ms,
        "search": p50([search_ms for search_ms, _ in searches]),
        "search.share": p50([search_ms / whole_ms for search_ms, whole_ms in searches]),
    }


def _tails(connection: Connection, count: int, long_id: str, short_id: str) -> Sequence[float]:
    requests = [(f"/jobs/{run_id}/logs?tail=100", NO_HEADERS) for run_id in (long_id, short_id)]
    for (path, _), lines in zip(requests, (LONG, SHORT), strict=True):
        entries = connection.request("GET", path).require_ok("a tail").json()["entries"]
        if [entry["n"] for entry in entries] != list(range(lines - 99, lines + 1)):
            raise StepFailed(f"the last 100 of {lines} lines are not what was stored")
    return _in_turn(connection, count, requests)


def _ranges(connection: Connection, count: int, run_id: str) -> Sequence[float]:
    path, middle = f"/jobs/{run_id}/logs", LONG * LINE_BYTES // 2
    requests = [
        (path, TEXT | {"Range": f"bytes={wanted}"}) for wanted in (f"{middle}-{middle + RANGE_BYTES - 1}", "-65536")
    ]
    for (_, headers), first in zip(requests, (LONG // 2, LONG - RANGE_BYTES // LINE_BYTES), strict=True):
        body = connection.request("GET", path, headers=headers).require_ok("a range").body
        if len(body) != RANGE_BYTES or _text(first).encode() not in body:
            raise StepFailed(f"the range {headers['Range']} is not what was stored")
    return _in_turn(connection, count, requests)


def _lines(connection: Connection, count: int, run_id: str) -> Sequence[float]:
    path = f"/runs/{run_id}/logs?limit=400"
    requests = [(f"{path}&from_line={first}", NO_HEADERS) for first in (LONG // 2, LONG - 399)]
    for (wanted, _), first in zip(requests, (LONG // 2, LONG - 399), strict=True):
        items = connection.request("GET", wanted).require_ok("lines").json()["items"]
        if [item["n"] for item in items] != list(range(first, first + 400)):
            raise StepFailed(f"the lines from {first} on are not what was stored")
    return _in_turn(connection, count, requests)


def _search(connection: Connection, run_id: str) -> tuple[float, float]:
    """Milliseconds to search the whole log for a text that one line has, and to download it in as large parts."""
    began = time.perf_counter()
    query = f"q={_text(LONG - 5).rstrip('x').strip().replace(' ', '%20')}"
    path = f"/runs/{run_id}/logs/matches?{query}"
    page = connection.request("GET", path).require_ok("a search").json()
    found: list[int] = page["numbers"]
    while page["scanned_to"] < page["lines"]:
        page = connection.request("GET", f"{path}&since_token={page['next_token']}").require_ok("a search").json()
        found += page["numbers"]
    searched = time.perf_counter()
    if found != [LONG - 4]:
        raise StepFailed(f"the search found the lines {found[:10]}")
    for start in range(0, LONG * LINE_BYTES, PART_BYTES):
        part = TEXT | {"Range": f"bytes={start}-{start + PART_BYTES - 1}"}
        connection.request("GET", f"/jobs/{run_id}/logs", headers=part).require_ok("a part of the log")
    return (searched - began) * 1000, (time.perf_counter() - searched) * 1000


def _known(connection: Connection, count: int, run_id: str) -> Sequence[float]:
    path = f"/jobs/{run_id}/logs?tail=1000"
    tag = connection.request("GET", path).require_ok("a tail").header("ETag")
    known = {"If-None-Match": tag}
    if connection.request("GET", path, headers=known).status != NOT_MODIFIED:
        raise StepFailed("a log that the reader has is sent again")
    return _in_turn(connection, count, [(path, known), (path, NO_HEADERS)])


def _in_turn(connection: Connection, count: int, requests: Sequence[tuple[str, Mapping[str, str]]]) -> Sequence[float]:
    taken: list[list[float]] = [[] for _ in requests]
    for _, (times, (path, headers)) in itertools.product(range(count), zip(taken, requests, strict=True)):
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        times.append((time.perf_counter() - began) * 1000)
    return [p50(times) for times in taken]


async def _fill(stack: Stack, run_id: RunId, count: int, *, neighbour_id: RunId) -> None:
    """A log of `count` lines whose chunks alternate with those of another run, as when several runs print."""
    prefix = NatsBackendConfig().logs_subject_prefix
    behind: LogChunk | None = None
    sequence = 0
    other = codec.encode(chunk_of([_line(0)], attempt=1, behind=None, sequence=0))
    async with jetstream(*stack.nats()) as js, asyncio.timeout(FILL_SEC):
        for start in range(0, count, LINES_PER_CHUNK):
            lines = [_line(number) for number in range(start, min(start + LINES_PER_CHUNK, count))]
            behind = chunk_of(lines, attempt=1, behind=behind, sequence=sequence)
            sequence = (await js.publish(f"{prefix}.{run_id}", codec.encode(behind))).seq
            await js.publish(f"{prefix}.{neighbour_id}", other)


def _line(number: int) -> LogLine:
    return LogLine(1767225600.0 + number / 1000, "prints", "stdout", "INFO", _text(number))


def _text(number: int) -> str:
    return f"line {number:09d} ".ljust(LINE_BYTES - 1, "x")
