"""What is doubted about a submission, and what is certain enough to refuse it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.records import WorkerRecord, WorkerState
from pyoco_server.domain.fleet.submissions import Doubt, doubts, nearest, served_tags, unknown_graph
from pyoco_server.domain.fleet.worker_status import WorkerStatus
from pyoco_server.domain.ids import InstanceId, WorkerId

HELLO = AnnouncedFlow(name="hello", nodes=("greet",), params=(("name", False),), takes_others=False)
COPY = AnnouncedFlow(name="copy", nodes=("read",), params=(("path", True), ("mode", False)), takes_others=False)
OPEN = AnnouncedFlow(name="slow", nodes=("wait",), params=(("seconds", False),), takes_others=True)
UNKNOWN = AnnouncedFlow(name="old")


def _worker(
    *flows: AnnouncedFlow,
    tags: tuple[str, ...] = ("default",),
    complete: bool = True,
    state: WorkerState = WorkerState.IDLE,
) -> WorkerStatus:
    record = WorkerRecord(
        worker_id=WorkerId("w"),
        instance_id=InstanceId("i"),
        tags=tags,
        slots=1,
        last_seen_at=1.0,
        flows=flows,
        flows_complete=complete,
    )
    return WorkerStatus(record=record, silent_sec=0.0, state=state)


TEAM = served_tags([_worker(HELLO, COPY, OPEN, UNKNOWN), _worker(HELLO, tags=("gpu",))])


def _doubts(flow: str | None, params: tuple[str, ...] = (), tag: str = "default", served: Any = TEAM) -> list[Doubt]:
    return doubts(served, tag=tag, flow_name=flow, params=params)


@pytest.mark.parametrize(
    ("flow", "params"),
    [
        ("hello", ()),
        ("hello", ("name",)),
        ("hello", ("greet",)),  # replaces the result of the task
        ("copy", ("path", "mode")),
        ("slow", ("anything",)),
        ("old", ("anything",)),
        (None, ("anything",)),
    ],
)
def test_what_is_announced_is_not_doubted(flow: str | None, params: tuple[str, ...]) -> None:
    assert _doubts(flow, params) == []


@pytest.mark.parametrize(
    ("flow", "params", "tag", "text"),
    [
        ("helo", (), "default", "no worker of the tag 'default' announces the flow 'helo', did you mean 'hello'?"),
        ("Hello", (), "gpu", "no worker of the tag 'gpu' announces the flow 'Hello', did you mean 'hello'?"),
        ("zzz", (), "gpu", "no worker of the tag 'gpu' announces the flow 'zzz', but they announce 'hello'"),
        ("copy", ("path",), "gpu", "no worker of the tag 'gpu' announces the flow 'copy', but those of 'default' do"),
        ("hello", (), "gpuu", "no running worker serves the tag 'gpuu', did you mean 'gpu'?"),
        (None, (), "zzz", "no running worker serves the tag 'zzz', but others serve 'default', 'gpu'"),
        ("hello", ("nmae",), "default", "the flow 'hello' has no parameter 'nmae', did you mean 'name'?"),
        ("hello", ("nmae", "name"), "default", "the flow 'hello' has no parameter 'nmae', did you mean 'name'?"),
        ("hello", ("zzz",), "default", "the flow 'hello' has no parameter 'zzz', but 'name'"),
        ("copy", (), "default", "the flow 'copy' requires the parameter 'path'"),
    ],
)
def test_what_no_worker_announces_is_refused_with_what_may_be_meant(
    flow: str | None, params: tuple[str, ...], tag: str, text: str
) -> None:
    assert _doubts(flow, params, tag) == [Doubt(text, True)]


def test_without_workers_nothing_is_certain() -> None:
    stopped = _worker(HELLO, state=WorkerState.STOPPED_GRACEFUL)
    lost = _worker(HELLO, state=WorkerState.DISCONNECTED)

    found = _doubts("helo", ("zzz",), "gpu", served_tags([stopped, lost]))

    assert [doubt.is_certain for doubt in found] == [False]


def test_one_worker_without_a_complete_list_makes_its_tag_uncertain_and_no_other() -> None:
    served = served_tags([_worker(HELLO), _worker(HELLO, complete=False), _worker(HELLO, tags=("gpu",))])

    assert [doubt.is_certain for doubt in _doubts("helo", served=served)] == [False]
    assert [doubt.is_certain for doubt in _doubts("hello", ("nmae",), served=served)] == [False]
    assert [doubt.is_certain for doubt in _doubts("helo", tag="gpu", served=served)] == [True]
    assert [doubt.is_certain for doubt in _doubts("hello", tag="gpuu", served=served)] == [True]


def test_a_similar_name_is_doubted_where_a_task_may_read_others() -> None:
    assert _doubts("slow", ("second",)) == [
        Doubt("the flow 'slow' has no parameter 'second', did you mean 'seconds'?", False)
    ]


def test_versions_of_a_flow_take_the_parameters_of_each_and_require_those_of_all() -> None:
    older = AnnouncedFlow(name="copy", params=(("source", True),), takes_others=False)
    served = served_tags([_worker(COPY), _worker(older)])

    assert _doubts("copy", ("path",), served=served) == []
    assert _doubts("copy", ("source",), served=served) == []
    assert _doubts("copy", ("target",), served=served)[0].is_certain


def test_a_resolver_without_a_list_is_told_of() -> None:
    served = served_tags([_worker(complete=False)])

    assert _doubts("hello", served=served) == [
        Doubt("the workers of the tag 'default' do not announce their flows", False)
    ]


@pytest.mark.parametrize(
    ("name", "graphs", "expected"),
    [
        ("relaese", {"release"}, "there is no graph or flow 'relaese', did you mean 'release'?"),
        ("helo", None, "there is no graph or flow 'helo', did you mean 'hello'?"),
        ("zzz", set(), "there is no graph or flow 'zzz'"),
        ("zzz", None, None),
    ],
)
def test_an_unknown_graph_is_doubted(name: str, graphs: set[str] | None, expected: str | None) -> None:
    found = unknown_graph(TEAM, name, graphs)

    assert [doubt.text for doubt in found] == ([] if expected is None else [expected])
    assert unknown_graph({}, "zzz", set()) == []


def test_hostile_names_are_cut_and_cost_little() -> None:
    names = tuple(f"{place}{'n' * 200_000}" for place in range(1_000))

    found = _doubts("hello", names)

    assert nearest("h" * 200_000, ["hello"]) is None
    assert 1 <= len(found) <= 5
    assert all(len(doubt.text) < 400 for doubt in found)
    assert len(_doubts("f" * 200_000)[0].text) < 400


@given(st.text(max_size=12), st.lists(st.text(max_size=8), max_size=4), st.sampled_from(["default", "gpu", "x"]))
def test_a_doubt_is_certain_only_if_every_worker_of_the_tag_announces_all(flow: str, params: Any, tag: str) -> None:
    served = served_tags([_worker(HELLO, OPEN, complete=False), _worker(HELLO, tags=("gpu",), complete=False)])

    found = doubts(served, tag=tag, flow_name=flow, params=params)

    assert tag == "x" or not any(doubt.is_certain for doubt in found)
