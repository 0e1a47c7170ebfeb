"""The steps of every RunIndex: claimable nodes, waits, expired leases, and counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.state import MAX_NODE_ATTEMPTS, Node
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.queries.rows import Change as RowChange
from pyoco_server.domain.queries.rows import RunRow
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery
from pyoco_server.ports import RunIndex
from support.indexes import A, B, C, D, at, opened, removed, take_in
from support.steps import CANCELLING, ENDED, done, leased, ready, shown, waiting


@pytest.fixture(params=["memory", "sqlite"])
def index(request: pytest.FixtureRequest) -> Iterator[RunIndex]:
    with opened(request.param) as index:
        yield index


# The default number of attempts of a node.
LAST = MAX_NODE_ATTEMPTS


def claimed(
    index: RunIndex, *graph_ids: str, tenant_id: str | None = None, now: float = 0.0, limit: int = 50
) -> list[tuple[RunId, str]]:
    found = index.claimable(graph_ids, tenant_id=tenant_id, now=now, limit=limit)
    return [(node.run_id, node.node_id) for node in found]


def waits(index: RunIndex, **query: Any) -> list[tuple[RunId, str]]:
    return [(wait.run_id, wait.node_id) for wait in index.waits(WaitQuery(**query))]


def due(index: RunIndex, before: float, limit: int = 50) -> list[tuple[RunId, str]]:
    return [(node.run_id, node.node_id) for node in index.due(before=before, limit=limit)]


def since(moment: float, row: RunRow) -> RunRow:
    """The same row, all of whose nodes wait since then."""
    return replace(row, steps=tuple(step._replace(since=moment) for step in row.steps))


def test_ready_nodes_are_claimable_by_execution_age_and_node_order(index: RunIndex) -> None:
    take_in(index, shown(1, B, ready("z"), done("d"), ready("a", attempt=1)), shown(2, A, ready("n")))

    assert claimed(index, "g") == [(A, "n"), (B, "z"), (B, "a")]
    assert claimed(index, "g", limit=2) == [(A, "n"), (B, "z")]
    assert index.claimable(["g"], tenant_id=None, now=0.0, limit=9)[2] == ClaimableNode(
        run_id=B, node_id=NodeId("a"), attempt=1, graph_id="g"
    )


def test_only_nodes_of_the_requested_graphs_and_tenant_are_claimable(index: RunIndex) -> None:
    take_in(
        index,
        shown(1, A, ready("n"), flow="f", tenant_id="acme"),
        shown(2, B, ready("n"), flow="g", tenant_id="acme"),
        shown(3, C, ready("n"), flow="g"),
        shown(4, D, ready("n"), flow="h"),
    )

    assert claimed(index, "f", "g", "f") == [(A, "n"), (B, "n"), (C, "n")]
    assert claimed(index, "g", "h", tenant_id="acme") == [(B, "n")]
    assert claimed(index, "g", tenant_id="") == [(C, "n")]
    assert claimed(index, "nobody's") == []
    assert claimed(index) == []


def test_an_expired_lease_is_claimable_among_ready_nodes(index: RunIndex) -> None:
    take_in(index, shown(1, A, leased("late", 60.0), leased("early", 50.0, attempt=4)), shown(2, B, ready("n")))

    assert claimed(index, "g", now=49.9) == [(B, "n")]
    assert claimed(index, "g", now=50.0) == [(A, "early"), (B, "n")]
    assert claimed(index, "g", now=60.0) == [(A, "late"), (A, "early"), (B, "n")]
    assert claimed(index, "g", now=60.0, limit=1) == [(A, "late")]
    assert index.claimable(["g"], tenant_id=None, now=50.0, limit=1)[0].attempt == 4


def test_a_lease_without_a_graph_is_not_claimable(index: RunIndex) -> None:
    take_in(index, shown(1, A, leased("n", 50.0), ready("r"), graph=False))

    assert claimed(index, "g", now=99.0) == []
    assert index.next_lease_end(["g"], tenant_id=None) is None
    assert due(index, 99.0) == []


def test_a_lease_of_the_last_attempt_is_not_claimable_and_expires(index: RunIndex) -> None:
    take_in(index, shown(1, A, leased("n", 50.0, attempt=LAST), ready("r")))

    assert claimed(index, "g", now=99.0) == [(A, "r")]
    assert index.next_lease_end(["g"], tenant_id=None) is None
    assert (due(index, 49.0), due(index, 50.0)) == ([], [(A, "n")])


def test_the_next_lease_expiry_is_the_earliest_of_the_requested_graphs(index: RunIndex) -> None:
    assert index.next_lease_end(["g"], tenant_id=None) is None

    take_in(
        index,
        shown(1, A, leased("a", 60.0), leased("b", 55.0), waiting("w", deadline_at=1.0)),
        shown(2, B, leased("c", 50.0), tenant_id="acme"),
        shown(3, C, leased("d", 40.0), flow="f"),
    )

    assert index.next_lease_end(["g"], tenant_id=None) == 50.0
    assert index.next_lease_end(["g"], tenant_id="") == 55.0
    assert index.next_lease_end(["g", "f"], tenant_id=None) == 40.0
    assert index.next_lease_end(["f"], tenant_id="acme") is None


def test_waits_are_listed_longest_first_with_all_fields(index: RunIndex) -> None:
    take_in(
        index,
        shown(5, A, waiting("late", "k1")),
        shown(6, B, done("d"), waiting("n", "k2", prompt={"text": "Go?"}, deadline_at=70.0), updated_at=20.0),
    )

    first, second = index.waits(WaitQuery())

    assert first == WaitingNode(
        run_id=B,
        node_id=NodeId("n"),
        place=1,
        graph_id="g",
        attempt=1,
        wait_key="k2",
        prompt=b'{"text":"Go?"}',
        since=20.0,
        due_at=70.0,
        worker_id=None,
    )
    assert (second.run_id, second.prompt, second.since, second.due_at) == (A, None, 105.0, None)


def test_waits_of_equal_age_are_listed_by_id_and_position(index: RunIndex) -> None:
    take_in(
        index,
        since(5.0, shown(1, B, waiting("z"), waiting("a"))),
        since(5.0, shown(2, A, waiting("n"), flow="f")),
        since(4.0, shown(3, C, waiting("n"))),
    )

    assert waits(index) == [(C, "n"), (A, "n"), (B, "z"), (B, "a")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"tenant_id": "acme"}, [A, B]),
        ({"tenant_id": ""}, [C, D]),
        ({"graph_id": "g"}, [B, D]),
        ({"graph_id": "g", "tenant_id": "acme"}, [B]),
        ({"run_id": C}, [C]),
        ({"run_id": C, "graph_id": "f", "tenant_id": ""}, [C]),
        ({"run_id": C, "graph_id": "g"}, []),
        ({"run_id": C, "tenant_id": "acme"}, []),
        ({"run_id": RunId("unheard of")}, []),
        ({"graph_id": "nobody's"}, []),
        ({"limit": 3}, [A, B, C]),
    ],
)
def test_every_given_filter_of_waits_applies(index: RunIndex, query: dict[str, Any], expected: list[RunId]) -> None:
    take_in(
        index,
        shown(1, A, waiting("n"), flow="f", tenant_id="acme"),
        shown(2, B, waiting("n"), ready("r"), flow="g", tenant_id="acme"),
        shown(3, C, waiting("n"), leased("l", 5.0), flow="f"),
        shown(4, D, waiting("n"), flow="g"),
    )

    assert [run_id for run_id, _ in waits(index, **query)] == expected


@pytest.mark.parametrize("query", [{}, {"graph_id": "g"}, {"run_id": B}])
def test_pages_of_waits_are_consecutive(index: RunIndex, query: dict[str, Any]) -> None:
    take_in(
        index,
        since(5.0, shown(1, A, waiting("a"), waiting("b"), waiting("c"))),
        since(5.0, shown(2, B, waiting("a"), waiting("b"), waiting("c"))),
        since(4.0, shown(3, C, waiting("a"), flow="f")),
    )
    whole = index.waits(WaitQuery(**query))

    found: list[WaitingNode] = []
    while page := index.waits(WaitQuery(limit=2, after=found[-1].key if found else None, **query)):
        found += page

    assert found == list(whole)


def test_expired_steps_are_found_earliest_first(index: RunIndex) -> None:
    take_in(
        index,
        shown(1, A, leased("a", 60.0, attempt=LAST), waiting("b", deadline_at=50.0), waiting("for ever"), ready("r")),
        shown(2, B, leased("c", 50.0, attempt=LAST), flow="f", tenant_id="acme"),
        shown(3, C, leased("d", 61.0, attempt=LAST), leased("e", 40.0)),
    )

    assert due(index, 60.0) == [(A, "b"), (B, "c"), (A, "a")]
    assert due(index, 60.0, limit=1) == [(A, "b")]
    assert due(index, 49.0) == []
    assert index.due(before=50.0, limit=9) == [
        DueNode(run_id=A, node_id=NodeId("b"), attempt=1, kind=StepKind.WAITING),
        DueNode(run_id=B, node_id=NodeId("c"), attempt=LAST, kind=StepKind.LEASED),
    ]


def test_steps_are_counted_by_kind(index: RunIndex) -> None:
    assert index.steps_count() == {StepKind.READY: 0, StepKind.LEASED: 0, StepKind.WAITING: 0}

    take_in(index, shown(1, A, ready("a"), ready("b"), leased("c", 5.0)), shown(2, B, ready("a"), tenant_id="acme"))

    assert index.steps_count() == {StepKind.READY: 3, StepKind.LEASED: 1, StepKind.WAITING: 0}


def test_a_changed_node_leaves_its_previous_list(index: RunIndex) -> None:
    take_in(index, shown(1, A, ready("a"), ready("b")))

    take_in(index, shown(2, A, leased("a", 50.0), ready("b")))
    assert claimed(index, "g") == [(A, "b")]

    take_in(index, shown(3, A, leased("a", 80.0), ready("b")))
    assert (index.next_lease_end(["g"], tenant_id=None), due(index, 79.0)) == (80.0, [])

    take_in(index, shown(4, A, waiting("a"), ready("b")))
    assert (index.next_lease_end(["g"], tenant_id=None), waits(index)) == (None, [(A, "a")])

    take_in(index, shown(5, A, done("a"), ready("b")))
    assert (waits(index), claimed(index, "g")) == ([], [(A, "b")])
    assert index.steps_count() == {StepKind.READY: 1, StepKind.LEASED: 0, StepKind.WAITING: 0}


@pytest.mark.parametrize("fields", [ENDED, CANCELLING])
def test_a_finished_or_cancelled_execution_has_no_steps(index: RunIndex, fields: dict[str, Any]) -> None:
    nodes = (ready("a"), leased("b", 5.0), waiting("c", deadline_at=6.0))
    take_in(index, shown(1, A, *nodes), shown(2, B, *nodes))

    take_in(index, shown(3, A, *nodes, **fields))

    assert (claimed(index, "g", now=9.0), waits(index)) == ([(B, "a"), (B, "b")], [(B, "c")])
    assert due(index, 9.0) == [(B, "c")]
    assert set(index.steps_count().values()) == {1}


def test_a_removed_execution_has_no_steps_and_may_be_stored_again(index: RunIndex) -> None:
    take_in(index, shown(1, A, ready("a"), waiting("b")))

    take_in(index, removed(2, A))
    assert (claimed(index, "g"), waits(index), set(index.steps_count().values())) == ([], [], {0})

    take_in(index, shown(3, A, ready("c")))
    assert claimed(index, "g") == [(A, "c")]

    index.reset()
    assert (claimed(index, "g"), set(index.steps_count().values())) == ([], {0})


def test_an_older_version_changes_no_steps(index: RunIndex) -> None:
    take_in(index, shown(1, A, leased("a", 50.0), version=7))

    take_in(index, shown(2, A, ready("a"), version=6))

    assert claimed(index, "g") == []


def test_the_steps_of_many_tenants_and_graphs_are_merged_into_one_list(index: RunIndex) -> None:
    runs = [RunId(f"run-{n:04}") for n in range(250)]
    changes = [
        since(float(n), shown(n + 1, run_id, waiting("w"), flow=f"f{n % 3}", tenant_id=f"t{n}"))
        for n, run_id in enumerate(runs)
    ]
    take_in(index, *changes)
    assert [run_id for run_id, _ in waits(index, limit=120)] == runs[:120]

    take_in(index, *(shown(300 + n, run_id, ready("n"), tenant_id=f"t{n}") for n, run_id in enumerate(runs)))

    assert claimed(index, "g", limit=120) == [(run_id, "n") for run_id in runs[:120]]


NODE = st.sampled_from(["a", "b", "c"]).flatmap(
    lambda name: st.sampled_from(
        [done(name), ready(name), ready(name, attempt=1), leased(name, None)]
        + [leased(name, until, worker_id=worker) for until in (5.0, 6.0) for worker in ("w-1", "w-2")]
        + [waiting(name, key, prompt=prompt) for key in ("k", "l") for prompt in (None, {"q": 1})]
        + [waiting(name, deadline_at=moment) for moment in (5.0, 7.0)]
    )
)
NODES = st.lists(NODE, max_size=3, unique_by=lambda node: node.node_id)
FIELDS = st.fixed_dictionaries(
    {"version": st.integers(0, 5), "graph": st.booleans(), "updated_at": st.sampled_from([1.0, 2.0])},
    optional={"flow": st.sampled_from(["f", "g"]), "tenant_id": st.just("t"), "started_at": st.none()},
)
LATER: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {}, {}, ENDED, CANCELLING])
CHANGE = st.tuples(st.sampled_from([A, B, C]), st.none() | st.tuples(NODES, FIELDS, LATER))
Change = tuple[RunId, tuple[list[Node], dict[str, Any], dict[str, Any]] | None]


def history_of(changes: list[Change]) -> list[RowChange]:
    return [
        removed(sequence, run_id) if change is None else shown(sequence, run_id, *change[0], **(change[1] | change[2]))
        for sequence, (run_id, change) in enumerate(changes, start=1)
    ]


def everything(index: RunIndex) -> list[object]:
    tenants = (None, "t", "")
    graphs = (["f"], ["f", "g"])
    queries = [WaitQuery(tenant_id=tenant_id, graph_id=flow) for tenant_id in tenants for flow in (None, "f", "g")]
    queries += [WaitQuery(run_id=A), WaitQuery(run_id=B, graph_id="g"), WaitQuery(after=(1.0, B, 0), limit=2)]
    return [
        *(
            list(index.claimable(graph_ids, tenant_id=tenant_id, now=now, limit=limit))
            for graph_ids in graphs
            for tenant_id in tenants
            for now, limit in ((0.0, 9), (5.0, 9), (6.0, 2))
        ),
        *(index.next_lease_end(graph_ids, tenant_id=tenant_id) for graph_ids in graphs for tenant_id in tenants),
        *(list(index.waits(query)) for query in queries),
        *(list(index.due(before=before, limit=limit)) for before in (5.0, 9.0) for limit in (2, 9)),
        index.steps_count(),
    ]


@given(changes=st.lists(CHANGE, min_size=1, max_size=20), cuts=st.sets(st.integers(1, 19)), replay=st.booleans())
def test_steps_do_not_depend_on_delivery(changes: list[Change], cuts: set[int], replay: bool) -> None:
    history = history_of(changes)
    ends = sorted({cut for cut in cuts if cut < len(history)} | {len(history)})
    with opened("memory") as reference, opened("memory") as memory, opened("sqlite") as sqlite:
        for change in history:
            reference.apply([change], at(change.revision))
        for index in (memory, sqlite):
            for begin, end in zip([0, *ends], ends, strict=False):
                index.apply(history[0 if replay else begin : end], at(end))

        assert everything(memory) == everything(reference)
        assert everything(sqlite) == everything(reference)


@given(changes=st.lists(CHANGE, min_size=1, max_size=12))
def test_both_indexes_give_equal_results_after_every_change(changes: list[Change]) -> None:
    with opened("memory") as memory, opened("sqlite") as sqlite:
        for change in history_of(changes):
            memory.apply([change], at(change.revision))
            sqlite.apply([change], at(change.revision))

            assert everything(sqlite) == everything(memory)
