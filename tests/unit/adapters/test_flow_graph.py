"""The graph reader accepts what pyoco builds and runs, with the same nodes, and refuses little else."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import build_flow_from_graph, parse_graph, resolve_pipe_refs, validate_graph_terms

from pyoco_server.adapters.flow_graph import read_graph
from pyoco_server.domain.flow_yaml import FlowGraph, GraphFault
from support.effort import effort

TASKS = ("a", "b", "c", "読む", "default")
PIPES = {
    "p": "a >> b",
    "q": "pipe(p) >> c",
    "loop": "pipe(loop)",
    "to_loop": "repeat(count=2){ pipe(loop) }",
    "broken": "a >>",
    "named": "n: a",
    "in a text": "until(cond=done, max_iter=3){ b }",
}
EXPRESSIONS = ("x", "params.x", "x y", "''", "{{ $ctx.params.x }}", "{{ $ctx }}", "{{}}", "{{ f($ctx.x) }}", "7")
thorough = settings(max_examples=effort(100, 2_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from([*TASKS, *TASKS, "missing"])
arguments = st.sampled_from(EXPRESSIONS).map(
    lambda text: text if text.startswith("{{") or text.isidentifier() else f'"{text}"'
)
tasks = names | st.tuples(st.sampled_from(["n", "m", "a"]), names).map(": ".join)
pipes = st.sampled_from([*PIPES, "none"]).map(lambda name: f'pipe("{name}")')


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=1, max_size=4).map(" >> ".join)


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    collect = st.sampled_from(["", ", collect=list", ", collect=none", ", collect=''"])
    most = st.sampled_from(["", ", max_iter=3", ", max_iter=0", ", max_iter=²", ", max_iter=x"])
    bindings = st.sampled_from(["", ", item=one", ", index=i", ", item='1'", ", item=''"])
    counts = st.sampled_from(["3", "0", "²", "٣", "x", "'2'"]) | arguments
    branch = inner | inner.map(lambda text: f"'{text}'" if "'" not in text and '"' not in text else text)
    case = st.tuples(st.sampled_from(["x", "'y'", "1", "²", "{{ z }}"]), branch).map(": ".join)
    return st.one_of(
        st.builds(lambda n, c, b: f"repeat(count={n}{c}) {{ {b} }}", counts, collect, inner),
        st.builds(lambda e, m, c, b: f"foreach(over={e}{m}{c}) {{ {b} }}", arguments, bindings, collect, inner),
        st.builds(lambda e, m, c, b: f"until(cond={e}{m}{c}) {{ {b} }}", arguments, most, collect, inner),
        st.builds(
            lambda e, cs, d: f"switch(on={e}) {{ {'; '.join([*cs, *([] if d is None else [f'default: {d}'])])} }}",
            arguments,
            st.lists(case, max_size=2),
            st.none() | branch,
        ),
    )


graphs = st.recursive(_joined(tasks | pipes), lambda inner: _joined(_blocks(inner) | tasks), max_leaves=4)
PIECES = "a b pipe switch on repeat count x >> > ( ) { } {{ }} : ; , = ' \" \\ # \n 2 ½ ²"
soups = st.lists(st.sampled_from(PIECES.split(" ")), max_size=14).map(" ".join) | st.text(max_size=20)


def _built_by_pyoco(text: str) -> Flow | None:
    """The flow, or None where pyoco refuses it: at the build, in its own check, or when it would run."""
    known = {name: Task(func=lambda: None, name=name) for name in TASKS}
    try:
        flow = build_flow_from_graph(graph=text, tasks=known, pipes=PIPES)
        errors = validate_graph_terms(resolve_pipe_refs(parse_graph(text), PIPES)).errors
        if not flow.has_control_flow():
            TopologicalSorter({task: task.dependencies for task in flow.tasks}).prepare()
    except (ValueError, CycleError):
        return None
    return None if errors else flow


def _read(text: str) -> FlowGraph | None:
    try:
        return read_graph(text, PIPES, TASKS)
    except GraphFault:
        return None


@given(graphs | soups)
@thorough
@example("½")
@example("a >> a")
@example("a >> b >> a")
@example("repeat(count=2){ a >> a } >> a")
@example("switch(on=x){ default: 'a >> b' }")
@example("switch(on=x){ 1: 'repeat(count=2, cuont=1){ a }' }")
def test_a_graph_that_pyoco_runs_is_accepted_with_its_nodes(text: str) -> None:
    flow = _built_by_pyoco(text)

    graph = _read(text)

    if graph is not None:
        assert flow is not None
        assert set(graph.nodes) == {task.name for task in flow.tasks}
        assert len(graph.nodes) == len(set(graph.nodes))
        assert {name for edge in graph.edges for name in edge} <= set(graph.nodes)
        assert not (graph.edges and flow.has_control_flow())
    elif "cuont" not in text:
        assert flow is None
