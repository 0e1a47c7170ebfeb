"""The guarantees of every RunIndex; the in-memory one is the reference for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.query import KnownRun, RunQuery
from pyoco_server.domain.queries.rows import Change
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, run_ids, seen, summaries, take_in

YAML = "ab" * 32


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


def test_runs_are_listed_by_their_last_update_newest_first(index: RunIndex) -> None:
    take_in(index, seen(1, A, updated_at=5.0), seen(2, B, updated_at=9.0), seen(3, C, updated_at=7.0))

    assert run_ids(index) == [B, C, A]


def test_runs_with_equal_update_times_are_listed_by_descending_id(index: RunIndex) -> None:
    take_in(index, seen(1, B, updated_at=5.0), seen(2, A, updated_at=5.0, status="RUNNING"), seen(3, C, updated_at=5.0))

    assert run_ids(index) == [C, B, A]


def test_summaries_are_json_objects_in_the_order_of_the_list(index: RunIndex) -> None:
    take_in(index, seen(1, A), seen(2, B, status="FAILED", error="boom", worker_id="w-1"))

    first, second = summaries(index)

    assert (first["run_id"], first["status"], first["error"], first["worker_id"]) == (B, "FAILED", "boom", "w-1")
    assert (second["run_id"], second["status"], second["error"]) == (A, "PENDING", None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RunQuery(status="RUNNING"), [C, B]),
        (RunQuery(flow="train"), [D, B]),
        (RunQuery(tag="gpu"), [D, C]),
        (RunQuery(tenant_id="acme"), [B, A]),
        (RunQuery(status="RUNNING", flow="train"), [B]),
        (RunQuery(flow="train", tag="gpu"), [D]),
        (RunQuery(status="RUNNING", tag="gpu", tenant_id="acme"), []),
        (RunQuery(labels=("nightly",)), [C, A]),
        (RunQuery(labels=("nightly", "big")), [C]),
        (RunQuery(labels=("nightly",), status="RUNNING"), [C]),
        (RunQuery(labels=("unheard of",)), []),
        (RunQuery(status="NONSENSE"), []),
        (RunQuery(statuses=("PENDING", "RUNNING")), [D, C, B, A]),
        (RunQuery(statuses=("RUNNING", "FAILED", "RUNNING")), [C, B]),
        (RunQuery(statuses=("PENDING", "RUNNING"), status="PENDING"), [D, A]),
        (RunQuery(statuses=("RUNNING",), status="PENDING"), []),
        (RunQuery(statuses=("PENDING", "RUNNING"), flow="train", limit=1), [D]),
        (RunQuery(statuses=("PENDING", "RUNNING"), labels=("nightly",), before=(103.0, C)), [A]),
        (RunQuery(statuses=("NONSENSE", "")), []),
        (RunQuery(flow="", tag=""), []),
        (RunQuery(flow="main", tag="gpu"), [C]),
        (RunQuery(flow="main", tag="gpu", labels=("nightly",)), [C]),
        (RunQuery(labels=("nightly", "nightly", "big")), [C]),
        (RunQuery(labels=("nightly",), tenant_id="acme"), [A]),
        (RunQuery(workflow_yaml_sha256=YAML), [D, A]),
        (RunQuery(workflow_yaml_sha256=YAML, labels=("nightly",)), [A]),
        (RunQuery(workflow_yaml_sha256=YAML, status="RUNNING"), []),
        (RunQuery(labels=(YAML,)), []),
        (RunQuery(labels=(f"yaml:{YAML}",)), []),
        (RunQuery(updated_after=102.0), [D, C]),
        (RunQuery(updated_after=101.5, labels=("nightly",)), [C]),
        (RunQuery(before=(103.0, C)), [B, A]),
        (RunQuery(before=(103.0, D)), [C, B, A]),
        (RunQuery(before=(103.0, C), labels=("nightly",), updated_after=100.0), [A]),
        (RunQuery(before=(104.0, D), flow="main", tag="gpu"), [C]),
    ],
)
def test_every_given_filter_applies(index: RunIndex, query: RunQuery, expected: list[RunId]) -> None:
    take_in(
        index,
        seen(1, A, tenant_id="acme", tags=["nightly"], workflow_yaml_sha256=YAML),
        seen(2, B, tenant_id="acme", status="RUNNING", flow_name="train"),
        seen(3, C, status="RUNNING", tag="gpu", tags=["nightly", "big", "big"]),
        seen(4, D, flow_name="train", tag="gpu", tags=["big"], workflow_yaml_sha256=YAML),
    )

    assert run_ids(index, query) == expected


def test_archived_runs_are_listed_only_on_request(index: RunIndex) -> None:
    take_in(index, seen(1, A, status="COMPLETED"), seen(2, B, status="COMPLETED"))

    take_in(index, seen(3, A, status="COMPLETED", archived_at=300.0))

    assert run_ids(index) == [B]
    assert run_ids(index, RunQuery(archived=True)) == [A]


def test_a_changed_run_leaves_its_previous_lists(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["old", "kept"]))

    take_in(index, seen(2, A, status="RUNNING", tags=["kept", "new"]))

    assert run_ids(index, RunQuery(status="PENDING")) == []
    assert run_ids(index, RunQuery(labels=("old",))) == []
    assert run_ids(index, RunQuery(labels=("kept", "new"), status="RUNNING")) == [A]


def test_a_replay_changes_nothing(index: RunIndex) -> None:
    changes: list[Change] = [seen(1, A), seen(2, B), seen(3, A, status="COMPLETED"), removed(4, B)]
    take_in(index, *changes)
    before = summaries(index)

    take_in(index, *changes)
    take_in(index, *changes[:2])

    assert summaries(index) == before
    assert index.position() == at(4, B)


def test_an_older_version_under_a_newer_revision_changes_nothing(index: RunIndex) -> None:
    take_in(index, seen(1, A, version=7, status="COMPLETED", tenant_id="acme"))

    take_in(index, seen(2, A, version=6, status="RUNNING"))

    assert run_ids(index, RunQuery(status="COMPLETED")) == [A]
    assert index.known([A, B]) == {A: KnownRun(version=7, status="COMPLETED", tenant_id="acme")}


def test_a_heartbeat_changes_the_summary_and_no_position(index: RunIndex) -> None:
    take_in(index, seen(1, A, version=1, updated_at=5.0), seen(2, B, version=2, updated_at=9.0))

    take_in(index, seen(3, A, version=1, updated_at=5.0, heartbeat_at=777.0))

    assert run_ids(index) == [B, A]
    assert summaries(index)[1]["heartbeat_at"] == 777.0


def test_a_removed_run_is_in_no_list_and_no_count(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["x"]), seen(2, B, tags=["x"]))

    take_in(index, removed(3, A))

    assert run_ids(index, RunQuery(labels=("x",))) == [B]
    assert index.counts() == {"PENDING": 1}
    assert index.known([A, B]) == {B: (2, "PENDING", "")}


def test_a_removed_run_is_not_restored_by_older_changes(index: RunIndex) -> None:
    take_in(index, removed(3, A), seen(1, A))
    take_in(index, seen(1, A))

    assert run_ids(index) == []


def test_a_run_written_after_its_removal_is_listed(index: RunIndex) -> None:
    take_in(index, seen(1, A, version=9))

    take_in(index, removed(2, A), seen(3, A, version=3))

    assert index.known([A]) == {A: (3, "PENDING", "")}


def changed_since(index: RunIndex, since: int, query: RunQuery | None = None, after: str = "") -> list[RunId]:
    runs = index.changed(query or RunQuery(), since=since, after=after, upto=index.last_run_id())
    return [run.run_id for run in runs]


def test_changes_after_a_sequence_are_found_by_id(index: RunIndex) -> None:
    take_in(index, seen(1, A), seen(2, B), seen(3, C, flow_name="train"), seen(4, D))

    take_in(index, seen(5, C, flow_name="train", status="RUNNING"), seen(6, A))

    assert changed_since(index, 4) == [A, C]
    assert changed_since(index, 5) == [A]
    assert changed_since(index, 6) == []
    assert changed_since(index, 4, RunQuery(flow="train", status="RUNNING")) == [C]
    assert changed_since(index, 4, RunQuery(labels=("default",), limit=1)) == [A]
    assert changed_since(index, 4, RunQuery(statuses=("RUNNING", "CANCELLING"))) == [C]
    assert changed_since(index, 4, after=A) == [C]
    assert [run.run_id for run in index.changed(RunQuery(), since=0, after="", upto=B)] == [A, B]


def test_a_heartbeat_is_not_a_change(index: RunIndex) -> None:
    take_in(index, seen(1, A, version=1, updated_at=5.0), seen(2, B, version=2, updated_at=5.0))

    take_in(index, seen(3, A, version=1, updated_at=5.0, heartbeat_at=7.0), seen(4, B, version=3, updated_at=5.0))

    assert changed_since(index, 2) == [B]


def test_the_last_run_id_is_the_greatest_of_all(index: RunIndex) -> None:
    assert index.last_run_id() == ""

    take_in(index, seen(1, C), seen(2, A, archived_at=1.0))

    assert index.last_run_id() == C


def test_the_position_is_the_last_applied_one_and_never_decreases(index: RunIndex) -> None:
    assert index.position() is None

    index.apply([seen(5, A)], at(5, A))
    index.apply([seen(3, B)], at(3, B))
    index.apply([], at(6, C))

    assert index.position() == at(6, C)


def test_a_reset_removes_rows_position_and_marks(index: RunIndex) -> None:
    take_in(index, seen(5, A))
    index.set_mark("commits", 12)
    index.set_mark("commits", 13)
    assert (index.mark("commits"), index.mark("other")) == (13, 0)

    index.reset()

    assert (index.position(), index.mark("commits"), index.counts()) == (None, 0, {})
    take_in(index, seen(1, B))
    assert run_ids(index) == [B]


def test_finished_runs_are_found_by_end_time_oldest_first(index: RunIndex) -> None:
    take_in(
        index,
        seen(1, A, status="COMPLETED", end_time=50.0),
        seen(2, B, status="FAILED", end_time=40.0, archived_at=60.0),
        seen(3, C, status="CANCELLED", end_time=90.0),
        seen(4, D, status="RUNNING", end_time=10.0),
    )

    assert index.finished_before(90.0, 10) == [B, A]
    assert index.finished_before(91.0, 2) == [B, A]


def test_active_runs_have_the_revision_of_their_last_heartbeat(index: RunIndex) -> None:
    take_in(index, seen(1, A, status="RUNNING"), seen(2, B), seen(3, C, status="CANCELLING", tenant_id="acme"))
    take_in(index, seen(4, D, status="COMPLETED"), seen(5, A, status="RUNNING"))

    assert index.at_work(10) == {A: 5, C: 3}
    assert len(index.at_work(1)) == 1


def oldest(index: RunIndex, status: str, *, limit: int = 10, **query: Any) -> list[RunId]:
    return [run.run_id for run in index.oldest(status, limit=limit, **query)]


def test_unfinished_runs_are_found_by_last_heartbeat_oldest_first(index: RunIndex) -> None:
    take_in(
        index,
        seen(1, A, status="RUNNING", updated_at=30.0),
        seen(2, B, status="RUNNING", updated_at=20.0, tenant_id="acme"),
        seen(3, C, status="COMPLETED", updated_at=10.0),
        seen(4, D, status="CANCELLING", updated_at=40.0, tenant_id="acme"),
    )

    assert oldest(index, "RUNNING", tag="default", updated_before=40.0) == [B, A]
    assert oldest(index, "RUNNING", tag="default", updated_before=99.0, limit=1) == [B]
    assert oldest(index, "CANCELLING", tag="default", updated_before=40.0) == []
    assert oldest(index, "RUNNING", tag="gpu", updated_before=99.0) == []


def test_runs_of_a_status_are_read_oldest_first_page_by_page(index: RunIndex) -> None:
    take_in(
        index,
        seen(1, A, status="CANCELLING", updated_at=30.0),
        seen(2, C, status="CANCELLING", updated_at=20.0, tag="gpu"),
        seen(3, B, status="CANCELLING", updated_at=20.0, tenant_id="acme"),
        seen(4, D, status="RUNNING", updated_at=10.0),
    )

    first = index.oldest("CANCELLING", limit=2)
    second = index.oldest("CANCELLING", after=first[-1].key, limit=2)

    assert [run.run_id for run in first] == [B, C]
    assert [run.run_id for run in second] == [A]
    assert index.oldest("CANCELLING", after=second[-1].key, limit=2) == []


def test_many_tenants_are_merged_into_one_list(index: RunIndex) -> None:
    runs = [RunId(f"run-{n:04}") for n in range(250)]
    changes = [seen(n + 1, run_id, tenant_id=f"t{n}", updated_at=float(n)) for n, run_id in enumerate(runs)]
    take_in(index, *changes)

    assert run_ids(index, RunQuery(limit=200)) == runs[:49:-1]
    assert oldest(index, "PENDING", tag="default", updated_before=9e9, limit=120) == runs[:120]


@pytest.mark.parametrize("combinations", [40, 300, 1500])
def test_any_combination_of_labels_is_found_in_order(index: RunIndex, combinations: int) -> None:
    runs = [RunId(f"run-{n:04}") for n in range(1600)]
    for first in range(0, len(runs), 400):
        changes = [
            seen(n + 1, runs[n], tags=["all", "even" if n % 2 else "odd", f"customer-{n % combinations}"])
            for n in range(first, first + 400)
        ]
        take_in(index, *changes)

    assert run_ids(index, RunQuery(labels=("all",), limit=5)) == runs[:-6:-1]
    assert run_ids(index, RunQuery(labels=("odd", "all"), limit=3)) == [runs[1598], runs[1596], runs[1594]]
    assert run_ids(index, RunQuery(labels=("customer-7",), limit=1)) == [
        runs[7 + (1599 - 7) // combinations * combinations]
    ]
    assert run_ids(index, RunQuery(labels=("odd", "even"))) == []
    assert run_ids(index, RunQuery(labels=("all",), before=(111.0, runs[10]))) == runs[9::-1]


STATUSES = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")
FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(STATUSES),
        "updated_at": st.sampled_from([1.0, 2.0, 3.0]),
        "tags": st.lists(st.sampled_from(["x", "y", "z"])),
        "flow_name": st.sampled_from(["f", "g"]),
    },
    optional={
        "workflow_yaml_sha256": st.just(YAML),
        "archived_at": st.just(9.0),
        "tenant_id": st.sampled_from(["s", "t"]),
        "end_time": st.just(2.0),
    },
)
CHANGE = st.tuples(st.sampled_from([A, B, C]), st.none() | st.tuples(st.integers(0, 5), FIELDS))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], list[list[Change]]]:
    """A bucket's history, and the batches of its delivery: of any size, shuffled, with replays."""
    history = [
        removed(sequence, run_id) if change is None else seen(sequence, run_id, version=change[0], **change[1])
        for sequence, (run_id, change) in enumerate(draw(st.lists(CHANGE, min_size=1, max_size=24)), start=1)
    ]
    batches, done = [], 0
    while done < len(history):
        upto = draw(st.integers(done + 1, len(history)))
        replayed = draw(st.lists(st.sampled_from(history[:upto]), max_size=4))
        batches.append(draw(st.permutations(history[done:upto] + replayed)))
        done = upto
    return history, batches


def everything(index: RunIndex) -> list[object]:
    queries = [RunQuery(archived=archived, status=status) for archived in (False, True) for status in (None, "RUNNING")]
    queries += [RunQuery(labels=("x",)), RunQuery(labels=("x", "y"), flow="f"), RunQuery(tenant_id="t")]
    queries += [RunQuery(workflow_yaml_sha256=YAML, labels=("z",)), RunQuery(flow="g", tag="default")]
    queries += [RunQuery(statuses=("PENDING", "RUNNING", "CANCELLING")), RunQuery(statuses=("FAILED",), labels=("x",))]
    queries += [RunQuery(updated_after=1.0), RunQuery(before=(2.0, B), labels=("x",))]
    return [
        *(list(index.rows(query)) for query in queries),
        dict(index.counts()),
        index.finished_before(9e9, 10),
        *(index.oldest(status, after=after, limit=2) for status in STATUSES for after in (None, (1.0, B))),
        *(oldest(index, status, tag="default", updated_before=9e9) for status in STATUSES),
        dict(index.known([A, B, C])),
        index.changed(RunQuery(), since=0, after="", upto=C),
        index.last_run_id(),
        index.position(),
    ]


@given(delivered=histories())
def test_rows_do_not_depend_on_delivery_and_replay(delivered: tuple[list[Change], list[list[Change]]]) -> None:
    history, batches = delivered
    with opened("memory") as reference, opened("memory") as memory, opened("sqlite") as sqlite:
        for change in history:
            reference.apply([change], at(change.revision))
        for index in (memory, sqlite):
            for batch in batches:
                index.apply(batch, at(max(change.revision for change in batch)))

        assert everything(memory) == everything(reference)
        assert everything(sqlite) == everything(reference)
