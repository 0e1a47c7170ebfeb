"""The graph language of flow.yaml: pyoco parses, checks and builds the graph, within bounds. Imports no user code.

A hostile file takes up to two tenths of a second: servers call `read_flow_file_aside`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from pyoco.core.models import Flow, Task
from pyoco.dsl.graph import (
    MAX_PIPE_EXPANDED_TERMS,
    GraphParser,
    Token,
    build_flow_from_graph,
    tokenize_graph,
    validate_graph_terms,
)
from pyoco.dsl.graph_terms import Pipeline, PipeRefTerm, SwitchTerm, TaskTerm, Term

from pyoco_server.domain.flow_yaml import FlowFile, FlowGraph, GraphFault, parse_flow_file
from pyoco_server.domain.ids import MAX_NODE_ID_CHARS, MAX_NODES
from pyoco_server.domain.strict_yaml import shown

# Far more than two thousand tasks need.
MAX_TOKENS = 20_000
# The text with its pipes written out: pyoco parses a pipe again at each place.
MAX_GRAPH_CHARS = 65_536
# The engine of the worker needs several stack frames per level.
MAX_NESTING = 32
# Python's own parser is not safe against arbitrarily deep expressions.
MAX_EXPRESSION_CHARS = 1_000
MAX_REASON_CHARS = 200

_ARGUMENTS = {
    "switch": ("on",),
    "repeat": ("count", "collect"),
    "foreach": ("over", "item", "index", "collect"),
    "until": ("cond", "max_iter", "collect"),
}
# One thread: several parsers at once would keep the event loop from running for as many time slices. Of its own: files
# that wait for it would occupy the default executor, which everything else uses.
_PARSER = ThreadPoolExecutor(1, "flow-yaml")
_MARKS = "(){};,:="
_POSITION = re.compile(r"at position (\d{1,6})\b")


def read_flow_file(data: bytes, *, max_bytes: int | None = None, allowed: Collection[str] = ()) -> FlowFile:
    """The flow in `data`; `InvalidRequest` or `WorkflowTooLarge` if it is invalid or calls what it may not.

    The size is checked before parsing. `allowed` are patterns of callables; none allows all but those of
    Python itself.
    """
    return parse_flow_file(data, read_graph, max_bytes=max_bytes, allowed=allowed)


async def read_flow_file_aside(data: bytes, *, max_bytes: int, allowed: Collection[str]) -> FlowFile:
    """The same without blocking the event loop, one file at a time."""
    read = partial(read_flow_file, data, max_bytes=max_bytes, allowed=allowed)
    return await asyncio.get_running_loop().run_in_executor(_PARSER, read)


def read_graph(text: str, pipes: Mapping[str, str], tasks: Collection[str]) -> FlowGraph:
    """The graph in `text` with its pipes expanded; `GraphFault` names what is wrong."""
    terms = list(_Expansion(pipes).tasks_of(text, (), 0))
    names = [term.node_name or term.name for term in terms]
    nodes = tuple(dict.fromkeys(names))
    if len(nodes) > MAX_NODES:
        raise GraphFault(f"more than {MAX_NODES} nodes")
    if too_long := [name for name in nodes if len(name) > MAX_NODE_ID_CHARS]:
        raise GraphFault(f"the name {shown(too_long[0])} has more than {MAX_NODE_ID_CHARS} characters")
    try:
        flow = build_flow_from_graph(
            graph=text, tasks={name: Task(func=_never_called, name=name) for name in tasks}, pipes=dict(pipes)
        )
    except ValueError as error:
        raise GraphFault(_reason(error)) from error
    except (RecursionError, MemoryError) as error:
        raise GraphFault("an expression is nested too deeply") from error
    if len(nodes) < len(names) and not flow.has_control_flow():
        name = next(name for name in nodes if names.count(name) > 1)
        raise GraphFault(f"task {shown(name)} is used twice and would wait for itself; rename one, as in again: {name}")
    return FlowGraph(nodes=nodes, tasks=frozenset(term.name for term in terms), edges=_edges(flow))


def _edges(flow: Flow) -> tuple[tuple[str, str], ...]:
    """A flow with loops or branches has none: its path is decided while it runs."""
    if flow.has_control_flow():
        return ()
    return tuple(sorted((before.name, task.name) for task in flow.tasks for before in task.dependencies))


def _never_called() -> None:
    raise AssertionError("a flow that is built to be checked is not run")


@dataclass(slots=True)
class _Expansion:
    """Writes out the pipes within the bounds. Each text is parsed once."""

    pipes: Mapping[str, str]
    chars_left: int = MAX_GRAPH_CHARS
    terms_left: int = MAX_PIPE_EXPANDED_TERMS
    parsed: dict[str, Pipeline] = field(default_factory=dict)

    def tasks_of(self, text: str, within: tuple[str, ...], nesting: int) -> Iterator[TaskTerm]:
        """The tasks in the text of the graph, or of the last pipe of `within`, in order."""
        self.chars_left -= len(text)
        if self.chars_left < 0:
            raise GraphFault(f"with its pipes written out, the graph has more than {MAX_GRAPH_CHARS} characters")
        if text not in self.parsed:
            self.parsed[text] = _parse(text, within[-1] if within else None)
        return self._tasks_in(self.parsed[text], within, nesting)

    def _tasks_in(self, pipeline: Pipeline, within: tuple[str, ...], nesting: int) -> Iterator[TaskTerm]:
        if nesting > MAX_NESTING:
            raise GraphFault(f"blocks and pipes are nested deeper than {MAX_NESTING} levels")
        self.terms_left -= len(pipeline.terms)
        if self.terms_left < 0:
            raise GraphFault(f"with its pipes written out, the graph has more than {MAX_PIPE_EXPANDED_TERMS} terms")
        for term in pipeline.terms:
            if isinstance(term, TaskTerm):
                yield term
            elif isinstance(term, PipeRefTerm):
                yield from self._pipe(term.name, within, nesting)
            else:
                for body in _bodies(term):
                    yield from self._tasks_in(body, within, nesting + 1)

    def _pipe(self, name: str, within: tuple[str, ...], nesting: int) -> Iterator[TaskTerm]:
        if name not in self.pipes:
            raise GraphFault(f"there is no pipe {shown(name)}")
        if name in within:
            raise GraphFault(f"pipes refer to each other in a cycle: {' -> '.join([*within, name])[:MAX_REASON_CHARS]}")
        return self.tasks_of(self.pipes[name], (*within, name), nesting + 1)


def _bodies(block: Term) -> Iterator[Pipeline]:
    """The pipelines of a block, whose expressions are short enough to be compiled."""
    if any(len(getattr(block, name, "")) > MAX_EXPRESSION_CHARS for name in ("on", "count", "over", "cond")):
        raise GraphFault(f"an expression has more than {MAX_EXPRESSION_CHARS} characters")
    if not isinstance(block, SwitchTerm):
        yield block.body
        return
    yield from (case.branch for case in block.cases)
    if block.default is not None:
        yield block.default


def _parse(text: str, pipe: str | None, first_line: int = 1) -> Pipeline:
    """The terms of the text, checked as far as that is possible without its pipes and tasks."""
    too_many = GraphFault(f"more than {MAX_TOKENS} words and marks", pipe=pipe)
    # Counted first: tokens take ten times as long.
    if sum(map(text.count, _MARKS)) > MAX_TOKENS:
        raise too_many
    try:
        tokens = tokenize_graph(text)
        if len(tokens) > MAX_TOKENS:
            raise too_many
        for before, token in pairwise(tokens):
            if (before.kind, token.kind) == ("COLON", "STRING"):  # a branch in quotes
                _parse(token.value, pipe, first_line + text.count("\n", 0, token.pos))
        pipeline = GraphParser(tokens).parse()
        _check_keys(tokens)
        errors = validate_graph_terms(pipeline).errors
    except RecursionError as error:
        raise GraphFault("nested too deeply", pipe=pipe) from error
    except ValueError as error:
        reason = _reason(error)
        place = _POSITION.search(reason)
        line = None if place is None else first_line + text.count("\n", 0, int(place[1]))
        raise GraphFault(reason, pipe=pipe, line=line) from error
    if errors:
        raise GraphFault(_reason(errors[0]), pipe=pipe)
    return pipeline


def _check_keys(tokens: Sequence[Token]) -> None:
    """Refuses arguments that pyoco ignores, and repeated ones, of which it takes the last."""
    block, opened = "", [set[str]()]
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.kind in ("LPAREN", "LBRACE"):
            block = before.value
            opened.append(set())
        elif token.kind in ("RPAREN", "RBRACE"):
            opened.pop()
        is_default = (token.value, after.kind) == ("default", "COLON") and before.kind in ("LBRACE", "SEMI")
        if after.kind != "EQUAL" and not is_default:
            continue
        if not is_default and token.value not in _ARGUMENTS[block]:
            known = ", ".join(_ARGUMENTS[block])
            raise ValueError(f"{block}(...) takes {known}, not {shown(token.value)} at position {token.pos}")
        if token.value in opened[-1]:
            raise ValueError(f"{shown(token.value)} is defined twice at position {token.pos}")
        opened[-1].add(token.value)


def _reason(message: object) -> str:
    """What pyoco says, which may quote any text of the file."""
    reason = str(message)[:MAX_REASON_CHARS]
    return reason if reason.isprintable() else repr(reason)
