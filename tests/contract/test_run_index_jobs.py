"""The jobs and labels of every RunIndex; the in-memory one is the reference for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite import listing
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery, order_of
from pyoco_server.domain.queries.query import Listed, RunQuery
from pyoco_server.domain.queries.rows import Change
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, run_ids, seen, take_in


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


def numbered(count: int) -> list[RunId]:
    return [RunId(f"01900000-{n:04x}-7000-8000-000000000000") for n in range(count)]


def pages(index: RunIndex, query: JobQuery) -> list[list[Listed]]:
    """All pages of the list, to the end."""
    found = []
    while True:
        page = index.jobs(query)
        found.append(list(page.runs))
        if page.following is None:
            return found
        assert query.before is None or order_of(page.following) < order_of(query.before)
        query = replace(query, before=page.following)


def ids(index: RunIndex, query: JobQuery) -> list[RunId]:
    return [run.run_id for page in pages(index, query) for run in page]


def labels(
    index: RunIndex, prefix: str = "", tenant_id: str | None = None, after: str | None = None, limit: int = 100
) -> list[LabelCount]:
    return list(index.labels(LabelQuery(prefix=prefix, tenant_id=tenant_id, after=after, limit=limit)))


def test_jobs_are_listed_by_id_newest_first_regardless_of_changes(index: RunIndex) -> None:
    take_in(index, seen(1, B, status="RUNNING"), seen(2, D), seen(3, A, status="FAILED"), seen(4, C))

    take_in(index, seen(5, A, status="COMPLETED", updated_at=900.0))

    assert ids(index, JobQuery()) == [D, C, B, A]


def test_a_listed_job_has_its_summary(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["x"], updated_at=5.0))

    (shown,) = index.jobs(JobQuery(labels=("x",))).runs

    assert (shown.updated_at, shown.run_id) == (5.0, A)
    assert b'"tags":["x"]' in shown.summary


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (JobQuery(), [D, C, B, A]),
        (JobQuery(status=("RUNNING",)), [C, B]),
        (JobQuery(status=("RUNNING", "PENDING")), [D, C, B, A]),
        (JobQuery(status=("RUNNING", "RUNNING", "FAILED")), [C, B]),
        (JobQuery(status=("NONSENSE",)), []),
        (JobQuery(tenant_id="acme"), [B, A]),
        (JobQuery(tenant_id=""), [D, C]),
        (JobQuery(tenant_id="nobody"), []),
        (JobQuery(tenant_id="acme", status=("RUNNING",)), [B]),
        (JobQuery(labels=("nightly",)), [C, A]),
        (JobQuery(labels=("big",)), [D, C]),
        (JobQuery(labels=("nightly", "big")), [C]),
        (JobQuery(labels=("big", "nightly", "big")), [C]),
        (JobQuery(labels=("nightly", "unheard of")), []),
        (JobQuery(labels=("label:nightly",)), []),
        (JobQuery(labels=("",)), []),
        (JobQuery(labels=("nightly",), status=("RUNNING",)), [C]),
        (JobQuery(labels=("nightly",), status=("RUNNING", "PENDING")), [C, A]),
        (JobQuery(labels=("nightly",), status=("FAILED",)), []),
        (JobQuery(labels=("nightly",), tenant_id="acme"), [A]),
        (JobQuery(labels=("nightly", "big"), tenant_id="acme"), []),
        (JobQuery(before=D), [C, B, A]),
        (JobQuery(before=A), []),
        (JobQuery(before=B, labels=("nightly",)), [A]),
        (JobQuery(before=D, labels=("nightly", "big"), status=("RUNNING",)), [C]),
        (JobQuery(before=C, labels=("nightly", "big")), []),
    ],
)
def test_every_given_filter_applies(index: RunIndex, query: JobQuery, expected: list[RunId]) -> None:
    take_in(
        index,
        seen(1, A, tenant_id="acme", tags=["nightly"]),
        seen(2, B, tenant_id="acme", status="RUNNING", tags=[]),
        seen(3, C, status="RUNNING", tags=["nightly", "big", "big"]),
        seen(4, D, flow_name="train", tags=["big"]),
    )

    assert ids(index, query) == expected


@pytest.mark.parametrize("label", ["urgent\0", "urgent\0x", "\0", "urgen", "urgent ", "URGENT"])
def test_a_label_filter_matches_the_whole_label(index: RunIndex, label: str) -> None:
    take_in(index, seen(1, A, tags=["urgent"]))

    assert ids(index, JobQuery(labels=("urgent",))) == [A]
    assert ids(index, JobQuery(labels=(label,))) == []
    assert ids(index, JobQuery(labels=(label, "urgent"))) == []
    assert ids(index, JobQuery(labels=(label,), status=("PENDING",))) == []


def test_archived_jobs_are_in_no_list_and_no_count(index: RunIndex) -> None:
    take_in(index, seen(1, A, status="COMPLETED", tags=["x"]), seen(2, B, status="COMPLETED", tags=["x", "y"]))

    take_in(index, seen(3, B, status="COMPLETED", tags=["x", "y"], archived_at=300.0))

    assert ids(index, JobQuery()) == ids(index, JobQuery(labels=("x",))) == [A]
    assert ids(index, JobQuery(labels=("x", "y"))) == []
    assert labels(index) == [("x", 1)]

    take_in(index, seen(4, B, status="COMPLETED", tags=["x", "y"]))

    assert ids(index, JobQuery(labels=("x", "y"), status=("COMPLETED",))) == [B]
    assert labels(index) == [("x", 2), ("y", 1)]


def test_a_job_with_changed_labels_leaves_its_previous_lists(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["old", "kept"]), seen(2, B, tags=["old"]))

    take_in(index, seen(3, A, tags=["kept", "new"]))

    assert ids(index, JobQuery(labels=("old",))) == [B]
    assert ids(index, JobQuery(labels=("kept", "new"))) == [A]
    assert labels(index) == [("kept", 1), ("new", 1), ("old", 1)]


def test_a_removed_job_is_in_no_list_and_no_count(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["x", "y"]), seen(2, B, tags=["x"]), seen(3, C, archived_at=9.0))

    take_in(index, removed(4, A), removed(5, C))

    assert ids(index, JobQuery()) == ids(index, JobQuery(labels=("x",))) == [B]
    assert labels(index) == [("x", 1)]


def test_labels_are_counted_per_tenant_and_for_all(index: RunIndex) -> None:
    take_in(
        index,
        seen(1, A, tags=["x", "y"], tenant_id="acme"),
        seen(2, B, tags=["x", "x"], status="FAILED"),
        seen(3, C, tags=["z"], status="RUNNING", tenant_id="acme"),
    )

    assert labels(index) == [("x", 2), ("y", 1), ("z", 1)]
    assert labels(index, tenant_id="acme") == [("x", 1), ("y", 1), ("z", 1)]
    assert labels(index, tenant_id="") == [("x", 1)]
    assert labels(index, tenant_id="nobody") == []


def test_labels_are_found_by_prefix_in_pages(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["team:a", "team:b", "team", "tea", "team:c"]), seen(2, B, tags=["team:b", "u"]))

    assert labels(index, prefix="team") == [("team", 1), ("team:a", 1), ("team:b", 2), ("team:c", 1)]
    assert labels(index, prefix="team", limit=2) == [("team", 1), ("team:a", 1)]
    assert labels(index, prefix="team", after="team:a", limit=2) == [("team:b", 2), ("team:c", 1)]
    assert labels(index, prefix="team", after="team:c") == []
    assert labels(index, prefix="team", after="a", limit=1) == [("team", 1)]
    assert labels(index, prefix="team", after="z") == []
    assert labels(index, prefix="team:b") == [("team:b", 2)]
    assert labels(index, prefix="no") == []


def test_labels_are_sorted_by_code_point(index: RunIndex) -> None:
    # In UTF-16 the pair of the last one would come before the one ahead of it.
    in_order = ["", "A", "Z", "a", "a\u0301", "z", "é", "日本", "\uff21", "\U0001f600"]
    take_in(index, seen(1, A, tags=in_order[::-1]))

    assert [label for label, _ in labels(index)] == in_order
    assert labels(index, prefix="日") == [("日本", 1)]
    assert labels(index, after="é", limit=2) == [("日本", 1), ("\uff21", 1)]
    assert ids(index, JobQuery(labels=("\U0001f600", "é"))) == [A]


@pytest.mark.parametrize("limit", [1, 3, 50, 200])
@pytest.mark.parametrize(
    ("query", "step"),
    [
        (JobQuery(), 1),
        (JobQuery(labels=("all",)), 1),
        (JobQuery(labels=("all", "third")), 3),
        (JobQuery(labels=("third", "fifth", "all")), 15),
        (JobQuery(labels=("third",), status=("RUNNING",)), 6),
        (JobQuery(labels=("fifth", "third"), status=("RUNNING", "PENDING")), 15),
        (JobQuery(labels=("third", "never")), 1000),
    ],
)
def test_pages_contain_each_job_once(index: RunIndex, query: JobQuery, step: int, limit: int) -> None:
    runs = numbered(300)
    fill(index, runs, tenants=("",))

    assert ids(index, replace(query, limit=limit)) == runs[::step][::-1] * (step < 1000)


def fill(index: RunIndex, runs: list[RunId], tenants: tuple[str, ...]) -> None:
    """Every second job is RUNNING, every third has the label `third`, every fifth `fifth`, the others `never`."""
    changes = [
        seen(
            n + 1,
            run_id,
            status="PENDING" if n % 2 else "RUNNING",
            tenant_id=tenants[n % len(tenants)],
            tags=["all", *["third"] * (n % 3 == 0), *["fifth"] * (n % 5 == 0), *["never"] * (n % 3 > 0)],
        )
        for n, run_id in enumerate(runs)
    ]
    take_in(index, *changes)


@pytest.mark.parametrize("max_read", [7, 60, 300])
@pytest.mark.parametrize("tenants", [("",), ("", "a", "b", "c", "d", "e", "f")])
@pytest.mark.parametrize(
    "query",
    [
        JobQuery(labels=("all", "third"), limit=1),
        JobQuery(labels=("third", "never"), limit=10),
        JobQuery(labels=("fifth", "third", "all"), status=("PENDING",), limit=2),
        JobQuery(labels=("fifth",), status=("PENDING", "RUNNING"), limit=1000),
    ],
)
def test_short_pages_add_up_to_the_same_list(
    query: JobQuery, tenants: tuple[str, ...], max_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_READ", max_read)
    monkeypatch.setattr(listing, "FETCH_COST", 10_000)  # never fetch and sort, always read in order
    with opened("memory") as reference, opened("sqlite") as index:
        fill(reference, numbered(400), tenants)
        fill(index, numbered(400), tenants)

        assert ids(index, query) == ids(reference, query)


def test_distant_matches_are_reached_by_pages_of_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_READ", 1_000)
    runs = numbered(3_000)
    with opened("sqlite") as index:
        changes = [seen(n + 1, run_id, tags=["early"] * (n < 1_000)) for n, run_id in enumerate(runs)]
        index.apply(changes, at(len(changes)))

        first, *others = pages(index, JobQuery(labels=("early",), limit=1_500))

    assert [len(page) for page in [first, *others]] == [0, 0, 1_000, 0]


def test_old_labels_are_found_without_reading_newer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_READ", 4_096)
    runs = numbered(20_000)
    with opened("sqlite") as index:
        changes = [seen(n + 1, run_id, tags=["early"] * (n < 5_000)) for n, run_id in enumerate(runs)]
        index.apply(changes, at(len(changes)))

        page = index.jobs(JobQuery(labels=("early",)))

        assert [run.run_id for run in page.runs] == runs[4_999:4_949:-1]
        assert run_ids(index, RunQuery(labels=("early",))) == runs[4_999:4_949:-1]


@pytest.mark.parametrize("query", [RunQuery(labels=("even", "odd")), RunQuery(labels=("even", "odd"), flow="main")])
def test_frequent_disjoint_labels_match_nothing_without_reading_a_run(
    query: RunQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "in_order", None)
    runs = numbered(9_000)
    with opened("sqlite") as index:
        changes = [seen(n + 1, run_id, tags=["even" if n % 2 else "odd"]) for n, run_id in enumerate(runs)]
        index.apply(changes, at(len(changes)))

        assert index.rows(query) == []
        assert index.jobs(JobQuery(labels=query.labels)) == JobPage(runs=[], following=None)


def test_many_tenants_are_merged_into_one_list(index: RunIndex) -> None:
    runs = numbered(250)
    changes = [seen(n + 1, run_id, tenant_id=f"t{n}", tags=["x", "y"]) for n, run_id in enumerate(runs)]
    take_in(index, *changes)

    for query in (JobQuery(limit=40), JobQuery(limit=40, labels=("x",)), JobQuery(limit=40, labels=("x", "y"))):
        assert ids(index, query) == runs[::-1]
    assert labels(index) == [("x", 250), ("y", 250)]
    assert labels(index, after="x", limit=1) == [("y", 250)]


def test_jobs_with_foreign_ids_are_listed_last(index: RunIndex) -> None:
    foreign = [RunId("run-1"), RunId("run-2"), RunId("zz"), RunId(A.upper()[:-1] + "F")]
    take_in(index, *(seen(n + 1, run_id) for n, run_id in enumerate([*foreign, A])))

    page = index.jobs(JobQuery(limit=2))
    assert [run.run_id for run in page.runs] == [A, RunId("zz")]
    assert [run.run_id for run in index.jobs(JobQuery(before=page.following)).runs] == [
        RunId("run-2"),
        RunId("run-1"),
        foreign[-1],
    ]


def test_a_replay_changes_nothing(index: RunIndex) -> None:
    changes: list[Change] = [
        seen(1, A, tags=["x"]),
        seen(2, B, tags=["x"]),
        seen(3, A, tags=["y"], status="FAILED"),
        removed(4, B),
    ]
    take_in(index, *changes)

    take_in(index, *changes)
    take_in(index, *changes[:2])

    assert ids(index, JobQuery()) == ids(index, JobQuery(labels=("y",), status=("FAILED",))) == [A]
    assert labels(index) == [("y", 1)]


def test_an_older_version_under_a_newer_revision_changes_nothing(index: RunIndex) -> None:
    take_in(index, seen(1, A, version=7, tags=["x"], status="COMPLETED"))

    take_in(index, seen(2, A, version=6, tags=["y"], status="RUNNING"))

    assert ids(index, JobQuery(labels=("x",), status=("COMPLETED",))) == [A]
    assert labels(index) == [("x", 1)]


def test_a_reset_removes_labels(index: RunIndex) -> None:
    take_in(index, seen(1, A, tags=["x"]))

    index.reset()

    assert index.jobs(JobQuery()).runs == []
    assert labels(index) == []


STATUSES = ("PENDING", "RUNNING", "COMPLETED")
FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(STATUSES),
        "tags": st.lists(st.sampled_from(["x", "xy", "y", "é"])),
        "flow_name": st.sampled_from(["f", "g"]),
    },
    optional={
        "workflow_yaml_sha256": st.just("ab" * 32),
        "archived_at": st.just(9.0),
        "tenant_id": st.sampled_from(["s", "t"]),
    },
)
FOREIGN = RunId("run-1")
CHANGE = st.tuples(st.sampled_from([A, B, C, FOREIGN]), st.none() | st.tuples(st.integers(0, 5), FIELDS))


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
    wanted: list[tuple[str, ...]] = [(), ("x",), ("x", "y"), ("xy", "é"), ("x", "xy", "y")]
    statuses: list[tuple[str, ...]] = [(), ("PENDING",), ("RUNNING", "COMPLETED")]
    queries = [
        JobQuery(labels=some, status=status, tenant_id=tenant_id, limit=2)
        for some in wanted
        for status in statuses
        for tenant_id in (None, "t")
    ]
    jobs = [[run for page in pages(index, query) for run in page] for query in queries]
    return [
        *jobs,
        index.jobs(JobQuery(before=B)).runs,
        *(index.labels(LabelQuery(tenant_id=tenant_id)) for tenant_id in (None, "", "t")),
        index.labels(LabelQuery(prefix="x", after="x")),
    ]


@given(delivered=histories())
def test_jobs_and_labels_do_not_depend_on_delivery_and_replay(
    delivered: tuple[list[Change], list[list[Change]]],
) -> None:
    history, batches = delivered
    with opened("memory") as reference, opened("memory") as memory, opened("sqlite") as sqlite:
        for change in history:
            reference.apply([change], at(change.revision))
        for index in (memory, sqlite):
            for batch in batches:
                index.apply(batch, at(max(change.revision for change in batch)))

        assert everything(memory) == everything(reference)
        assert everything(sqlite) == everything(reference)
