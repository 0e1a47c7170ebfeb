"""Discovery of the flows of a resolver, including invalid declarations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType
from typing import Any

import pytest
from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.fleet.flows import MAX_FLOWS, AnnouncedFlow
from pyoco_server.worker.runner_process.flow_announcement import (
    announce_flows,
    edges_of,
    names_in_order,
    params_of,
    parse_names,
    result_tasks,
    storable_edges,
)


def task(name: str) -> TaskWrapper:
    return TaskWrapper(Task(func=lambda: None, name=name))


def flow(name: str, *tasks: str) -> Flow:
    built = Flow(name)
    for one in tasks:
        built = built >> task(one)
    return built


HELLO = flow("hello", "greet")
PIPELINE = flow("pipeline", "load", "save")
READY = {"hello": HELLO, "pipeline": PIPELINE}
ANNOUNCED = (
    AnnouncedFlow(name="hello", nodes=("greet",), params=(), takes_others=False),
    AnnouncedFlow(name="pipeline", nodes=("load", "save"), edges=(("load", "save"),), params=(), takes_others=False),
)


class Resolver:
    """A resolver with the given declaration."""

    def __init__(self, flows: Any = None) -> None:
        self.flows = flows
        self.calls: list[str] = []

    def __call__(self, name: str) -> Flow:
        self.calls.append(name)
        return READY[name]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of `resolver_of`'s resolvers."""
    module = ModuleType("flows_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def resolver_of(module: ModuleType) -> Callable[[str], Flow]:
    def resolve(name: str) -> Flow:
        return READY[name]

    resolve.__module__ = module.__name__
    return resolve


def generated() -> Iterator[str]:
    yield from READY


@pytest.mark.parametrize(
    "declared", [READY, list(READY), tuple(READY), generated, lambda: READY, {**READY, "hello": None}]
)
def test_a_resolver_declares_flows_by_names_a_mapping_or_a_function(declared: Any) -> None:
    announcement = announce_flows(Resolver(declared))

    assert (announcement.flows, announcement.left_out) == (ANNOUNCED, ())


@pytest.mark.parametrize("declared", [READY, list(READY)])
def test_a_module_declares_flows_for_a_resolver_without_a_declaration(module: ModuleType, declared: Any) -> None:
    module.FLOWS = declared  # type: ignore[attr-defined]

    assert announce_flows(resolver_of(module)).flows == ANNOUNCED


@pytest.mark.parametrize("declared", [None, "flows.py:resolve", 7, generated])
def test_a_resolver_without_a_declaration_announces_nothing(module: ModuleType, declared: Any) -> None:
    module.FLOWS = declared  # type: ignore[attr-defined]

    for resolver in (resolver_of(module), READY.__getitem__, Resolver()):
        announcement = announce_flows(resolver)
        assert (announcement.flows, announcement.left_out) == ((), ())


def test_given_names_take_precedence() -> None:
    resolver = Resolver(["hello"])

    assert announce_flows(resolver, ["pipeline"]).flows == ANNOUNCED[1:]
    assert resolver.calls == ["pipeline"]


def test_a_flow_object_is_not_built_again() -> None:
    resolver = Resolver(READY)

    announce_flows(resolver)

    assert resolver.calls == []


def test_without_building_flows_are_announced_by_name() -> None:
    resolver = Resolver({"hello": HELLO, "pipeline": lambda: PIPELINE})

    announcement = announce_flows(resolver, build=False)

    assert announcement.flows == (ANNOUNCED[0], AnnouncedFlow(name="pipeline"))
    assert resolver.calls == []


@pytest.mark.parametrize("error", [KeyError("gone"), SystemExit(3), KeyboardInterrupt(), RuntimeError("\ud800")])
def test_only_a_flow_that_cannot_be_built_is_left_out(error: BaseException) -> None:
    def resolve(name: str) -> Flow:
        if name == "broken":
            raise error
        return READY[name]

    announcement = announce_flows(resolve, ["hello", "broken", "pipeline"])

    assert announcement.flows == ANNOUNCED
    (reason,) = announcement.left_out
    assert reason.startswith(f"flow 'broken': {type(error).__name__}")


def test_a_value_that_is_no_flow_is_left_out() -> None:
    announcement = announce_flows(lambda name: None, ["hello"])

    assert announcement.flows == ()
    assert "not a pyoco Flow" in announcement.left_out[0]


def raising() -> Any:
    raise ValueError("no list today")


@pytest.mark.parametrize("declared", ["hello", 7, raising, [["hello"]]])
def test_an_invalid_declaration_is_reported_and_given_names_are_used(declared: Any) -> None:
    announcement = announce_flows(Resolver(declared))

    assert announcement.flows == ()
    assert announcement.left_out[0].startswith("the flows that the resolver declares: ")
    assert announce_flows(Resolver(declared), ["hello"]).flows == ANNOUNCED[:1]


def test_the_number_of_declared_names_is_bounded() -> None:
    announcement = announce_flows(Resolver(lambda: map(str, count())), build=False)

    assert len(announcement.flows) == MAX_FLOWS
    assert announcement.left_out[0].startswith(f"flows: {MAX_FLOWS}")


def test_a_flow_with_too_many_tasks_is_announced_by_name() -> None:
    large = Flow("large", tasks={task(str(number)).task for number in range(MAX_NODES + 1)})

    announcement = announce_flows(Resolver({"large": large}))

    assert announcement.flows == (AnnouncedFlow(name="large"),)
    assert announcement.left_out[0].startswith("graph of flow 'large': ValueError: the flow has 2001 tasks")


def test_names_in_a_setting_are_joined_by_commas() -> None:
    assert parse_names(" a, b c,,夜間 ,") == ("a", "b c", "夜間")
    assert parse_names("") == ()


def test_edges_connect_only_tasks_of_the_same_flow() -> None:
    load, save, report = task("load"), task("save"), task("report")
    first = Flow("first") >> load >> [save, report]
    second = Flow("second") >> save

    assert edges_of(first, most=2) == (("load", "report"), ("load", "save"))
    assert (names_in_order(second), edges_of(second, most=0)) == (("save",), ())


def test_too_many_edges_are_rejected() -> None:
    with pytest.raises(ValueError, match="1 edges are more than the 0"):
        edges_of(PIPELINE, most=0)


def test_edges_that_are_too_large_are_not_stored() -> None:
    names = [str(place) + "x" * 250 for place in range(600)]
    tasks = [task(name) for name in names]
    wide = Flow("wide") >> tasks >> task("join")

    assert storable_edges(PIPELINE) == edges_of(PIPELINE, most=1)
    assert storable_edges(wide) == ()


def test_a_flow_with_branches_has_tasks_and_no_edges() -> None:
    branching = Flow("branching") >> task("load") >> task("check") >> task("again") % "$ctx.results.check"

    assert sorted(names_in_order(branching)) == ["again", "check", "load"]
    assert edges_of(branching, most=10) == ()


@pytest.mark.parametrize(
    ("graph", "results"),
    [
        ("a >> b", ("b",)),
        ("a >> repeat(count=2){ b >> c }", ("c",)),
        ("a >> switch(on=x) { y: b; default: c >> d }", ("b", "d")),
        ("repeat(count=2){ a } >> b", ("b",)),
    ],
)
def test_the_result_is_that_of_the_tasks_without_successors_or_of_the_last_step(
    graph: str, results: tuple[str, ...]
) -> None:
    tasks = {name: Task(func=lambda: None, name=name) for name in "abcd"}
    built = build_flow_from_graph(graph=graph, tasks=tasks)

    assert result_tasks(built) == results


def test_names_that_no_event_can_hold_are_no_result() -> None:
    wide = Flow("wide", tasks={Task(func=lambda: None, name=f"{place:0100}日本") for place in range(1_500)})

    assert result_tasks(wide) == ()


def test_parallel_tasks_at_the_end_are_all_part_of_the_result() -> None:
    load, mail, save = (Task(func=lambda: None, name=name) for name in ("load", "mail", "save"))
    parallel = Flow("parallel") >> load >> [save, mail]
    other = Flow("other") >> save
    other >> Task(func=lambda: None, name="after")

    assert result_tasks(parallel) == ("mail", "save")


def _flow_with(*functions: Callable[..., Any], inputs: dict[str, Any] | None = None) -> Flow:
    built = Flow("f")
    for function in functions:
        built = built >> Task(func=function, name=function.__name__, inputs=inputs or {})
    return built


def load(path: str, mode: str = "fast") -> None: ...


def save(load: object, target: str, *rest: object, **more: object) -> None: ...


def with_context(ctx: object, seconds: float = 1.0) -> None: ...


@pytest.mark.parametrize(
    ("built", "params", "takes_others"),
    [
        (_flow_with(load), (("path", True), ("mode", False)), False),
        (_flow_with(load, save), (("path", True), ("mode", False), ("target", True)), False),
        (_flow_with(with_context), (("seconds", False),), True),
        (_flow_with(load, inputs={"path": "$ctx.params.file"}), (("mode", False),), True),
        (_flow_with(dict), (), True),  # no signature
    ],
)
def test_the_parameters_of_a_flow_are_the_arguments_of_its_tasks(
    built: Flow, params: tuple[tuple[str, bool], ...], takes_others: bool
) -> None:
    assert params_of(built) == (params, takes_others)


def test_in_a_flow_with_branches_no_parameter_is_required_and_others_may_be_read() -> None:
    built = build_flow_from_graph(graph="repeat(count=n) { load }", tasks={"load": Task(func=load, name="load")})

    assert params_of(built) == ((("path", False), ("mode", False)), True)


@pytest.mark.parametrize(
    ("declared", "names", "is_complete"),
    [
        (READY, (), True),
        (READY, ("hello",), True),
        (None, (), False),
        ({}, (), False),
        ([*READY, "broken"], (), False),
    ],
)
def test_a_list_is_complete_if_all_declared_flows_are_announced(
    declared: Any, names: tuple[str, ...], is_complete: bool
) -> None:
    assert announce_flows(Resolver(declared), names).is_complete is is_complete
