"""The schema of flow.yaml: what pyoco takes and is safe is taken; the rest is refused by name and line."""

from __future__ import annotations

import pytest

from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.flow_yaml import graph
from pyoco_server.domain.flow_yaml.document import FlowFile, read_flow_file
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS
from pyoco_server.errors import InvalidRequest, WorkflowTooLarge

WHOLE = """\
version: 1
tasks:
  load:
    callable: team.tasks:load
    inputs: {path: $ctx.params.path, limit: 10}
    outputs: [scratch.rows]
  again: {use: load}
  save:
    callable: tasks:save
    inputs:
pipes:
  both: load >> again
flow:
  graph: |
    # first read, then write
    pipe(both) >> save
  defaults:
    path: /data/in.csv
    retries: 3
runtime:
  expose_env: [HOME]
"""
SMALL = "tasks:\n  a: {callable: 'm:f'}\nflow:\n  graph: "


def read(text: str, **limits: object) -> FlowFile:
    return read_flow_file(text.encode(), **limits)  # type: ignore[arg-type]  # each test says which


def refused(text: str, **limits: object) -> str:
    with pytest.raises(InvalidRequest) as error:
        read(text, **limits)
    return error.value.detail


def test_a_whole_file_is_read() -> None:
    flow = read(WHOLE)

    assert flow.graph.nodes == ("load", "again", "save")
    assert flow.graph.edges == {("load", "again"), ("again", "save")}
    assert not flow.graph.has_control_flow
    assert flow.defaults == {"path": "/data/in.csv", "retries": 3}
    assert flow.tasks["load"].callable == "team.tasks:load"
    assert flow.tasks["load"].inputs == {"path": "$ctx.params.path", "limit": 10}
    assert flow.tasks["load"].outputs == ("scratch.rows",)
    assert flow.tasks["again"].use == "load"
    assert flow.tasks["save"].inputs == {}
    assert flow.pipes == {"both": "load >> again"}
    assert flow.expose_env == ("HOME",)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("version: 1", "version: 2"), 1, "version 2 is not known"),
        (("version: 1", "version: true"), 1, "version True"),
        (("version: 1", "vresion: 1"), 1, "unknown key 'vresion' in the file"),
        (("runtime:\n", "flows:\n"), 20, "'flows' is not accepted: one file is one flow"),
        (("runtime:\n", "discovery:\n"), 20, "'discovery' is not accepted"),
        (("    outputs: [scratch.rows]", "    retries: 3"), 6, "unknown key 'retries' in tasks.load"),
        (("    outputs: [scratch.rows]", "    outputs: scratch"), 6, "outputs must be a list"),
        (("    outputs: [scratch.rows]", "    outputs: [1]"), 6, "outputs must be a list"),
        (("{use: load}", "{}"), 7, "needs either 'callable' or 'use'"),
        (("{use: load}", "{use: load, callable: m:f}"), 7, "needs either 'callable' or 'use'"),
        (("{use: load}", "{use: 3}"), 7, "use of task 'again' must be a text"),
        (("{use: load}", "load"), 7, "tasks.again must be a mapping"),
        (("tasks:save", "tasks.save"), 9, "task 'save': the callable 'tasks.save' is not of the form"),
        (("tasks:save", "../tasks:save"), 9, "not of the form"),
        (("tasks:save", "/etc/passwd:x"), 9, "not of the form"),
        (("tasks:save", "'tasks.py:a.b'"), 9, "not of the form"),
        (("tasks:save", "'.tasks:save'"), 9, "not of the form"),
        (("tasks:save", "'a:b:c'"), 9, "not of the form"),
        (("tasks:save", "m:" + "f" * 300), 9, "at most 256 characters"),
        (("    inputs:\n", "    inputs: [1]\n"), 10, "inputs must be a mapping"),
        (("$ctx.params.path", "$ctx.path"), 5, "input 'path' of task 'load' is '$ctx.path', which refers to nothing"),
        (("  both: load >> again", "  both: [load]"), 12, "pipe 'both' must be a text"),
        (("  graph: |", "  grahp: |"), 14, "unknown key 'grahp' in flow"),
        (
            ("  defaults:\n    path: /data/in.csv\n    retries: 3", "  defaults: 5"),
            17,
            "flow.defaults must be a mapping",
        ),
        (("expose_env: [HOME]", "expose_env: HOME"), 21, "expose_env must be a list"),
        (("expose_env: [HOME]", "log: 1"), 21, "unknown key 'log' in runtime"),
        (("pipe(both) >> save", "pipe(both) >> svae"), 14, "line 2 of it: there is no task 'svae' under tasks"),
        (("pipe(both)", "pipe(booth)"), 14, "there is no pipe 'booth'"),
        (("pipe(both) >> save", "pipe(both) > save"), 14, "'>>'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(change: tuple[str, str], line: int, words: str) -> None:
    assert change[0] in WHOLE

    detail = refused(WHOLE.replace(*change))

    assert detail.startswith(f"flow.yaml, line {line}: ")
    assert words in detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the file must be a mapping"),
        ("tasks: {a: {callable: 'm:f'}}", "'flow:' with the text 'graph:'"),
        ("tasks: {a: {callable: 'm:f'}}\nflow: {graph: 3}", "'flow:' with the text 'graph:'"),
        ("tasks: {a: {callable: 'm:f'}}\nflow:", "flow must be a mapping"),
        ("flow: {graph: a}", "at least one task"),
        ("tasks:\nflow: {graph: a}", "at least one task"),
        ("tasks: {'': {callable: 'm:f'}}\nflow: {graph: a}", "1 to 256 characters"),
        ("tasks: {a: {callable: 'm:f'}}\nflow: {graph: a}\nruntime:", "runtime must be a mapping"),
    ],
)
def test_what_is_missing_is_named(text: str, words: str) -> None:
    assert words in refused(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("''", "a name expected, found its end"),
        ("a >>", "a name expected"),
        ("a >> a", "would wait for itself"),
        ("'a >> n: a >> n: a'", "two nodes are named 'n'"),
        ("a b", "'>>' or its end expected, found 'b'"),
        ("'run(x=1){a}'", "'run' cannot be called"),
        ("'repeat(cuont=1){a}'", "takes count, collect, each once, not 'cuont'"),
        ("'repeat(count=1, count=2){a}'", "each once"),
        ("'repeat(count=1,){a}'", "an argument expected"),
        ("'repeat(){a}'", "needs count="),
        ("'repeat(count=99999999999999999999){a}'", "whole number"),
        ("'switch(on=x){}'", "at least one case"),
        ("'switch(on=x){y: a; y: a}'", "the case 'y' is defined twice"),
        ("'switch(on=x){default: a; default: a}'", "one default"),
        ("'switch(on=x){y: \"a >\"}'", "'>>'"),
        ("'until(cond=x, max_iter=0){a}'", "max_iter"),
        ("'foreach(over={{ $ctx.x. y }}){a}'", "is not a formula"),
        ("'foreach(over=\"" + "x" * 2000 + "\"){a}'", "more than 1000 characters"),
        ("'" + "repeat(count=1){" * 40 + "a" + "}" * 40 + "'", "nested deeper"),
        ("'switch(on=x){" + ";" * 100_000 + "}'", "too long"),
        ("a" + ">>a" * 10_000, "more than 4096 terms"),
        ("'n: repeat(count=1){a}'", "only a task can be named"),
        ("'{{ a'", "has no '}}'"),
        ("'\"a'", "does not end"),
    ],
)
def test_a_graph_that_would_not_run_is_refused(text: str, words: str) -> None:
    detail = refused(SMALL + text)

    assert words in detail
    assert "flow.graph, line 1 of it" in detail


def test_a_graph_has_no_more_nodes_than_an_execution_and_no_longer_names() -> None:
    assert (graph.MAX_NODES, graph.MAX_NODE_CHARS) == (MAX_NODES, MAX_NODE_ID_CHARS)
    chain = " >> ".join(f"n{n}: a" for n in range(MAX_NODES))

    assert len(read(SMALL + f"'{chain}'").graph.nodes) == MAX_NODES
    assert "more than 2000 tasks" in refused(SMALL + f"'{chain} >> one_more: a'")
    assert "more than 128 characters" in refused(SMALL + f"'{'n' * 129}: a'")


def test_pipes_that_double_or_form_a_cycle_are_refused_at_once() -> None:
    doubling = "".join(f"  p{n}: pipe(p{n + 1}) >> pipe(p{n + 1})\n" for n in range(30)) + "  p30: a\n"
    long_chain = "".join(f"  p{n}: pipe(p{n + 1})\n" for n in range(40)) + "  p40: a\n"

    assert "more than 4096 terms" in refused(SMALL + "pipe(p0)\npipes:\n" + doubling)
    assert "levels deep" in refused(SMALL + "pipe(p0)\npipes:\n" + long_chain)
    assert "cycle: p -> q -> p" in refused(SMALL + "pipe(p)\npipes: {p: pipe(q), q: pipe(p)}")


def test_a_pipe_that_nobody_refers_to_may_be_unfinished() -> None:
    assert read(SMALL + "a\npipes: {later: 'a >>'}").graph.nodes == ("a",)


def test_a_file_above_its_limit_is_refused_unread() -> None:
    with pytest.raises(WorkflowTooLarge, match="101 bytes; at most 100"):
        read("[" * 101, max_bytes=100)


@pytest.mark.parametrize(
    ("patterns", "fits"),
    [((), True), (("m:*",), True), (("team.*:*", "m:f"), True), (("team.*:*",), False), (("M:f",), False)],
)
def test_callables_are_restricted_by_patterns(patterns: tuple[str, ...], fits: bool) -> None:
    if fits:
        assert read(SMALL + "a", allowed=patterns).tasks["a"].callable == "m:f"
    else:
        assert "task 'a': the callable 'm:f' is not among those" in refused(SMALL + "a", allowed=patterns)
