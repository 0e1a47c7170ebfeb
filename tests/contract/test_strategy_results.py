"""The guarantees of every StrategyResults; the one in memory is the reference for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.sqlite.results import SqliteStrategyResults
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.counting import BatchStatus, Counted, CountedBatch, CountedRequest
from pyoco_server.domain.pdca.ids import StrategyId, node_of
from pyoco_server.domain.pdca.strategies import Artifact, Health, StrategyResult
from pyoco_server.domain.pdca.strategy_table import Latest
from pyoco_server.errors import IndexUnavailable
from pyoco_server.ports import StrategyResults
from pyoco_server.testing.strategy_results import MemoryStrategyResults

STREAM = "2024-05-01T00:00:00Z"
RUNS = [RunId(f"0190000{number}-0000-7000-8000-000000000000") for number in range(3)]
A, B = StrategyId("a"), StrategyId("b")
REPORT = Artifact(id="r", name="report.md", bytes=3, sha256="ab", media_type="text/plain")


@pytest.fixture(params=["memory", "sqlite"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StrategyResults]:
    opened: StrategyResults = (
        MemoryStrategyResults() if request.param == "memory" else SqliteStrategyResults.open(tmp_path / "pdca.sqlite")
    )
    opened.reset(STREAM)
    yield opened
    opened.close()


def counted(
    run_id: RunId = RUNS[0],
    *found: StrategyResult,
    at: float = 5.0,
    version: int = 1,
    node_id: NodeId = node_of(1),  # noqa: B008 — a text
    tenant_id: str | None = None,
    ended_at: float | None = None,
) -> Counted:
    """A request with one batch, which has ended with these results."""
    batch = CountedBatch(
        strategies=(A, B),
        status=BatchStatus.SUCCEEDED,
        attempt=1,
        ended_at=at,
        health=(len(found), 0, 0),
        artifacts=(REPORT,),
    )
    request = CountedRequest(
        run_id=run_id,
        tenant_id=tenant_id,
        version=version,
        last_update=at,
        ended_at=ended_at,
        batches={node_id: batch},
    )
    return Counted(request, {node_id: found})


def result(strategy: StrategyId = A, health: Health = Health.HEALTHY, **kpi: float) -> StrategyResult:
    return StrategyResult(strategy=strategy, health=health, kpi=kpi)


def test_a_saved_request_is_loaded_as_it_was(results: StrategyResults) -> None:
    saved = counted(RUNS[0], result(winrate=0.5), ended_at=6.0, tenant_id="t")

    results.save(saved)

    assert results.load(RUNS[0]) == saved.request
    assert results.load(RUNS[1]) is None
    assert results.versions(RUNS) == {RUNS[0]: 1}


def test_an_old_version_changes_nothing(results: StrategyResults) -> None:
    news = results.save(counted(RUNS[0], result(health=Health.DEGRADED), version=9))

    stale = [results.save(counted(RUNS[0], result(), version=version)) for version in (8, 9)]

    assert news == [Latest(None, A, 5.0, Health.DEGRADED)]
    assert stale == [(), ()]
    assert list(results.latest()) == news


def test_results_are_listed_newest_first_within_their_times(results: StrategyResults) -> None:
    for place, run_id in enumerate(RUNS):
        results.save(counted(run_id, result(sharpe=place), result(B), at=float(place), version=place + 1))

    found = results.results(None, A, limit=2)
    between = results.results(None, A, checked_from=0.0, checked_to=1.0, limit=9)

    assert [(each.request_id, each.checked_at) for each in found] == [(RUNS[2], 2.0), (RUNS[1], 1.0)]
    assert (found[0].result, found[0].artifacts) == (result(sharpe=2.0), (REPORT,))
    assert [each.checked_at for each in between] == [1.0, 0.0]
    assert results.averages(None, A, checked_from=1.0) == {"sharpe": 1.5}
    assert results.averages(None, B, checked_from=0.0) == {}


def test_an_average_that_no_number_can_hold_is_left_out(results: StrategyResults) -> None:
    for run_id in RUNS:
        results.save(counted(run_id, result(winrate=0.5, sharpe=1e308)))

    assert results.averages(None, A, checked_from=0.0) == {"winrate": 0.5}


def test_a_batch_that_changes_replaces_its_results(results: StrategyResults) -> None:
    results.save(counted(RUNS[0], result(), result(B)))

    news = results.save(counted(RUNS[0], result(B, Health.DEGRADED), at=7.0, version=2))

    assert news == [Latest(None, A, None, Health.UNKNOWN), Latest(None, B, 7.0, Health.DEGRADED)]
    assert results.results(None, A, limit=9) == []


def test_results_leave_with_their_request(results: StrategyResults) -> None:
    results.save(counted(RUNS[0], result(health=Health.DEGRADED), at=1.0, ended_at=1.0))
    results.save(counted(RUNS[1], result(), at=2.0, ended_at=2.0))
    results.save(counted(RUNS[2], result(), at=3.0))

    old = results.ended_before(2.5, 9)
    news = [results.remove(run_id) for run_id in (RUNS[2], RUNS[1], RUNS[1])]

    assert old == [RUNS[0], RUNS[1]]
    assert news == [[Latest(None, A, 2.0, Health.HEALTHY)], [Latest(None, A, 1.0, Health.DEGRADED)], ()]
    assert results.versions(RUNS) == {RUNS[0]: 1}


def test_tenants_have_strategies_of_the_same_id(results: StrategyResults) -> None:
    results.save(counted(RUNS[0], result(), tenant_id="t"))
    results.save(counted(RUNS[1], result(health=Health.DEGRADED)))

    assert [each.request_id for each in results.results("t", A, limit=9)] == [RUNS[0]]
    assert sorted(results.latest(), key=str) == [
        Latest("t", A, 5.0, Health.HEALTHY),
        Latest(None, A, 5.0, Health.DEGRADED),
    ]


def test_a_reset_forgets_everything(results: StrategyResults) -> None:
    results.save(counted(RUNS[0], result()))

    results.reset("another stream")

    assert (results.stream(), results.load(RUNS[0]), list(results.latest())) == ("another stream", None, [])


HEALTH = st.sampled_from(Health)
SAVES = st.lists(
    st.tuples(
        st.sampled_from(RUNS),
        st.integers(1, 5),
        st.sampled_from([1.0, 2.0]),
        st.lists(st.builds(result, st.sampled_from([A, B]), HEALTH), unique_by=lambda one: one.strategy, max_size=2),
        st.booleans(),
    )
)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStrategyResults]:
    opened = SqliteStrategyResults.open(tmp_path_factory.mktemp("results") / "pdca.sqlite")
    opened.reset(STREAM)
    yield opened
    opened.close()


@given(SAVES)
def test_sqlite_holds_what_memory_holds(
    sqlite: SqliteStrategyResults, saves: list[tuple[RunId, int, float, list[StrategyResult], bool]]
) -> None:
    memory = MemoryStrategyResults()
    both: tuple[StrategyResults, StrategyResults] = (memory, sqlite)

    for run_id, version, at, found, is_removal in saves:
        done = counted(run_id, *found, at=at, version=version)
        one, other = ([*(each.remove(run_id) if is_removal else each.save(done))] for each in both)
        assert one == other

    assert sorted(memory.latest(), key=str) == sorted(sqlite.latest(), key=str)
    for strategy_id in (A, B):
        assert memory.results(None, strategy_id, limit=9) == sqlite.results(None, strategy_id, limit=9)
    for run_id in RUNS:
        sqlite.remove(run_id)


def test_a_file_keeps_what_was_saved(tmp_path: Path) -> None:
    first = SqliteStrategyResults.open(tmp_path / "pdca.sqlite")
    first.reset(STREAM)
    first.save(counted(RUNS[0], result()))
    first.close()

    second = SqliteStrategyResults.open(tmp_path / "pdca.sqlite")

    assert (second.stream(), second.versions(RUNS)) == (STREAM, {RUNS[0]: 1})
    second.close()


def test_a_damaged_file_is_empty_and_can_be_filled_again(tmp_path: Path) -> None:
    first = SqliteStrategyResults.open(tmp_path / "pdca.sqlite")
    first.reset(STREAM)
    first.save(counted(RUNS[0], result()))
    first.close()
    damaged = bytearray((tmp_path / "pdca.sqlite").read_bytes())
    damaged[len(damaged) // 2 :] = b"x" * (len(damaged) - len(damaged) // 2)
    (tmp_path / "pdca.sqlite").write_bytes(damaged)

    second = SqliteStrategyResults.open(tmp_path / "pdca.sqlite")

    assert (second.stream(), second.load(RUNS[0])) == (None, None)
    second.close()


def test_an_unreadable_batch_counts_as_damage(tmp_path: Path) -> None:
    results = SqliteStrategyResults.open(tmp_path / "pdca.sqlite")
    results.reset(STREAM)
    results.save(counted(RUNS[0], result()))
    with results._file.writing() as writer:
        writer.execute("UPDATE batches SET content = x'00'")

    with pytest.raises(IndexUnavailable):
        results.load(RUNS[0])

    assert results.stream() is None
    results.close()
