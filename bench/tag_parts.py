"""The part of a benchmark round for the label index, which only this product has; as in `parts.py`."""

import tempfile
from contextlib import closing
from pathlib import Path

from bench import tags as measured
from bench.plan import Bench, Part
from bench.systems import Stack
from pyoco_server.adapters.sqlite.index import SqliteRunIndex
from pyoco_server.domain.queries.jobs import JobQuery


def tags(bench: Bench, stack: Stack) -> None:
    """An index with tagged jobs beside one with ordinary runs, and lists by tags beside one without a filter."""
    if stack.name != "ours":
        return
    count = bench.scale.tagged_jobs
    with (
        bench.journal.step("ours", f"tags, {count:,} jobs"),
        tempfile.TemporaryDirectory(prefix="pyoco-bench-tags-") as folder,
    ):
        with closing(measured.opened(Path(folder), "one")) as index:
            one = measured.fill(index, count, measured.plainly)
            one_moves = measured.go_on(index, count // 10, measured.plainly)
        with closing(measured.opened(Path(folder), "twenty")) as index:
            twenty = measured.fill(index, count, measured.tagged)
            _lists(bench, index, count)
            moves = measured.go_on(index, count // 10, measured.tagged)
        bench.add("ours", "tags.put", twenty.per_sec)
        bench.add("ours", "tags.put.share", twenty.per_sec / one.per_sec)
        bench.add("ours", "tags.move", moves)
        bench.add("ours", "tags.move.share", moves / one_moves)
        bench.add("ours", "tags.file", twenty.file_bytes / count / 1024)
        bench.add("ours", "tags.file.one", one.file_bytes / count / 1024)


def _lists(bench: Bench, index: SqliteRunIndex, count: int) -> None:
    times = bench.scale.list_requests
    bench.add("ours", "tags.all", measured.page_ms(index, JobQuery(), count=times))
    deep = measured.half_way_down(measured.QUERIES["common"], count)
    for name, query in (measured.QUERIES | {"deep": deep}).items():
        bench.add("ours", f"tags.{name}", measured.beside_no_filter(index, query, count=times))
    bench.add("ours", "tags.labels", measured.labels_beside_no_filter(index, count=times))
    bench.add("ours", "tags.slowest", measured.slowest_ms(index, measured.QUERIES["never"]))


TAG_PARTS: dict[str, Part] = {"tags": tags}
