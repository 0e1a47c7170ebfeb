"""The counters of every RunIndex: they equal a recount, and no run is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import BOUNDS, HistogramDelta, Tallies, Waiting
from pyoco_server.domain.queries.rows import Change, RunRow
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, seen, take_in


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


def totals(tallies: Tallies) -> dict[tuple[str, str], tuple[int, float]]:
    return {(tally.value, label): (found.total, found.seconds) for (tally, label), found in tallies.items()}


def test_waiting_runs_are_counted_by_tag_the_longest_queue_first(index: RunIndex) -> None:
    take_in(
        index,
        seen(1, A, tag="gpu", updated_at=7.0, tenant_id="acme"),
        seen(2, B, tag="gpu", updated_at=5.0),
        seen(3, C, tag="cpu", updated_at=6.0),
        seen(4, D, tag="cpu", status="RUNNING", updated_at=1.0),
    )

    deepest = Waiting(tag="gpu", runs=2, since=5.0)
    assert index.waiting(limit=10) == [deepest, Waiting(tag="cpu", runs=1, since=6.0)]
    assert index.waiting(limit=1) == [deepest]
    assert index.waiting("acme", limit=10) == [Waiting(tag="gpu", runs=1, since=7.0)]


def test_a_run_counts_once_per_status(index: RunIndex) -> None:
    life: list[dict[str, Any]] = [
        {"status": "PENDING", "submitted_at": 10.0},
        {"status": "RUNNING", "submitted_at": 10.0, "start_time": 10.5},
        {"status": "COMPLETED", "submitted_at": 10.0, "start_time": 10.5, "end_time": 12.0},
        {"status": "COMPLETED", "submitted_at": 10.0, "start_time": 10.5, "end_time": 12.0, "archived_at": 13.0},
    ]
    for sequence, fields in enumerate(life, start=1):
        take_in(index, seen(sequence, A, tenant_id="acme", **fields))

    expected = {
        ("submitted", ""): (1, 0.0),
        ("waited", ""): (1, 0.5),
        ("ran", "COMPLETED"): (1, 1.5),
        ("finished", "COMPLETED"): (1, 0.0),
    }
    assert totals(index.tallies()) == totals(index.tallies("acme")) == expected
    assert index.tallies("other") == {}


def test_the_duration_of_a_cancel_starts_at_its_receipt(index: RunIndex) -> None:
    receipt = {"requested_at": 5.0, "stopped_at": 5.25, "how": "killed"}
    take_in(index, seen(1, A, status="CANCELLED", cancel=receipt))
    take_in(index, seen(2, B, status="CANCELLED", cancel=receipt | {"how": None}))
    take_in(index, seen(3, C, status="CANCELLED"))

    assert index.tallies()[HistogramDelta.STOPPED, "killed"].seconds == 0.25
    assert totals(index.tallies())["stopped", ""] == (1, 0.25)
    assert totals(index.tallies())["finished", "CANCELLED"] == (3, 0.0)


def test_runs_older_than_the_index_are_listed_and_not_counted(index: RunIndex) -> None:
    index.reset(count_after=2)

    take_in(index, seen(1, A, status="COMPLETED"), seen(2, B))
    take_in(index, seen(3, B, status="COMPLETED"), seen(4, C))

    assert index.counts() == {"COMPLETED": 2, "PENDING": 1}
    assert totals(index.tallies()) == {("submitted", ""): (1, 0.0), ("finished", "COMPLETED"): (1, 0.0)}


def test_a_reset_clears_the_counters(index: RunIndex) -> None:
    take_in(index, seen(1, A, status="COMPLETED"), seen(2, B))

    index.reset()

    assert (index.tallies(), index.waiting(limit=10), index.counts()) == ({}, [], {})


@dataclass(frozen=True, slots=True)
class Life:
    """The states of a run in order up to the current one; the run may then be removed and start again."""

    run_id: RunId
    states: tuple[dict[str, Any], ...]
    ends_removed: bool

    @property
    def last(self) -> dict[str, Any]:
        return self.states[-1]


@st.composite
def lives(draw: st.DrawFn, run_id: RunId) -> Life:
    submitted_at = draw(st.sampled_from([1.0, 2.0]))
    base: dict[str, Any] = {
        "submitted_at": submitted_at,
        "tag": draw(st.sampled_from(["gpu", "cpu"])),
        "tenant_id": draw(st.sampled_from(["s", "t"])),
    }
    started = base | {"start_time": submitted_at + draw(st.sampled_from([0.25, 4.0]))}
    ended = started | {"end_time": started["start_time"] + draw(st.sampled_from([0.5, 100.0]))}
    receipt = {"requested_at": 3.0, "stopped_at": 3.5, "how": "before_start"}
    courses: list[tuple[dict[str, Any], ...]] = [
        (base | {"status": "PENDING"}, started | {"status": "RUNNING"}, ended | {"status": "COMPLETED"}),
        (base | {"status": "PENDING"}, started | {"status": "CANCELLING"}, ended | {"status": "FAILED"}),
        (
            base | {"status": "PENDING"},
            base | {"status": "CANCELLING"},
            base | {"status": "CANCELLED", "end_time": 9.0, "cancel": receipt},
        ),
    ]
    course = draw(st.sampled_from(courses))
    return Life(run_id, course[: draw(st.integers(1, 3))], draw(st.booleans()))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Life], list[list[Change]]]:
    """Interleaved lives of three runs, and batches as a bucket without history delivers them."""
    queues = [draw(st.lists(lives(run_id), min_size=1, max_size=3)) for run_id in (A, B, C)]
    everything = []
    for queue in queues:
        # Only a removed run starts again.
        courses = [Life(life.run_id, life.states, True) for life in queue[:-1]] + queue[-1:]
        everything.append(courses)
    steps = [_steps(courses) for courses in everything]
    history: list[Change] = []
    while any(steps):
        chosen = draw(st.sampled_from([own for own in steps if own]))
        fields = chosen.pop(0)
        run_id = (A, B, C)[next(n for n, own in enumerate(steps) if own is chosen)]
        sequence = len(history) + 1
        history.append(removed(sequence, run_id) if fields is None else seen(sequence, run_id, **fields))
    return [life for courses in everything for life in courses], draw(_deliveries(history))


def _steps(courses: Sequence[Life]) -> list[dict[str, Any] | None]:
    steps: list[dict[str, Any] | None] = []
    for life in courses:
        steps += [*life.states, None] if life.ends_removed else [*life.states]
    return steps


@st.composite
def _deliveries(draw: st.DrawFn, history: list[Change]) -> list[list[Change]]:
    """Random batches, shuffled, with replays, without states that were replaced before they were read."""
    batches, done = [], 0
    while done < len(history):
        upto = draw(st.integers(done + 1, len(history)))
        replayed = draw(st.lists(st.sampled_from(history[:upto]), max_size=4))
        kept = [
            change
            for place, change in enumerate(history[done:upto], start=done)
            if not _replaced(history[place + 1 : upto], change) or draw(st.booleans())
        ]
        batches.append(draw(st.permutations(kept + [change for change in replayed if change in history[:done]])))
        done = upto
    return batches


def _replaced(later: list[Change], change: Change) -> bool:
    """Whether the batch contains a later state of the run, which implies this one."""
    following = next((other for other in later if other.run_id == change.run_id), None)
    return isinstance(change, RunRow) and isinstance(following, RunRow)


def recounted(courses: list[Life], tenant_id: str | None) -> Mapping[tuple[str, str], tuple[int, float]]:
    sums: dict[tuple[str, str], tuple[int, float]] = {}

    def add(tally: str, label: str, seconds: float) -> None:
        runs, before = sums.get((tally, label), (0, 0.0))
        sums[tally, label] = (runs + 1, before + seconds)

    for life in courses:
        last = life.last
        if tenant_id not in (None, last["tenant_id"]):
            continue
        add("submitted", "", 0.0)
        if "start_time" in last:
            add("waited", "", last["start_time"] - last["submitted_at"])
        if "end_time" in last:
            add("finished", last["status"], 0.0)
            if "start_time" in last:
                add("ran", last["status"], last["end_time"] - last["start_time"])
        if "cancel" in last:
            add("stopped", "before_start", 0.5)
    return sums


@given(world=worlds())
def test_counters_equal_a_recount_for_any_delivery(world: tuple[list[Life], list[list[Change]]]) -> None:
    courses, batches = world
    present = [life for life in courses if not life.ends_removed]
    for kind in ("memory", "sqlite"):
        with opened(kind) as index:
            for batch in batches:
                index.apply(batch, at(max(change.revision for change in batch)))

            for tenant_id in (None, "s", "t"):
                theirs = [life.last for life in present if tenant_id in (None, life.last["tenant_id"])]
                waiting = Counter(state["tag"] for state in theirs if state["status"] == "PENDING")
                assert dict(index.counts(tenant_id)) == Counter(state["status"] for state in theirs)
                assert {queue.tag: queue.runs for queue in index.waiting(tenant_id, limit=9)} == waiting
                assert totals(index.tallies(tenant_id)) == recounted(courses, tenant_id)


def test_durations_are_counted_by_inclusive_upper_bounds(index: RunIndex) -> None:
    for sequence, seconds in enumerate((0.0, 0.25, 0.5, 0.75, 1e6), start=1):
        run_id = RunId(f"run-{sequence}")
        take_in(index, seen(sequence, run_id, status="COMPLETED", start_time=100.0, end_time=100.0 + seconds))

    counts = index.tallies()[HistogramDelta.RAN, "COMPLETED"].counts
    filled = {bound: count for bound, count in zip((*BOUNDS, None), counts, strict=True) if count}
    assert filled == {0.005: 1, 0.25: 1, 0.5: 1, 1.0: 1, None: 1}
