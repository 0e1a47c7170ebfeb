"""flow.yaml: the documented form is accepted; everything else is refused with the line."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import chdir, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.core.context import Context
from pyoco.core.exceptions import InvalidReferenceError
from pyoco.dsl.graph import MAX_PIPE_EXPANDED_TERMS

from pyoco_server.adapters import flow_graph
from pyoco_server.adapters.flow_graph import read_flow_file, read_graph
from pyoco_server.domain import strict_yaml
from pyoco_server.domain.execution.state import MAX_NODES
from pyoco_server.domain.flow_yaml import FlowFile, is_selector, is_well_formed
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS
from pyoco_server.errors import InvalidRequest, WorkflowTooLarge

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference" / "flow-yaml.md").read_text()
SHOWN = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
SELECTORS = st.lists(st.sampled_from(["node", "ctx", "params", "env", "output", "", "x"]), min_size=1, max_size=5).map(
    lambda parts: "$" + ".".join(parts)
)
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


def test_every_part_of_a_file_is_read() -> None:
    flow = read(WHOLE)

    assert flow.graph.nodes == ("load", "again", "save")
    assert flow.graph.tasks == {"load", "again", "save"}
    assert flow.defaults == {"path": "/data/in.csv", "retries": 3}
    assert flow.tasks["load"].callable == "team.tasks:load"
    assert flow.tasks["load"].inputs == {"path": "$ctx.params.path", "limit": 10}
    assert flow.tasks["load"].outputs == ("scratch.rows",)
    assert flow.tasks["again"].use == "load"
    assert flow.tasks["save"].inputs == {}
    assert flow.pipes == {"both": "load >> again"}


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
        (("pipe(both) >> save", "pipe(both) >> svae"), 14, "flow.graph: Task not found: svae"),
        (("pipe(both)", "pipe(booth)"), 14, "there is no pipe 'booth'"),
        (("pipe(both) >> save", "pipe(both) > save"), 14, "line 2 of it: Unsupported operator '>'"),
    ],
)
def test_a_fault_is_reported_with_its_line(change: tuple[str, str], line: int, words: str) -> None:
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
def test_a_missing_part_is_reported(text: str, words: str) -> None:
    assert words in refused(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("''", "Empty pipeline"),
        ("a >>", "Expected term"),
        ("a >> a", "would wait for itself"),
        ("missing", "Task not found: missing"),
        ("'a >> n: a >> n: a'", "Duplicate node name: n"),
        ("'run(x=1){a}'", "line 1 of it: Unknown callable term 'run'"),
        ("'repeat(count=1, cuont=1){a}'", "line 1 of it: repeat(...) takes count, collect, not 'cuont'"),
        ("'repeat(count=1, count=2){a}'", "'count' is defined twice"),
        ("'repeat(){a}'", "requires 'count='"),
        ("'repeat(count=²){a}'", "invalid literal"),
        ("'switch(on=x){}'", "at least one case"),
        ("'switch(on=x){y: a; y: a}'", "duplicate switch case 'y'"),
        ("'switch(on=x){default: a; default: a}'", "'default' is defined twice"),
        ("\"switch(on=x){\\n\\ny: 'a >'}\"", "line 3 of it: Unsupported operator '>'"),
        ("\"repeat(count=1, collect='\\x1b'){a}\"", "unsupported collect mode '\\x1b'"),
        ("'until(cond=x, max_iter=0){a}'", "max_iter must be a positive integer"),
        ("'foreach(over={{ $ctx.x. y }}){a}'", "invalid syntax"),
        ("'foreach(over={{ $ctx.x() }}){a}'", "Only $ctx/$env references"),
        ("'foreach(over=\"" + "x" * 2000 + "\"){a}'", "more than 1000 characters"),
        ("'until(cond={{ $ctx.x + " + "(" * 490 + "1" + ")" * 480 + " }}){a}'", "too many nested parentheses"),
        ("'" + "repeat(count=1){" * 40 + "a" + "}" * 40 + "'", "nested deeper than 32"),
        ("'" + "repeat(count=1){" * 600 + "a" + "}" * 600 + "'", "nested too deeply"),
        ("'switch(on=x){" + ";" * 70_000 + "}'", "more than 65536 characters"),
        ("a" + ">>a" * 10_000, "more than 20000 words and marks"),
        ("a" + ">>a" * 5_000, "more than 4096 terms"),
        ("x" * 60_000, "more than 128 characters"),
        ("'n: repeat(count=1){a}'", "must reference a task term"),
        ("pipe(p0)\npipes:\n" + "".join(f"  p{n}: pipe(p{n + 1})\n" for n in range(40)), "deeper than 32"),
        ("pipe(p)\npipes: {p: pipe(q), q: pipe(p)}", "cycle: p -> q -> p"),
    ],
    ids=lambda value: value[:40],
)
def test_a_graph_that_would_not_run_is_refused(text: str, words: str) -> None:
    detail = refused(SMALL + text)

    assert words in detail
    assert detail.startswith("flow.yaml, line 4: flow.graph")
    assert len(detail) < 300


def test_a_deep_expression_is_accepted_or_refused() -> None:
    with suppress(InvalidRequest):
        read(SMALL + "'until(cond={{ $ctx.x " + "+-" * 480 + "1 }}){a}'")


def test_a_fault_in_a_pipe_is_reported_with_its_pipe_and_line() -> None:
    assert "line 7: pipes.p, line 2 of it" in refused(SMALL + "pipe(p)\npipes:\n  q: a\n  p: |\n    a >>\n    >> a\n")


def test_a_graph_has_no_more_nodes_than_an_execution() -> None:
    chain = " >> ".join(f"n{n}: a" for n in range(MAX_NODES))

    assert len(read(SMALL + f"'{chain}'").graph.nodes) == MAX_NODES
    assert "more than 2000 nodes" in refused(SMALL + f"'{chain} >> one_more: a'")


@pytest.mark.parametrize(
    ("leaf", "words"), [("a", "more than 4096 terms"), ("a " + "# a comment" * 1000, "more than 65536 characters")]
)
def test_doubling_pipes_are_refused_before_expansion(leaf: str, words: str) -> None:
    doubling = "".join(f"  p{n}: pipe(p{n + 1}) >> pipe(p{n + 1})\n" for n in range(30)) + f"  p30: '{leaf}'\n"

    assert words in refused(SMALL + "pipe(p0)\npipes:\n" + doubling)


def test_an_unused_pipe_may_be_unfinished() -> None:
    assert read(SMALL + "a\npipes: {later: 'a >>'}").graph.nodes == ("a",)


def test_a_file_above_its_limit_is_not_parsed() -> None:
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


@given(selector=SELECTORS)
@settings(deadline=None)
def test_a_reference_is_well_formed_unless_pyoco_calls_it_invalid(
    selector: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    is_invalid = False
    try:
        with chdir(tmp_path_factory.mktemp("context")):  # pyoco makes a folder there
            Context(params={}).resolve(selector)
    except InvalidReferenceError:
        is_invalid = True
    except KeyError:
        pass

    assert is_well_formed(selector) is not is_invalid


def test_only_a_text_that_begins_with_a_dollar_is_a_reference() -> None:
    assert is_selector("$env.HOME")
    assert not any(is_selector(value) for value in ("5 $", 5, None, ["$env.HOME"], {"a": "$env.HOME"}))


@pytest.mark.parametrize("text", [*SHOWN, (ROOT / "examples" / "flow.yaml").read_text()])
def test_a_documented_file_is_accepted(text: str) -> None:
    assert read_flow_file(text.encode()).graph.nodes


@pytest.mark.parametrize("term", re.findall(r"^\| `(.*?)` \| ", DOCUMENT.partition("## Callables")[0], re.MULTILINE))
def test_a_documented_term_is_a_graph(term: str) -> None:
    assert read_graph(term.replace("…", "a"), {"p": "a"}, ["a", "b"]).nodes


def test_the_limits_are_documented() -> None:
    text = DOCUMENT.replace(",", "").replace("\n", " ")

    assert f"more than {MAX_NODES} nodes or {MAX_PIPE_EXPANDED_TERMS} terms" in text
    assert f"{flow_graph.MAX_GRAPH_CHARS} characters or {flow_graph.MAX_TOKENS} words and marks" in text
    assert f"names of more than {MAX_NODE_ID_CHARS} characters" in text
    assert f"nested deeper than {flow_graph.MAX_NESTING}" in text
    assert f"more than {strict_yaml.MAX_ALIASES} aliases or {strict_yaml.MAX_ALIASED_CHARS // 1024} KiB" in text
    assert f"more than {strict_yaml.MAX_DEPTH} levels or {strict_yaml.MAX_VALUES} values" in text
    assert f"at most {flow_graph.MAX_EXPRESSION_CHARS} characters" in text


async def test_files_that_wait_for_the_parser_leave_the_default_executor_free() -> None:
    data = b"tasks:\n  a: {callable: tasks:a}\nflow:\n  graph: a\n"
    may_parse = threading.Event()
    flow_graph._PARSER.submit(may_parse.wait, 10)

    async with asyncio.timeout(10):
        waiting = [
            asyncio.create_task(flow_graph.read_flow_file_aside(data, max_bytes=1_000, allowed=())) for _ in range(50)
        ]
        await asyncio.sleep(0)  # all of them wait for the parser now
        await asyncio.to_thread(may_parse.set)
        flows = await asyncio.gather(*waiting)

    assert all(flow.graph.nodes == ("a",) for flow in flows)
