"""What our reader of graphs accepts pyoco builds, with the same nodes and edges; and the reverse."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyoco.core.models import Flow, Task
from pyoco.dsl.expressions import ExpressionSyntaxError
from pyoco.dsl.graph import build_flow_from_graph, parse_graph, resolve_pipe_refs, validate_graph_terms

from pyoco_server.domain.flow_yaml.graph import FlowGraph, read_graph
from pyoco_server.domain.flow_yaml.graph_tokens import GraphFault
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
EXPRESSIONS = (
    *("x", "params.x", "ctx.x", "env.HOME", "results.a.n", "my_ctx", "a..b", "ctx.", "env.9", "x y", "''"),
    *("{{ $ctx.params.x }}", "{{ $ctx.x > 3 and not $env.HOME }}", "{{ 9**9**9 + $ctx.x }}", "{{ $ctx }}", "{{}}"),
    *("{{ $ctx.x.y() }}", "{{ $ctx.x if 1 else 2 }}", "{{ '$ctx.x' }}", "{{ open + $ctx.x }}", "{{ ($ctx.x }}", "7"),
    *("{{ [$ctx.x] }}", "{{ f'{$ctx.x}' }}", "{{ lambda: $ctx.x }}", "{{ $ctx.x @ 2 }}", "{{ _reference + $ctx.x }}"),
)
thorough = settings(max_examples=effort(100, 2_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from([*TASKS, *TASKS, "nobody"])
expressions = st.sampled_from(EXPRESSIONS) | st.text("$ctxenv._ 0123+-*(){}'\"a", max_size=12)
arguments = expressions.map(lambda text: text if text.startswith("{{") or text.isidentifier() else f'"{text}"')
tasks = names | st.tuples(st.sampled_from(["n", "m", "a"]), names).map(": ".join)
pipes = st.sampled_from([*PIPES, "none"]).map(lambda name: f'pipe("{name}")')


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=1, max_size=4).map(" >> ".join)


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    collect = st.sampled_from(["", ", collect=list", ", collect=flatten", ", collect=none", ", collect=''"])
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
pieces = st.sampled_from(
    [
        *TASKS,
        *("pipe", "switch", "on", "repeat", "count", "x"),
        ">>",
        ">",
        "(",
        ")",
        "{",
        "}",
        "{{",
        "}}",
        ":",
        ";",
        ",",
        "=",
        "'",
        '"',
        "\\",
        "#",
        "\n",
        "2",
        "½",
        "²",
    ]
)
soups = st.lists(pieces, max_size=14).map(" ".join) | st.text(max_size=20)


def _built_by_pyoco(text: str) -> Flow | None:
    """The flow, or None where pyoco refuses it: at the build, in its own check, or when it would run."""
    known = {name: Task(func=lambda: None, name=name) for name in TASKS}
    try:
        flow = build_flow_from_graph(graph=text, tasks=known, pipes=PIPES)
        errors = validate_graph_terms(resolve_pipe_refs(parse_graph(text), PIPES)).errors
    except (ValueError, ExpressionSyntaxError, RecursionError):
        return None
    return None if errors or (not flow.has_control_flow() and _waits_for_itself(flow)) else flow


def _waits_for_itself(flow: Flow) -> bool:
    waiting: dict[str, set[str]] = {task.name: {before.name for before in task.dependencies} for task in flow.tasks}
    while free := [name for name, before in waiting.items() if not before & waiting.keys()]:
        for name in free:
            del waiting[name]
    return bool(waiting)


def _read(text: str) -> FlowGraph | None:
    try:
        return read_graph(text, PIPES, TASKS)
    except GraphFault:
        return None


def _shape(flow: Flow) -> tuple[Any, ...]:
    edges = {(before.name, task.name) for task in flow.tasks for before in task.dependencies}
    return {task.name for task in flow.tasks}, edges, flow.has_control_flow()


def _assert_same(graph: FlowGraph, flow: Flow | None) -> None:
    assert flow is not None
    assert (set(graph.nodes), set(graph.edges), graph.has_control_flow) == _shape(flow)
    assert len(graph.nodes) == len(set(graph.nodes))


@given(graphs | soups)
@thorough
@example("½")
@example("repeat(count=2){ a >> a } >> a")
@example("switch(on=x){ default: 'a >> b' }")
def test_what_is_accepted_here_pyoco_builds_with_the_same_nodes_and_edges(text: str) -> None:
    if (graph := _read(text)) is not None:
        _assert_same(graph, _built_by_pyoco(text))


@given(graphs)
@thorough
def test_what_pyoco_builds_and_runs_is_accepted_here(text: str) -> None:
    flow = _built_by_pyoco(text)

    graph = _read(text)

    assert (graph is None) == (flow is None)
